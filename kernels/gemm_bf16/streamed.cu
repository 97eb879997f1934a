// C = A·B in bfloat16, in equal shares for as many clusters as there are.
//
// Words       As in persistent.cu, and
//             share        the slabs that a cluster multiplies: whole tiles, then a stretch
//             stretch      neighbouring slabs of the tiles that are left, regardless of where tiles begin
//             part         what a share has of one tile
//
// Idea        In persistent.cu a cluster takes whole tiles. 3000×3000 has 144 pairs of tiles of 128×256 for 66
//             clusters: two rounds are full, and in a third one 12 clusters work for all. 256×256×8192 has one
//             pair. Here each cluster gets the same number of slabs, give or take one: whole tiles while there are
//             enough for all, then one stretch of the slabs that are left. Where a stretch ends inside a tile, its
//             sums go to memory, and the cluster that has the tile's last slab adds them to its own.
//
//                  slabs of the tiles that are left, of three tiles for five clusters
//                 ┌───────────────────┬───────────────────┬───────────────────┐
//                 │ tile 0            │ tile 1            │ tile 2            │
//                 ├───────────┬───────┴───┬───────────┬───┴───────┬───────────┤
//                 │ stretch 0 │ stretch 1 │ stretch 2 │ stretch 3 │ stretch 4 │
//                 └───────────┴───────────┴───────────┴───────────┴───────────┘
//                   leaves its  does tile 1  waits for   leaves its
//                   sums        first        1           sums
//
// What lies   As in persistent.cu, and in global memory partial_sums and flags, in shared memory the schedule and
// where       two parts: this one and the next.
//
// Order       Producer, for each part of its cluster's share and each slab: as in persistent.cu.
//             Consumers, for each part:
//               1. Meet; one thread finds the next part while all multiply the slabs of this one.
//               2. If the part lacks the tile's last slab: store the sums to partial_sums, raise the flag.
//               3. If it has it, but not the first one: wait for the flags of the other stretches, and add their
//                  sums, always in the same order.
//               4. If it has the last slab: store the tile, as in persistent.cu.
//             Each block of a cluster leaves sums for the block at its place in another one, and has a flag of its
//             own. A cluster waits for clusters of lower index only.
//
// Where       shares, parts   Schedule in ../stream_k.cuh      step 2   leave_sums in ../stream_k.cuh
//             step 1          consume_parts in                 step 3   add_left_sums there
//                             ../hopper_share.cuh              step 4   store_band in ../hopper_tile.cuh
//
// Takes       n and k that are multiples of 8, as persistent.cu.
//
// Traffic     As persistent.cu. A block writes and reads a tile of sums, of four bytes each, at most twice.
// Removes     Idle multiprocessors in the last wave, and where C has fewer tiles than the card multiprocessors.
// Limit       The way of sums through the L2: some microseconds. So a stretch has LEAST slabs at least.
#include "../hopper_share.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;              // rows and columns of C of a block
    static constexpr int group = GROUP_M;                             // rows of C of a consumer
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;  // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                 // rows of clusters' tiles of a patch
    static constexpr int bands = BANDS;                                 // places for bands of a consumer
    static constexpr int resident = RESIDENT;                           // blocks of a multiprocessor
    static constexpr int blocks = MULTIPROCESSORS * resident;           // blocks of the grid
    static constexpr int least = LEAST;                                 // the fewest slabs worth a stretch
    static constexpr bool d_by_ring = ADDS;                             // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;
using Share = HopperShare<Tiling>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[Tiling::blocks];
__device__ Share::BlockSums partial_sums[Tiling::blocks];

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
streamed_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
              __nv_bfloat16* C, int m, int n, int k, float alpha, float beta, const __nv_bfloat16* D,
              const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b,
              const __grid_constant__ CUtensorMap out,
              const __grid_constant__ CUtensorMap in_d)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::compute_by_bands(slabs, out, [&](auto store) {
        Share::compute(slabs, {in_a, in_b, &in_d, alpha, beta}, m, n, k, {partial_sums, flags}, store);
    });
}
