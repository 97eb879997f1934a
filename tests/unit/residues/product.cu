#include "instructions.cuh"
// A has 64 rows for A and then 128 for B, of 128 bytes.
extern "C" __global__ void f(const double* A, double* C, int m, int n)
{
    __shared__ __align__(1024) signed char rows[192][128];
    for (int i = threadIdx.x; i < 192 * 128; i += 128)
        rows[i / 128][(i % 128 / 16 ^ i / 128 % 8) * 16 + i % 16] = (signed char)A[i];
    fence_async_proxy();
    __syncthreads();
    int sums[64];
    fence_products();
    for (int k = 0; k < 128; k += 32)
        multiply_tiles(sums, operand(&rows[0][k]), operand(&rows[64][k]), k > 0);
    commit_products();
    wait_for_products<0>();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
    for (int i = 0; i < 64; i++)
        C[(row + i / 2 % 2 * 8) * 128 + column + i / 4 * 8 + i % 2] = sums[i];
}
