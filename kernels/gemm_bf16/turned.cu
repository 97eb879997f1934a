// C = A·B in bfloat16: tiles with any multiple of 16 rows, so that they fit C.
//
// Words       turned       an instruction's 64 rows are columns of C, and its columns are rows of C
//             tile, slab, ring, stage, producer, consumer, cluster, patch, band, overlap, D, early: as in persistent.cu
//
// Idea        An instruction of the tensor cores multiplies 64 rows by 8, 16, ... or 256 columns. So rows come in 64s
//             and columns in 8s. In persistent.cu the rows are rows of C, and columns of a tile come in 64s as well, since
//             TMA brings B in panels of 64 columns (a row of 128 bytes). Cᵀ = Bᵀ·Aᵀ turns that round: the 64 rows are
//             columns of C, a whole panel of B, and the columns are rows of A, of which TMA brings as many as are
//             asked for.
//
//                  persistent.cu                       here
//                          n ► 64, 128, 192, 256              n ► 64 of each instruction
//                        ┌──────────────────┐                ┌────┬────┬────┬────┐
//                      m │ 64 rows          │              m │    │    │    │    │
//                      ▼ ├──────────────────┤              ▼ │    │    │    │    │ 144, 160, 176, ...
//                        │ 64 rows          │                └────┴────┴────┴────┘
//                        └──────────────────┘
//
//             8568×1944 is 45 by 16 tiles of 192×128, five and a half waves on 132 multiprocessors; 49 by 8 tiles of
//             176×256 are three waves less four tiles, and take 0.92 of the time. A card at its limit of power gains
//             twice: zeros beyond C's edges are multiplied for as many joules as numbers, and a multiprocessor that
//             waits draws 0.6 of what it draws at work.
//
//             A lane's sums lie along columns of C now. stmatrix.trans writes them to the band as rows of C, and
//             ldmatrix.trans reads D so. The last band of a tile may have fewer rows than 64: TMA stores 16 at a time.
//
// Order       As in persistent.cu.
//
// Where       multiply_steps, add_d, each_band and write in ../hopper_tile.cuh
//
// Takes       n and k that are multiples of 8, as persistent.cu.
//
// Traffic     As persistent.cu.
// Removes     What a tile has beyond C, and waves that are almost empty.
// Limit       Power.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;                 // rows and columns of C of a block
    static constexpr bool turned = true;
    static constexpr int group = GROUP_N;                                  // columns of C of a consumer
    static constexpr int stages = STAGES;                                  // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;     // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                    // rows of clusters' tiles of a patch
    static constexpr int bands = BANDS;                                    // places for bands of a consumer
    static constexpr int early = cluster_m * cluster_n == 1 ? stages : 2;  // slabs loaded before the cluster meets
    static constexpr bool d_by_ring = ADDS;                                // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, 1)
turned_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
            __nv_bfloat16* C, int m, int n, int k, float alpha, float beta, const __nv_bfloat16* D,
            const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b,
            const __grid_constant__ CUtensorMap out,
            const __grid_constant__ CUtensorMap in_d)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::compute_by_bands(slabs, out, [&](auto store) {
        Tile::compute_tiles(slabs, {in_a, in_b, &in_d, alpha, beta}, m, n, k, store);
    });
}
