// C = alpha·A·Aᵀ + beta·D in bfloat16: the blocks of a cluster share the sum of a square.
//
// Words       As in halved.cu, and
//             share        the slabs of a square that one block of the cluster multiplies
//
// Idea        768×768 is 21 squares of 128×128 on the diagonal and above it, for 132 multiprocessors; all of C would be
//             36. Half of the work is no gain where so few blocks do it. So SPLITS blocks compute a square together, as
//             in ../gemm_bf16/split.cu: each multiplies an equal share of its slabs, leaves its sums in its shared
//             memory, and adds and stores a part of the square's columns.
//
//                  squares of C             slabs of one             sums                      stores
//                 ┌───┬───┬───┐            ┌────┬────┬────┬────┐    ┌──┬──┬──┬──┐ block 0
//                 │ 0 │ 1 │ 3 │            │ 0  │ 1  │ 2  │ 3  │    ├──┼──┼──┼──┤   1       of its columns, and
//                 └───┼───┼───┤      ►     └────┴────┴────┴────┘  ► ├──┼──┼──┼──┤   2    ►  mirrored: of its rows
//                     │ 2 │ 4 │             block of the cluster    └┬─┴┬─┴┬─┴┬─┘   3
//                     └───┼───┤                                     added by block 0, 1, 2, 3
//                         │ 5 │
//                         └───┘
//
//             In streamed.cu, which does without clusters for this, sums go through global memory, and blocks wait for
//             each other's flags: some microseconds, as long as all of this product takes.
//
// Order       As in ../gemm_bf16/split.cu; a thread stores its sums twice from registers, as in halved.cu.
//
// Where       shares, sums      compute_together, store_total in HopperTile (../hopper_tile.cuh)
//             order of squares  tile_of_cluster there
//             stores            store_twice in mirror.cuh
//
// Takes       k of a multiple of 8: TMA wants rows of A that begin at 16 bytes. D may be A or C, as in streamed.cu.
//
// Traffic     4k/TILE_M bytes from the L2 for each element that is computed, half of it on the diagonal, and
//             4(SPLITS - 1) between blocks.
// Removes     The idle multiprocessors where C is small, and the way of sums through the L2.
// Limit       What does not shrink with k: a launch, the first slabs, the exchange of the sums; the scattered stores.
#include "mirror.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_M;  // rows and columns of a square
    static constexpr int stages = STAGES;                   // slabs that the ring holds
    static constexpr int splits = SPLITS;                   // blocks of a cluster, which share a square
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
    static constexpr int patch = 1 << 14;                   // rows of squares of a patch: all of them
    static constexpr bool symmetric = true;
    static constexpr bool adds = ADDS;                      // whether C = alpha·A·Aᵀ + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tiling::splits, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
gram_split_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in)
{
    extern __shared__ __align__(1024) char memory[];
    const Tile::Addition addition = {alpha, beta, D};
    Tile::compute_together((Tile::Slab*)memory, {in, in}, m, m, k, [&](float* sums, int row, int column) {
        constexpr int fragments = Tile::own_columns / 8;
        addition.apply_to_fragments<fragments>(sums, m, m, row, column);
        store_twice<fragments>(sums, C, m, row, column);
    });
}
