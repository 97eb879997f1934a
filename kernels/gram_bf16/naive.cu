// C = alpha·A·Aᵀ + beta·D in bfloat16 for any A of m×k, one thread for each element on the diagonal and above it.
//
// Idea        The definition: C[i][j] is row i of A times row j, and so is C[j][i]. A thread computes one sum in
//             float32 and stores it twice. D is as symmetric as C: only its elements on the diagonal and above it are
//             read, so that C is symmetric to the bit whatever lies below.
//
//                  A, m×k                          C, m×m
//                 ┌──────────────┐                ┌───────────┐
//                 ├──────────────┤ i              │ ╲     ■   │ i    ■  the thread's element
//                 ├──────────────┤                │   ╲       │
//                 ├──────────────┤ j              │ □   ╲     │ j    □  its mirror image
//                 └──────────────┘                └───────────┘
//
// Traffic     2k reads of 2 bytes per thread. The threads of a warp share row i and have k·2 bytes between their rows
//             j: a load of theirs touches 32 sectors of memory, and the L1 has to keep them for the next steps of k.
// Limit       Load instructions, as in ../gemm_bf16/naive.cu. Half of the threads have nothing to do.
#include "../epilogue.cuh"

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
gram_naive_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                const __nv_bfloat16* D)
{
    const int i = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int j = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (j < i || j >= m) return;

    float sum = 0.0f;
    for (int p = 0; p < k; p++)
        sum += __bfloat162float(A[(size_t)i * k + p]) * __bfloat162float(A[(size_t)j * k + p]);
    const size_t own = (size_t)i * m + j, mirror = (size_t)j * m + i;
    C[own] = C[mirror] = __float2bfloat16(Epilogue<ADDS>{alpha, beta, D}.of(sum, D[own]));
}
