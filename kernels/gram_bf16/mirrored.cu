// C = A·Aᵀ in bfloat16: tiles that are stored twice by TMA, the second time transposed on the way.
//
// Words       As in halved.cu, and
//             band         64 rows and 64 columns of a tile, rounded and in shared memory, on their way to C
//
// Idea        In halved.cu a thread stores the mirror image of its sums two bytes at a time, each to another row of C.
//             Here the transposition takes place on the way to shared memory, where it costs nothing: stmatrix stores
//             matrices of 8×8 from the registers of a warp, and can store them transposed. The warpgroup writes each
//             band twice, and TMA stores both as squares of 64×64, whose rows are 128 bytes long.
//
//                  registers of a warpgroup             shared memory              C
//                 ┌────────────────────────┐  stmatrix   ┌──────────┐  TMA   ┌─────────────────┐
//                 │ sums of 64 rows and    │────────────►│ band     │───────►│ ╲      (r, c)   │
//                 │ 64 columns, at (r, c)  │             └──────────┘        │   ╲             │
//                 │                        │  transposed ┌──────────┐        │     ╲           │
//                 │                        │────────────►│ mirrored │───────►│ (c, r) ╲        │
//                 └────────────────────────┘             └──────────┘        └─────────────────┘
//
//             Of a square on the diagonal the bands below it are not stored: they are mirror images. In a band on the
//             diagonal, what lies above is copied to what lies below. So C is symmetric to the bit.
//
// Order       As in ../gemm_bf16/persistent.cu, but a consumer stores each band above the diagonal and then its mirror
//             image.
//
// Where       the bands     Mirror in mirror.cuh; write and store_band in ../hopper_tile.cuh
//             all else      as halved.cu
//
// Takes       m and k of multiples of 8: TMA wants rows that begin at 16 bytes, C's too.
//
// Traffic     As halved.cu from the L2. C is written once, 2m² bytes, of which half follow half as many products as in
//             a product of two matrices.
// Bound       2 less the diagonal: with squares of 256, m(m + 256)/2 elements are computed, so that 1.88 is left at
//             4096 and 1.60 at 1024.
// Removes     The scattered stores.
// Limit       The waves: 4096 has 136 squares of 256 for 66 clusters, two rounds and four squares.
#include "mirror.cuh"

struct Tiling : HopperTiling {
    static constexpr int cluster_m = CLUSTER_M;                         // blocks of a square
    static constexpr int tile_m = TILE_M, tile_n = cluster_m * tile_m;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int patch = PATCH;                                 // rows of squares of a patch
    static constexpr int bands = BANDS;                                 // places for bands of a consumer
    static constexpr int early = cluster_m == 1 ? stages : 2;           // slabs loaded before the cluster meets
    static constexpr bool symmetric = true;
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)
gram_mirrored_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* __restrict__ C, int m, int k,
                   const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::with_bands(slabs, out, [&](auto store_band) {
        Tile::compute_tiles(slabs, {in, in}, m, m, k, [&](Tile::Sums& sums, int2 tile) {
            Mirror<Tiling>::store(sums, tile, m, store_band);
        });
    });
}
