// C = A·B of halves with C in float, for any shape, one thread per element of C.
//
// Idea        The product of ../gemm_bf16/naive.cu on the other numbers of 16 bits. A half has 11 bits of mantissa,
//             so the product of two has 22 and is exact in a float. The sum is a float, and C takes it as it is.
//
// Traffic     Every thread reads 2k numbers of 2 bytes for 2k operations, and writes 4 bytes.
// Limit       Load instructions: two per multiply-add, and a conversion for each number. The tensor cores stand
//             idle.
#include <cuda_fp16.h>

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
naive_f16(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C, int m, int n, int k)
{
    const int row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < k; p++)
        sum += __half2float(A[(size_t)row * k + p]) * __half2float(B[(size_t)p * n + col]);
    C[(size_t)row * n + col] = sum;
}
