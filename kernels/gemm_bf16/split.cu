// C = A·B in bfloat16: the blocks of a cluster share the sum of a tile.
//
// Words       As in roles.cu, and
//             share        the slabs of a tile that one block of the cluster multiplies
//
// Idea        A small C has fewer tiles than the device has multiprocessors, and smaller tiles need more bytes for
//             each multiply-add. Here SPLITS blocks, a cluster, compute one tile: each multiplies an equal share
//             of its slabs. Then each leaves its sums in its shared memory, and adds and stores a part of the
//             columns, reading the sums of the other blocks where they are. No sum goes through global memory,
//             and the order of the additions is always the same.
//
//                          k ►                                     sums in shared memory
//                 ┌──────┬──────┬──────┬──────┐         block 0   ┌────┬────┬────┬────┐
//               m │  0   │  1   │  2   │  3   │               1   ├────┼────┼────┼────┤
//               ▼ └──────┴──────┴──────┴──────┘               2   ├────┼────┼────┼────┤
//                 slabs of A (and of B) by block              3   └─┬──┴─┬──┴─┬──┴─┬──┘
//                                                    added by block 0    1    2    3
//
// Order       Producer and consumers as in roles.cu, for the slabs of the share, once the last launch has ended
//             (../overlap.cuh). Then
//               1. The consumers of a block meet: nobody reads the ring any more. They write their sums there.
//               2. The cluster meets.
//               3. Each consumer adds what the same thread of each block has for its block's columns, from its
//                  own block on, so that no two read the same one at a time, and stores the sum.
//               4. The cluster meets: nobody reads another block's sums any more.
//
// Where       compute_together, leave_sums (step 1) and store_total (step 3) in HopperTile (../hopper_tile.cuh)
//
// Takes       n and k that are multiples of 8: TMA wants rows that begin at 16 bytes.
//
// Traffic     2k(1/TILE_M + 1/TILE_N) bytes from the L2 per element of C, and 4(SPLITS - 1) between blocks.
// Removes     The idle multiprocessors where C is small and k long.
// Limit       What does not shrink with k: a launch, the first slabs, and the exchange of the sums, of which a
//             multiprocessor gets some 25 bytes a nanosecond from others: 4·TILE_M·TILE_N bytes take 0.7 µs for
//             64×64 and 2.6 for 128×128.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
    static constexpr int splits = SPLITS;                   // blocks of a cluster, which share a tile
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
    static constexpr bool adds = ADDS;                      // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tiling::splits, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
split_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* C, int m, int n,
           int k, float alpha, float beta, const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in_a,
           const __grid_constant__ CUtensorMap in_b)
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
