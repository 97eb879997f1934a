// C = A·B in float32 by halves: a launch for each factor splits it into a half and what is left, 2048 times as
// large; the next one adds up three products of these on the tensor cores, with the sign turned round, so that
// the last launch has something to do.
#include "../../../kernels/instructions.cuh"

__device__ void split(const float* matrix, void* parts, int rows, int columns)
{
    const long i = blockIdx.x * 256l + threadIdx.x;
    if (i >= (long)rows * columns) return;
    const int pitch = (columns + 7) / 8 * 8;
    __half* high = (__half*)parts + i / columns * pitch + i % columns;
    *high = __float2half_rn(matrix[i]);
    high[(long)rows * pitch] = __float2half_rn((matrix[i] - __half2float(*high)) * 2048);
}

#define OPERANDS const float* A, const float* B, float* C, int m, int n, int k, void* parts_of_a, \
    void* parts_of_b, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b

extern "C" __global__ void split_a(OPERANDS) { split(A, parts_of_a, m, k); }

extern "C" __global__ void split_b(OPERANDS) { split(B, parts_of_b, k, n); }

extern "C" __global__ void negate(OPERANDS)
{
    const long i = blockIdx.x * 256l + threadIdx.x;
    if (i < (long)m * n) C[i] = -C[i];
}

extern "C" __global__ void __launch_bounds__(128) split(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full;
    auto* parts = (__half(*)[64][64])memory;  // high and low of A, high and low of B
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    if (threadIdx.x == 0) {
        init_mbarrier(full, 1);
        publish_mbarriers();
    }
    __syncthreads();
    float high[32], low[32], total[32] = {};
    for (int start = 0; start < k; start += 64) {
        if (threadIdx.x == 0) {
            expect_bytes(full, 4 * sizeof *parts);
            for (int part = 0; part < 2; part++) {
                load_tile(parts[part], in_a, full, part, row, start);
                load_tile(parts[2 + part], in_b, full, part, start, column);
            }
        }
        wait_for_phase(full, start / 64 % 2);
        fence_products();
        const auto add = [&](float (&sums)[32], int a, int b, int step, bool more) {
            multiply_tiles<__half, true>(sums, operand(&parts[a][0][16 * step]),
                                         operand(parts[2 + b][16 * step]), more);
        };
#pragma unroll
        for (int step = 0; step < 4; step++) {
            add(high, 0, 0, step, step > 0);
            add(low, 1, 0, step, step > 0);
            add(low, 0, 1, step, true);
        }
        commit_products();
        wait_for_products<0>();
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; i++) total[i] += high[i] + low[i] / 2048;
    }
    const int at = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, across = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int y = row + at + i % 4 / 2 * 8, x = column + i / 4 * 8 + across + i % 2;
        if (y < m && x < n) C[(long)y * n + x] = -total[i];
    }
}
