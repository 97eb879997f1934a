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
//               2. If the part lacks the tile's first slab: store the sums to partial_sums, raise the flag.
//               3. If it has the tile's first slab: wait for the flags of all other blocks with slabs of the
//                  tile, add their sums, store the tile and its mirror image.
//
// Where       shares, parts     Schedule and each_part in     step 2   leave_sums in ../stream_k.cuh
//                               ../stream_k.cuh               step 3   add_left_sums in ../stream_k.cuh,
//             order of tiles    tile_position below                    store_squares, store_rows in tensor.cuh
//             step 1            GramTile::multiply_slabs in tensor.cuh
//
// Traffic     As tensor.cu. A block writes and reads a tile of sums at most twice.
// Removes     Idle multiprocessors: in the last wave, below the diagonal, and where n is small.
// Limit       Power at large n; at small n the way of the sums through memory.
#include "../patches.cuh"
#include "../stream_k.cuh"
#include "tensor.cuh"

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

using Block = GramTile<Tiling>;

// What StreamK shares out: tiles off the diagonal are heavy, those on it light. A slab costs the time of
// the warps with the most rows of products.
struct Shares : EachBlock {
    static constexpr int blocks = Tiling::blocks, threads = Block::threads, least = Tiling::least;
    static constexpr int heavy_cost = Block::most_rows<false>, light_cost = Block::most_rows<true>;
};

using Stream = StreamK<Shares>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[Tiling::blocks];
__device__ double partial_sums[Tiling::blocks][Tiling::tile * Tiling::tile];

// How many tiles lie on the diagonal, and how many above it.
__device__ __forceinline__ int on_diagonal(int n) { return (n + Tiling::tile - 1) / Tiling::tile; }
__device__ __forceinline__ int off_diagonal(int n) { return on_diagonal(n) * (on_diagonal(n) - 1) / 2; }

// The position of a tile, in tiles, by its number: first the tiles above the diagonal, patch by patch and
// in a patch by columns, then those on the diagonal.
__device__ int2 tile_position(int tile, int n)
{
    if (tile >= off_diagonal(n)) return {tile - off_diagonal(n), tile - off_diagonal(n)};
    const int2 at = place_in_triangle<Tiling::patch>(tile, on_diagonal(n) - 1);
    return {at.x, at.y + 1};
}

// Compute a part of a tile. The part with the tile's first slab adds what later stretches have left, and
// is stored; any other part is left for another block.
template <bool pairs, bool diagonal>
__device__ __forceinline__ void run(const double* A, double* C, int m, int n,
                                    const Stream::Schedule& schedule, const Stream::Part& part)
{
    extern __shared__ __align__(128) double2 memory[];  // each row begins a sector of 32 bytes
    Block::ThreadSums<diagonal> sums = {};
    {
        const int2 at = tile_position(part.tile, n);
        const int row = at.x * Tiling::tile, col = at.y * Tiling::tile, begin = part.begin, end = part.end;
        Block::SlabPair* ring = (Block::SlabPair*)memory;
        Block::multiply_slabs<pairs, diagonal>(A, m, n, row, col, begin, end, ring, sums);
    }
    constexpr int count = Block::most_rows<diagonal> * Block::products_n * 4;
    if (part.begin > 0) {
        Stream::leave_sums<count>(&sums[0][0][0], partial_sums, flags);
    } else {
        Stream::add_left_sums<count>(&sums[0][0][0], partial_sums, flags, schedule, part);
        const int2 at = tile_position(part.tile, n);  // anew: registers are scarce while a tile is multiplied
        const int row = at.x * Tiling::tile, col = at.y * Tiling::tile;
        if constexpr (pairs)  // store_rows would change ptxas's order of the loops for pairs, 10% at 4096
            Block::store_squares<pairs, diagonal>(sums, C, n, row, col);
        else
            Block::store_rows<pairs, diagonal>(sums, C, n, row, col, (double*)memory);
    }
}

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
gram_tensor_streamed(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    const int slabs = (m + Tiling::tile_k - 1) / Tiling::tile_k;
    Stream::each_part(off_diagonal(n), on_diagonal(n), slabs, [&](const Stream::Schedule& schedule,
                                                                  const Stream::Part& part) {
        const bool on = part.tile >= off_diagonal(n);
        Block::choose(Block::rows_hold_pairs(A, C, n), on, [&](auto pairs, auto diagonal) {
            run<pairs.is, diagonal.is>(A, C, m, n, schedule, part);
        });
    });
}
