// C = alpha·A·Aᵀ + beta·D in bfloat16: all of C, where it is small.
//
// Words       As in ../gemm_bf16/persistent.cu
//
// Idea        Half of the work is no gain where all of it takes a single wave. 768×768 is 72 tiles of 64×128, for 132
//             multiprocessors; the triangle's squares are 21, each with twice as long a way: two operands of as many
//             rows, and two stores. So this is ../gemm_bf16/persistent.cu with tiles of any form, whose columns of B
//             are rows of A and lie along k.
//
//                  triangle: 21 squares of 128               all of C: 72 tiles of 64×128
//                 ┌───┬───┬───┬───┬───┬───┐                 ┌───┬───┬───┬───┬───┬───┐
//                 │ ▒ │ ▒ │ ▒ │ ▒ │ ▒ │ ▒ │                 ├ ▒ ┼ ▒ ┼ ▒ ┼ ▒ ┼ ▒ ┼ ▒ ┤
//                 └───┼───┼───┼───┼───┼───┤                 ├───┼───┼───┼───┼───┼───┤
//                     │ ▒ │ ▒ │ ▒ │ ▒ │ ▒ │                 ├ ▒ ┼ ▒ ┼ ▒ ┼ ▒ ┼ ▒ ┼ ▒ ┤
//                      ...                                   ...
//
//             Elements (i, j) and (j, i) are sums of the same products in the same order, so C is symmetric to the bit,
//             if D is: all of D is read.
//
// Order       As in ../gemm_bf16/persistent.cu.
//
// Where       b_along_k in HopperTile (../hopper_tile.cuh); D: load_d and add_d there
//
// Takes       m and k of multiples of 8: TMA wants rows that begin at 16 bytes, C's too; m up to 2048. Where k is short, the
//             stores are what takes long: 1136×128 is 108 tiles of 64×192, 2.8 µs, and squares with their mirror images
//             take 5.9.
//
// Traffic     2k(1/(CLUSTER_M·TILE_M) + 1/(CLUSTER_N·TILE_N)) bytes from the L2 per element of C.
//             Rows of A that do not begin at lines of 128 bytes take two of them each, so clusters count twice there.
// Removes     The way of sums through the L2, and the second store of each tile.
// Limit       The start of a block, its first slab and its store; where m and k are long, twice the products.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;              // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;  // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                 // rows of clusters' tiles of a patch
    static constexpr int bands = BANDS;                                 // places for bands of a consumer
    static constexpr int resident = RESIDENT;                           // blocks of a multiprocessor
    static constexpr int early = cluster_m * cluster_n == 1 ? stages : 2;  // slabs loaded before the cluster meets
    static constexpr bool b_along_k = true;
    static constexpr bool d_by_ring = ADDS;                             // whether C = alpha·A·Aᵀ + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
gram_whole_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in_a,
                const __grid_constant__ CUtensorMap in_b, const __grid_constant__ CUtensorMap out,
                const __grid_constant__ CUtensorMap in_d)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::compute_by_bands(slabs, out, [&](auto store) {
        Tile::compute_tiles(slabs, {in_a, in_b, &in_d, alpha, beta}, m, m, k, store);
    });
}
