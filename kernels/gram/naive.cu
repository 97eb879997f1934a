// C = Aᵀ·A for any A of m×n, one thread for each element of C, straight from global memory.
//
// Idea        The definition: C[i][j] is column i of A times column j. C is symmetric,
//             and this kernel does not know it: every element is computed, most of
//             them twice.
//
//                  A, m×n                     C, n×n
//                 i      j                     j
//              ┌──┬┬────┬┬─┐               ┌──────┬┬─┐
//              │  ││    ││ │               │      ││ │
//            m │  ││    ││ │             i ├──────┼┼─┤   row i of C needs column i of A,
//              │  ││    ││ │               │      ││ │   as does column i of C
//              └──┴┴────┴┴─┘               └──────┴┴─┘
//
// Traffic     2m reads of 8 bytes per thread, 16mn² bytes in all. The threads of a warp
//             share i and have neighbouring j: one load is a broadcast, the other is
//             coalesced, and both are rows of A, so no transpose is needed.
// Limit       Load instructions: two for every multiply-add, however well the caches hit.

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
gram_naive(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    const int i = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int j = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (i >= n || j >= n) return;

    double sum = 0.0;
    for (int p = 0; p < m; p++)
        sum += A[(size_t)p * n + i] * A[(size_t)p * n + j];
    C[(size_t)i * n + j] = sum;
}
