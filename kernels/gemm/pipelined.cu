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
//             started in patches of PATCH tile rows, which share their slabs in the L2.
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
#include "pipeline.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;        // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                         // steps of k of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;        // rows and columns of C of a warp
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // results of a thread, in 4×4 squares
    static constexpr int stages = STAGES;                         // slabs that the ring holds
    static constexpr int teams = 1;                               // of warps that share a tile
    static constexpr int across = ACROSS;                       // threads that copy a row of B
    static constexpr int portions = PORTIONS;                     // of a slab's copies, issued one by one
    static constexpr int xor_m = XOR_M, xor_n = XOR_N;    // where, of four, the products start
    static constexpr int resident = RESIDENT;                     // blocks of a multiprocessor
    static constexpr int patch = PATCH;                           // tile rows of a patch of C
};

using Block = BlockTile<Tiling>;

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
pipelined(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
          int m, int n, int k)
{
    extern __shared__ float4 memory[];
    const int2 tile = Block::tile_position(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    const int row = tile.x * Tiling::tile_m, col = tile.y * Tiling::tile_n;
    Block::Slab* ring = (Block::Slab*)memory;
    if (rows_hold_fours(B, C, n) && col + Tiling::tile_n <= n)
        Block::compute_tile<Block::SlabCopies<true>>(A, B, C, m, n, k, row, col, ring);
    else
        Block::compute_tile<Block::SlabCopies<false>>(A, B, C, m, n, k, row, col, ring);
}
