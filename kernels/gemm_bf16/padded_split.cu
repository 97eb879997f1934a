// C = A·B in bfloat16 for any shape: copies whose rows begin at 16 bytes, and then as split.cu.
//
// Idea        Rows that begin anywhere are copied as in padded.cu. Where C is small and k long, the clusters of
//             split.cu then work on the copies: there its tiles are too few for all multiprocessors.
//
//                 A, B                      workspace                  clusters
//                 ┌─────────────┐           ┌─────────────┬──┐         ┌──────┬──────┬──────┬──────┐
//                 │ 0 1 ... k-1 │ pad_bf16  │ 0 1 ... k-1 │  │  slabs  │  0   │  1   │  2   │  3   │  one tile
//                 └─────────────┘    ►      └─────────────┴──┘    ►    └──────┴──────┴──────┴──────┘
//
// Traffic     As split.cu, and 4(mk + kn) bytes for the copies.
// Removes     The multiprocessors that have no tile in padded.cu.
// Limit       Two launches, and the copies, which take as long as the product where m and n are small.
#include "../hopper_tile.cuh"
#include "pad.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
    static constexpr int splits = SPLITS;                   // blocks of a cluster, which share a tile
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
    static constexpr bool adds = ADDS;                      // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void
pad_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* C, int m, int n,
         int k, float alpha, float beta, const __nv_bfloat16* D, void* a, void* b,
         const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    pad<Tiling::resident == 1>(A, B, m, n, k, (__nv_bfloat162*)a, (__nv_bfloat162*)b);
}

extern "C" __global__ void __cluster_dims__(Tiling::splits, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
padded_split_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                  __nv_bfloat16* C, int m, int n, int k, float alpha, float beta, const __nv_bfloat16* D, void* a, void* b,
                  const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    const Tile::Addition addition = {alpha, beta, D};
    const int2 tile = Tile::tile_of_cluster();
    Tile::compute_together((Tile::Slab*)memory, {in_a, in_b}, tile, k, [&](float* sums, int row, int column) {
        constexpr int fragments = Tile::own_columns / 8;
        addition.apply_to_fragments<fragments>(sums, m, n, row, column);
#pragma unroll
        for (int j = 0; j < fragments; j++) store_fragment(C, m, n, row, column + 8 * j, &sums[4 * j]);
    });
}
