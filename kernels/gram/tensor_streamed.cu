// C = Aᵀ·A for any A of m×n: the triangle's tiles, in equal shares for as many blocks as there are.
//
// Words       As in tensor.cu for a tile, as in gemm/streamed.cu for shares, stretches and parts. A tile on
//             the diagonal is light, any other is heavy, by the time that a slab takes.
//
// Idea        As gemm/streamed.cu, on the tiles of tensor.cu: RESIDENT blocks on each multiprocessor run
//             once. They take whole tiles of the triangle while there are enough for all, then equal
//             stretches of the slabs that are left. A tall A with a small n has few tiles and many slabs:
//             there the blocks share out its rows. No block starts without work. Tiles on the diagonal have
//             fewer products, and fill up a wave: n = 2048 has 120 tiles of 128 off the diagonal, and 16 on
//             it that cost as much as 12. Together they are one wave of 132 blocks.
//
//                  order of tiles: patches of PATCH tile rows, column by column in a patch
//                 ┌───┬───┬───┬───┬───┐
//                 │ a │ 0 │ 1 │ 3 │ 5 │   The tiles of a patch use PATCH slabs of A again and again, which
//                 └───┼───┼───┼───┼───┤   stay in the L2 cache. Tiles on the diagonal come last: a, b, c ...
//                     │ b │ 2 │ 4 │ 6 │
//                     └───┼───┼───┼───┤
//                         │ c │ 7 │ 8 │
//                         └───┼───┼───┤
//
// What lies   As in tensor.cu, and in global memory partial_sums and flags, in shared memory the schedule and
// where       the part, as in gemm/streamed.cu.
//
// Order       One thread of a block finds its parts one by one. For each part:
//               1. The warps multiply the part's slabs, as in tensor.cu.
//               2. If the part lacks the tile's last slab: store the sums to partial_sums, raise the flag.
//               3. If it has the tile's last slab: wait for the flags of all other blocks with slabs of the
//                  tile, add their sums, store the tile and its mirror image.
//
// Where       shares, parts     Schedule and each_part in     step 2   leave_sums in ../stream_k.cuh
//                               ../stream_k.cuh               step 3   add_left_sums in ../stream_k.cuh,
//             order of tiles    tile_position, and run in              store_squares, store_rows in tensor.cuh
//             step 1            GramTile::multiply_slabs in tensor.cuh
//
// Traffic     As tensor.cu. A block writes and reads a tile of sums at most twice.
// Removes     Idle multiprocessors: in the last wave, below the diagonal, and where n is small.
// Limit       Power at large n; at small n the way of the sums through memory.
#include "tensor_streamed.cuh"

struct Tiling {
    static constexpr int tile = TILE;                          // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                      // rows of A of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;     // rows and columns of C of a warp
    static constexpr int step = STEP;                          // rows of A of a product, 8 or 16
    static constexpr int stages = STAGES;                      // pairs of slabs that the ring holds
    static constexpr int portions = PORTIONS;                  // parts of a slab's copies
    static constexpr int resident = RESIDENT;                  // blocks of a multiprocessor
    static constexpr int blocks = resident * MULTIPROCESSORS;  // blocks of the grid
    static constexpr int least = LEAST;                        // the fewest slabs worth a stretch
    static constexpr int patch = PATCH;                        // tile rows of a patch of C
};

using Gram = StreamedGram<Tiling>;

__device__ unsigned flags[Tiling::blocks];
__device__ Gram::Sums partial_sums[Tiling::blocks];

extern "C" __global__ void __launch_bounds__(Gram::Block::threads, Tiling::resident)
gram_tensor_streamed(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    extern __shared__ __align__(128) double2 memory[];
    Gram::compute(A, C, m, n, (Gram::Block::SlabPair*)memory, {partial_sums, flags});
}
