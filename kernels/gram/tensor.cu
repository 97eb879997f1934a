// C = Aᵀ·A for any A of m×n on the fp64 tensor cores: a tile of the triangle per block, mirrored.
//
// Words       m, n         rows of A, which are the terms of each sum; columns of A, rows and columns of C
//             tile         TILE×TILE elements of C, which a block computes
//             slab         TILE_K rows of A, of the TILE columns that one side of the tile needs; the tile's
//                          rows need a left slab, its columns a right one: a pair
//             ring, stage  the ring is room for STAGES pairs in shared memory, a stage is room for one
//             product      what a warp gives the tensor core at once: 16×STEP times STEP×8 elements
//             step         STEP rows of A, the depth of a product
//             fragments    a lane's operands of one step, in registers
//             portion      one of the PORTIONS parts in which a thread issues a pair's copies
//
// Idea        For a product the tensor core does 128·STEP multiply-adds, in half the time of the vector units
//             (mma.sync on sm_90). Slabs are copied asynchronously, as in gemm/pipelined.cu, and the
//             operands of the next step are loaded while a step is multiplied. C is symmetric: only tiles on
//             and above the diagonal are computed, and each is stored twice.
//
// What lies   global memory                 shared memory, the ring         registers of each lane
// where              A, m×n                stage 0     1      2
//                 row      column          ┌──────┬──────┬──────┐          ┌───────────────────┐
//              ┌────┬────┬────┬────┐       │left  │      │      ├─────────►│ fragments, 2 sets │
//              │    │    │    │    │ ┌────►│      │      │      │          ├───────────────────┤
//              ├────┼────┼────┼────┤ │     │right │      │      ├─────────►│ sums, 4 for each  │
//            s │    │ ▒▒ │    │ ▒▒ ├─┘     └──────┴──────┴──────┘          │ product           │
//              ├────┼────┼────┼────┤                                       └─────────┬─────────┘
//              │    │    │    │    │                     C and its mirror image ◄────┘
//              └────┴────┴────┴────┘
//
//             The tensor core wants both operands with the terms of the sum along a row. Slabs of A have
//             them along a column, which is what Aᵀ·A needs: nothing is transposed.
//
//                  C, n×n                  a block's tile T             a warp's tile
//                 ┌────┬────┬────┐        ┌───────┬───────┬──          ┌───┬───┬───┬───┐
//                 │ ◥  │    │    │        │ warp  │ warp  │            │   │   │   │   │ 16 rows: a row
//                 ├────┼────┼────┤        │  0    │  1    │ WARP_M     ├───┼───┼───┼───┤ of products
//                 │    │ ◥  │ T  │        ├───────┼───────┼──          │   │   │   │   │
//                 ├────┼────┼────┤        │ warp  │ warp  │            └───┴───┴───┴───┘
//                 │    │ T' │ ◥  │        │  4    │  5    │              8 columns each
//                 └────┴────┴────┘        └───────┴───────┴──
//                                           WARP_N
//
//                  order of tiles: patches of PATCH tile rows, column by column in a patch
//                 ┌───┬───┬───┬───┬───┐
//                 │ a │ 0 │ 1 │ 3 │ 5 │   The grid has a block for each tile of the triangle, in this order,
//                 └───┼───┼───┼───┼───┤   and none for others. The tiles of a patch use PATCH slabs of A
//                     │ b │ 2 │ 4 │ 6 │   again and again, which stay in the L2 cache. Tiles on the
//                     └───┼───┼───┼───┤   diagonal, which have fewer products, come last: a, b, c ...
//                         │ c │ 7 │ 8 │
//                         └───┼───┼───┤
//
//             On the diagonal the left slab is both operands, and the warps share out only the rows of
//             products that reach the triangle (the picture in tensor.cuh).
//
// Order       Block   finds the tile of its number, by one thread.
//             Thread  issues its copies of the first STAGES - 1 pairs, waits for those of the first, meets
//                     the block at a barrier, and loads the fragments of step 0.
//             Then, for each pair of slabs s, each warp does each step:
//               1. Only in the last step: wait for this thread's copies of pair s + 1, then meet the block at
//                  a barrier. After it pair s + 1 is complete, and nobody reads pair s any more.
//               2. Load the fragments of the next step into the set that is free.
//               3. For each row of products: issue a portion of the copies of pair s + STAGES - 1, if one is
//                  left, so that the tensor core has work meanwhile; then give the tensor core the products.
//             Lane    stores its sums to C as 2×2 squares, and the squares transposed to the mirror image.
//             Warp    where rows of C begin anywhere, as with odd n: sorts them in the ring's memory, a row of
//                     products at a time, and stores neighbours of a row together.
//
// Where       which tile               tile_position       step 1   wait_for_copies, sync_block
//             which rows of products   warp_tile           step 2   Fragments::load
//             start, loop              multiply_slabs      step 3   multiply_step, SlabCopies::issue
//             stores                   store_pairs, store_words
//             All are in GramTile in tensor.cuh; cp.async is in ../async_copy.cuh.
//
// Traffic     Global memory: 2m/TILE · n²/2 reads of 8 bytes. Shared memory, for a warp and a row of A:
//             WARP_M + WARP_N words of 8 bytes for WARP_M·WARP_N multiply-adds.
// Removes     The vector units' 33 TFLOP/s.
// Limit       Waves: n = 2048 has 136 tiles of 128 for 132 multiprocessors. Power: at the tensor cores' full
//             rate the card lowers its clock.
#include "tensor.cuh"

struct Tiling {
    static constexpr int tile = TILE;                       // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                   // rows of A of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;  // rows and columns of C of a warp
    static constexpr int step = STEP;                       // rows of A of a product, 8 or 16
    static constexpr int stages = STAGES;                   // pairs of slabs that the ring holds
    static constexpr int portions = PORTIONS;               // parts of a slab's copies
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
    static constexpr int patch = PATCH;                     // tile rows of a patch of C
};

using Block = GramTile<Tiling>;

template <bool pairs, bool diagonal>
__device__ __forceinline__ void compute_tile(const double* A, double* C, int m, int n, const int2& at)
{
    extern __shared__ double2 memory[];
    Block::ThreadSums<diagonal> sums = {};
    const int slabs = (m + Tiling::tile_k - 1) / Tiling::tile_k;
    Block::multiply_slabs<pairs, diagonal>(A, m, n, at.x, at.y, 0, slabs, (Block::SlabPair*)memory, sums);
    Block::store<pairs, diagonal>(sums, C, n, at.x, at.y, (double*)memory);
}

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
gram_tensor(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    __shared__ int2 at;  // where the tile begins: registers are scarce while it is multiplied
    if (threadIdx.x == 0) {
        const int2 tile = Block::tile_position(blockIdx.x, n);
        at = {tile.x * Tiling::tile, tile.y * Tiling::tile};
    }
    __syncthreads();
    Block::choose(Block::rows_hold_pairs(A, C, n), at.x == at.y, [&](auto pairs, auto diagonal) {
        compute_tile<pairs.is, diagonal.is>(A, C, m, n, at);
    });
}
