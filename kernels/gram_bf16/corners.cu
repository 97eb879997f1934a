// C = alpha·A·Aᵀ + beta·D in bfloat16: four squares on the diagonal for three blocks.
//
// Words       As in mirrored.cu, with a block for each square of 128, and
//             corner       a square on the diagonal
//             quarter      64 rows and 64 columns of a square, what a band holds
//
// Idea        2048 has 136 squares of 128, four more than an H100 has multiprocessors: whole squares take two rounds, as
//             long as all 256 of C. To share out the last ones (streamed.cu) sends sums through the L2. But of a corner
//             one quarter of four is a mirror image. So three corners have room for the fourth one's quarters:
//
//                  corner 0       corner 1       corner 2          corner 3
//                 ┌───┬───┐      ┌───┬───┐      ┌───┬───┐         ┌───┬───┐
//                 │   │   │      │   │   │      │   │   │         │ a │ b │
//                 └───┼───┤      └───┼───┤      └───┼───┤         └───┼───┤
//                   a │   │        b │   │        c │   │             │ c │
//                     └───┘          └───┘          └───┘             └───┘
//
//             That makes m/128·(m/128 + 1)/2 - m/512 blocks: 132 of 2048, a round without a gap.
//
// Order       As in mirrored.cu; the corners come first. A block of a corner loads the rows of both corners, as many as any
//             other block. Its first consumer multiplies two quarters side by side; the second one has two of their own
//             operands.
//
// Where       order       place_with_corners in ../patches.cuh
//             products    Corners in ../hopper_tile.cuh
//             stores      Mirror in mirror.cuh
//             D           load_d and add_d in ../hopper_tile.cuh; persistent.cu explains them
//
// Takes       m and k of multiples of 8, as mirrored.cu; m up to 4096. Beyond that clusters, which read the L2 half as
//             often, are faster, at 6456×6456 almost twice as fast.
//
// Traffic     4k/128 bytes from the L2 for each element that is computed; C is written once.
// Bound       2 less the last round's gaps and the quarters on the diagonal, of which half is computed twice: 1.94 at 2048.
// Removes     The way of sums through the L2, where so many blocks fill a round.
// Limit       The first slab and the stores, which nothing else overlaps in a single round.
#include "mirror.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = 128, tile_n = 128;  // rows and columns of C of a block
    static constexpr int stages = STAGES;             // slabs that the ring holds
    static constexpr int patch = PATCH;               // rows of squares of a patch
    static constexpr int bands = BANDS;               // places for bands of a consumer
    static constexpr int early = stages;              // slabs loaded before the block meets
    static constexpr bool symmetric = true, corners = true;
    static constexpr bool d_by_ring = ADDS;           // whether C = alpha·A·Aᵀ + beta·D
};

using Tile = HopperTile<Tiling>;

// The way out: of a tile, or of two quarters.
template <class StoreBand>
struct Store {
    StoreBand store_band;
    int m;

    __device__ __forceinline__ void operator()(Tile::Sums& sums, int2 tile) const
    {
        Mirror<Tiling>::store(sums, {min(tile.x, tile.y), tile.y}, m, store_band);
    }

    __device__ __forceinline__ void operator()(Tile::SumsOfQuarter& own, Tile::SumsOfQuarter& other, int2 tile) const
    {
        const int2 first = Tile::quarter(tile, true), second = Tile::quarter(tile, false);
        Mirror<Tiling>::store_twice(own, first.x, first.y, m, store_band);
        Mirror<Tiling>::store_twice(other, second.x, second.y, m, store_band);
    }
};

extern "C" __global__ void __launch_bounds__(Tile::consumer_threads + 128, 1)
gram_corners_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                  const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in,
                  const __grid_constant__ CUtensorMap out,
                  const __grid_constant__ CUtensorMap in_d)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::with_bands(slabs, out, [&](auto store_band) {
        Tile::compute_tiles(slabs, {in, in, &in_d, alpha, beta}, m, m, k, Store<decltype(store_band)>{store_band, m});
    });
}
