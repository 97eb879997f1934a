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
//             On the diagonal the left slab is both operands, and the warps share out only the rows of
//             products that reach the triangle (the picture in tensor.cuh).
//
// Order       Thread  issues its copies of the first STAGES - 1 pairs, waits for those of the first, meets
//                     the block at a barrier, and loads the fragments of step 0.
//             Then, for each pair of slabs s, each warp does each step:
//               1. Only in the last step: wait for this thread's copies of pair s + 1, then meet the block at
//                  a barrier. After it pair s + 1 is complete, and nobody reads pair s any more.
//               2. Load the fragments of the next step into the set that is free.
//               3. For each row of products: issue a portion of the copies of pair s + STAGES - 1, if one is
//                  left, so that the tensor core has work meanwhile; then give the tensor core the products.
//             Lane    stores its sums to C as 2×2 squares, and the squares transposed to the mirror image.
//                     Where n is no multiple of 4 a square's rows begin inside a sector: then the sums pass
//                     through the ring's memory, and a warp stores longer pieces of rows.
//
// Where       which rows of products   warp_tile           step 1   wait_for_copies, sync_block
//             start, loop              multiply_slabs      step 2   Fragments::load
//             stores                   store_squares, _rows  step 3   multiply_step, SlabCopies::issue
//             All are in GramTile in tensor.cuh; cp.async is in ../async_copy.cuh.
//
// Traffic     Global memory: 2m/TILE · n²/2 reads of 8 bytes. Shared memory, for a warp and a row of A:
//             WARP_M + WARP_N words of 8 bytes for WARP_M·WARP_N multiply-adds.
// Removes     The vector units' 33 TFLOP/s.
// Limit       Waves: n = 2048 has 136 tiles of 128 for 132 multiprocessors. Power: at the tensor cores' full
//             rate the card lowers its clock. Few slabs: a block's start and stores have to overlap with other
//             blocks' products, which small tiles allow, and reads of A from the L2, of which large tiles have
//             fewer.
#include "../overlap.cuh"
#include "tensor.cuh"

struct Tiling {
    static constexpr int tile = TILE;                       // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                   // rows of A of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;  // rows and columns of C of a warp
    static constexpr int step = STEP;                       // rows of A of a product, 8 or 16
    static constexpr int stages = STAGES;                   // pairs of slabs that the ring holds
    static constexpr int portions = PORTIONS;               // parts of a slab's copies
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
};

using Block = GramTile<Tiling>;

// The position of this block's tile, in tiles. The grid is the triangle, cut and folded to a rectangle of full rows:
//
//     4 tiles     0a 0b 0c 0d       3d 0a 0b 0c 0d       5 tiles     0a 0b 0c 0d 0e       0a 0b 0c 0d 0e
//     each way       1b 1c 1d  ──►  2d 2c 1b 1c 1d       each way       1b 1c 1d 1e  ──►  4e 1b 1c 1d 1e
//                       2c 2d                                              2c 2d 2e       3e 3d 2c 2d 2e
//                          3d                                                 3d 3e
__device__ __forceinline__ int2 tile_position(int n)
{
    const int tiles = (n + Tiling::tile - 1) / Tiling::tile, shift = 1 - tiles % 2;
    const int x = blockIdx.x, y = blockIdx.y;
    if (x - shift >= y) return {y, x - shift};
    return {tiles - shift - y, tiles - 1 - x};
}

template <bool pairs, bool diagonal>
__device__ __forceinline__ void compute_tile(const double* A, double* C, int m, int n, int row, int col)
{
    extern __shared__ double2 memory[];
    Block::ThreadSums<diagonal> sums = {};
    const int slabs = (m + Tiling::tile_k - 1) / Tiling::tile_k;
    Block::multiply_slabs<pairs, diagonal>(A, m, n, row, col, 0, slabs, (Block::SlabPair*)memory, sums);
    if (pairs && (diagonal || n % 4 == 0))
        Block::store_squares<pairs, diagonal>(sums, C, n, row, col);
    else
        Block::store_rows<pairs && !diagonal, diagonal>(sums, C, n, row, col, (double*)memory);
}

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
gram_tensor(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    const int2 at = tile_position(n);
    const int row = at.x * Tiling::tile, col = at.y * Tiling::tile;
    wait_for_last_launch();
    Block::choose(Block::rows_hold_pairs(A, C, n), row == col, [&](auto pairs, auto diagonal) {
        compute_tile<pairs.is, diagonal.is>(A, C, m, n, row, col);
    });
}
