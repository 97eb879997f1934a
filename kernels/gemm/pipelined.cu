// C = A·B for any shape and alignment: warp tiles, fed by asynchronous copies in several stages.
//
// Idea        In vectors.cu a block loads a slab, waits, multiplies, waits. Here the copies of the
//             next STAGES - 1 slabs are under way while one is multiplied, and they go from global
//             to shared memory past the registers (cp.async): no thread waits for one. Likewise
//             in the small: while a step of k is multiplied, the next step's operands are on their
//             way from shared memory to a second set of registers.
//
//                  C: TILE_M×TILE_N of a block          a warp's tile: WARP_M×WARP_N
//                 ┌───────┬───────┐                    ┌──┬──┬──┬──┬──┬──┬──┬──┐
//                 │ warp  │ warp  │                    │▓▓│  │  │  │▓▓│  │  │  │  ▓ one lane's
//                 │  0    │  1    │                    ├──┼──┼──┼──┼──┼──┼──┼──┤  results, in
//                 ├───────┼───────┤                    │  │  │  │  │  │  │  │  │  squares of 4×4
//                 │ warp  │ warp  │                    ├──┼──┼──┼──┼──┼──┼──┼──┤
//                 │  2    │  3    │                    │▓▓│  │  │  │▓▓│  │  │  │
//                 └───────┴───────┘                    └──┴──┴──┴──┴──┴──┴──┴──┘
//
//             The squares of a warp's tile that lie beside each other belong to lanes beside each
//             other, in an order in which shared memory serves sixteen lanes at once. Blocks are
//             started in patches of GROUP tile rows, which share their slabs in the L2.
//
// Traffic     Global memory: k(1/TILE_M + 1/TILE_N) reads of 4 bytes per element of C. Shared
//             memory: (THREAD_M + THREAD_N)/4 loads of 16 bytes for THREAD_M·THREAD_N
//             multiply-adds, 6 for 128 with 8×16.
// Removes     The waiting for memory: one barrier a slab is left, and it costs little where two
//             blocks share a multiprocessor.
// Limit       Issue slots: of some 2220 instructions of the loop 2048 are multiply-adds. The register
//             file: which operands lie in which of its banks, by the order of the multiply-adds, which
//             ptxas keeps at its level 1 (WORKLOG.md). And whole waves: with two blocks on each of 132
//             multiprocessors the 576 tiles of n = 3000 take three waves for the work of 2.2.
constexpr int SLICES = 1;  // one team of warps
#include "pipeline.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
pipelined(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
          int m, int n, int k)
{
    extern __shared__ float4 memory[];
    const int2 where = place(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    const int row = where.x * TILE_M, col = where.y * TILE_N;
    if (in_fours(B, C, n) && col + TILE_N <= n)
        tile<Copies<true>>(A, B, C, m, n, k, row, col, (Slab*)memory);
    else
        tile<Copies<false>>(A, B, C, m, n, k, row, col, (Slab*)memory);
}
