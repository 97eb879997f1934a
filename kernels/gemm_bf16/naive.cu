// C = A·B in bfloat16 for any shape, one thread per element of C; the sum is a float.
//
// Idea        The naive product of gemm/naive_rect.cu on numbers of half the bytes. A bfloat16 is the upper
//             half of a float: the same exponent, and 8 bits of mantissa instead of 24. The product of two
//             of them has 16 bits, so it is exact in a float. The sum stays a float until the end, where C
//             is rounded once: a sum of bfloat16 would stop growing at 256 times its terms.
//
//                 a  bfloat16 ─┐  exact
//                              ├──────► float ──► sum, a float ──► C, rounded to bfloat16
//                 b  bfloat16 ─┘        each addition rounds to 24 bits
//
// Traffic     Every thread reads 2k numbers of 2 bytes for 2k operations: 2 bytes per operation, half of
//             what float32 needs. The threads of a warp share one element of A, and read 64 bytes of B.
// Limit       Load instructions: two per multiply-add, and a conversion for each number. The tensor cores,
//             which multiply 16×8×16 of these numbers at once, stand idle.
#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
naive_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
           __nv_bfloat16* __restrict__ C, int m, int n, int k)
{
    const int row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < k; p++)
        sum += __bfloat162float(A[(size_t)row * k + p]) * __bfloat162float(B[(size_t)p * n + col]);
    C[(size_t)row * n + col] = __float2bfloat16(sum);
}
