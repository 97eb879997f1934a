// C = A·B for any shape and alignment: warp tiles, fed by asynchronous copies in several stages.
//
// Words       m, n, k      rows of C, columns of C, terms of each sum; a term is a step of k
//             tile         TILE_M×TILE_N elements of C, which a block computes
//             slab         what TILE_K steps of a tile need: TILE_M×TILE_K of A and TILE_K×TILE_N of B
//             ring, stage  the ring is room for STAGES slabs in shared memory, a stage is room for one
//             fragments    the operands of one step in a thread's registers: THREAD_M of A, THREAD_N of B
//             portion      one of the PORTIONS parts in which a thread issues a slab's copies
//             lane         a thread of a warp, 0 to 31
//
// Idea        In vectors.cu a block loads a slab, waits, multiplies, waits. Here the copies of the next
//             STAGES - 1 slabs are under way while one slab is multiplied. They go from global to shared
//             memory without passing registers (cp.async), so no thread waits for one. The same again on
//             a smaller scale: while one step is multiplied, the operands of the next step come from
//             shared memory into a second set of registers.
//
// What lies   global memory            shared memory, the ring             registers of each thread
// where                               stage 0      1      2      3
//                  k ►  slab          ┌──────┬──────┬──────┬──────┐  row p of a   ┌───────────────────┐
//              ┌──────┬────┬────┐     │ a    │      │      │      ├──────────────►│ fragments, 2 sets │
//            m │ A    │▒▒▒▒│    ├────►│      │      │      │      │  row p of b   ├───────────────────┤
//            ▼ └──────┴────┴────┘     │ b    │      │      │      ├──────────────►│ sums:             │
//                  n ►                └──────┴──────┴──────┴──────┘               │ THREAD_M×THREAD_N │
//              ┌──────┬──┬──────┐       ▲ is   has    is under is                 └─────────┬─────────┘
//            k │ B    │▒▒│      ├───────┘ read arrived way     free                 C ◄─────┘
//            ▼ └──────┴──┴──────┘
//
//             A lies transposed in its slab, so that a step's operands are neighbours: a[k][row], b[k][col].
//
//                  a block's tile of C                  a warp's tile of C
//                 ┌───────┬───────┐                    ┌──┬──┬──┬──┬──┬──┬──┬──┐
//                 │ warp  │ warp  │  WARP_M            │▓▓│  │  │  │▓▓│  │  │  │  ▓ the results of lane 0,
//                 │  0    │  1    │                    ├──┼──┼──┼──┼──┼──┼──┼──┤  squares of 4×4. The
//                 ├───────┼───────┤                    │  │  │  │  │  │  │  │  │  squares beside one belong
//                 │ warp  │ warp  │                    ├──┼──┼──┼──┼──┼──┼──┼──┤  to other lanes, so that
//                 │  2    │  3    │                    │▓▓│  │  │  │▓▓│  │  │  │  sixteen lanes read few
//                 └───────┴───────┘                    └──┴──┴──┴──┴──┴──┴──┴──┘  different words.
//                   WARP_N
//
// Order       Block   finds its tile. Blocks that run at the same time have tiles in a patch of PATCH tile
//                     rows, and so they share slabs in the L2 cache.
//             Thread  issues its copies of the slabs 0 to STAGES - 2, waits for those of slab 0, meets the
//                     block at a barrier, and loads the fragments of step 0.
//             Then, for each slab s, all threads do each step p = 0 to TILE_K - 1:
//               1. Only in the last step: wait for this thread's copies of slab s + 1, then meet the block
//                  at a barrier. After it slab s + 1 is complete, and nobody reads slab s any more.
//               2. Load the fragments of the next step into the set that is free.
//               3. In every (TILE_K / PORTIONS)th step: issue a portion of the copies of slab
//                  s + STAGES - 1, into the stage that slab s - 1 has left. A copy of A is one word, which
//                  goes to its transposed place. A copy of B is four words; it is one word where rows do
//                  not begin at 16 bytes.
//               4. Multiply step p: THREAD_M·THREAD_N multiply-adds, to and fro along the rows of the
//                  results, in the order i ^ XOR_M and j ^ XOR_N.
//             Thread  stores its sums to C, four words at a time. Where they have to go word by word, a
//                     warp sorts them in shared memory first, so that its lanes store neighbouring words.
//
// Where       patches       BlockTile::tile_position      step 1   SlabCopies::wait, sync_team
//             start, loop   Pipeline                      step 2   Fragments::load
//             stores        store_fours, store_words      step 3   SlabCopies::issue
//             all of it     compute_tile                  step 4   Fragments::multiply
//             All are in pipeline.cuh; cp.async is in ../async_copy.cuh.
//
// Traffic     Global memory: k(1/TILE_M + 1/TILE_N) reads of 4 bytes per element of C. Shared memory:
//             (THREAD_M + THREAD_N)/4 loads of 16 bytes for THREAD_M·THREAD_N multiply-adds, which is 6 for
//             128 with 8×16. With a tile of 128×128×16 by 128 threads, a thread issues 16 copies of 4 bytes
//             and 4 of 16 bytes for a slab; a slab has 16.6 KB, four of them 66.6 KB.
// Removes     The waiting for memory. One barrier a slab is left, and it costs little where two blocks share
//             a multiprocessor.
// Limit       Issue slots: 2048 of some 2220 instructions of the loop are multiply-adds. The register file:
//             the order of the multiply-adds decides which operands lie in which of its banks; ptxas keeps
//             that order at its level 1 (WORKLOG.md). And whole waves: with two blocks on each of 132
//             multiprocessors the 576 tiles of n = 3000 take three waves for the work of 2.2.
#include "../overlap.cuh"
#include "pipeline.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;          // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                           // steps of k of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;          // rows and columns of C of a warp
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // and of a thread, in squares of 4×4
    static constexpr int stages = STAGES;                           // slabs that the ring holds
    static constexpr int teams = 1;                                 // teams of warps that share a tile
    static constexpr int across = ACROSS;                           // threads that copy a row of B
    static constexpr int portions = PORTIONS;                       // parts of a slab's copies
    static constexpr int xor_m = XOR_M, xor_n = XOR_N;              // order of products: i ^ xor_m, j ^ xor_n
    static constexpr int resident = RESIDENT;                       // blocks of a multiprocessor
    static constexpr int patch = PATCH;                             // tile rows of a patch of C
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
    wait_for_last_launch();
    if (Block::takes_fours(B, C, n, col))
        Block::compute_tile<Block::SlabCopies<true>>(A, B, C, m, n, k, row, col, ring);
    else
        Block::compute_tile<Block::SlabCopies<false>>(A, B, C, m, n, k, row, col, ring);
}
