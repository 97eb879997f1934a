// C = alpha·A·Aᵀ + beta·D in bfloat16: the triangle's squares in equal shares for as many clusters as there are.
//
// Words       As in mirrored.cu, and as in ../gemm_bf16/streamed.cu for shares, stretches and parts
//
// Idea        A triangle has few squares: 2048 has 36 of 256×256, for 66 clusters of an H100, where all of C has 64, a
//             round. With whole squares half of the work would take as long as all of it. So each cluster gets an
//             equal share of the slabs, as in ../gemm_bf16/streamed.cu: whole squares while there are enough, then one
//             stretch of the slabs that are left. Squares on the diagonal cost as much as others.
//
//                  slabs of the squares that are left: 10, for four clusters
//                 ┌───────┬───────┬───────┬───────┬───────┬─ ... ─┬───────┐
//                 │ (0,0) │ (0,1) │ (1,1) │ (0,2) │ (1,2) │       │ (3,3) │
//                 ├───────┴───────┴───┬───┴───────┴───────┴─ ... ─┴───────┤
//                 │ stretch 0         │ stretch 1 ...                     │
//                 └───────────────────┴───────────────────────────────────┘
//
//             The way out takes what Muon's step and BLAS's SYRK want: alpha·A·Aᵀ + beta·D, where the sums still are
//             float32 in registers (../epilogue.cuh). Of D the part on the diagonal and above it is read, in the bands
//             that are stored, and mirrored with them. D may be A, where both are square, and may be C.
//
// Order       As in ../gemm_bf16/streamed.cu; a tile is stored as in mirrored.cu.
//
// Where       shares     HopperShare in ../hopper_share.cuh
//             bands      Mirror in mirror.cuh
//             D          load_d and add_d in ../hopper_tile.cuh; persistent.cu explains them
//
// Takes       m and k of multiples of 8, as mirrored.cu.
//
// Traffic     As mirrored.cu, and m² bytes of D where it is added, half of it. A block writes and reads a tile of sums,
//             of four bytes each, at most twice.
// Removes     Idle multiprocessors in the last round, and where the triangle has fewer squares than the card clusters.
// Limit       Power at large m; the way of sums through the L2 at small m, some microseconds.
#include "../hopper_share.cuh"
#include "mirror.cuh"

struct Tiling : HopperTiling {
    static constexpr int cluster_m = CLUSTER_M;                         // blocks of a square
    static constexpr int tile_m = TILE_M, tile_n = cluster_m * tile_m;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int patch = PATCH;                                 // rows of squares of a patch
    static constexpr int bands = BANDS;                                 // places for bands of a consumer
    static constexpr int blocks = MULTIPROCESSORS;                      // blocks of the grid
    static constexpr int least = LEAST;                                 // the fewest slabs worth a stretch
    static constexpr bool symmetric = true;
    static constexpr bool d_by_ring = ADDS;                             // whether C = alpha·A·Aᵀ + beta·D
};

using Tile = HopperTile<Tiling>;
using Share = HopperShare<Tiling>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[Tiling::blocks];
__device__ Share::BlockSums partial_sums[Tiling::blocks];

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)
gram_streamed_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                   const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in,
                   const __grid_constant__ CUtensorMap out,
                   const __grid_constant__ CUtensorMap in_d)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::with_bands(slabs, out, [&](auto store_band) {
        Share::compute(slabs, {in, in, &in_d, alpha, beta}, m, m, k, {partial_sums, flags}, [&](Tile::Sums& sums, int2 tile) {
            Mirror<Tiling>::store(sums, tile, m, store_band);
        });
    });
}
