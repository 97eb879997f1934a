// C = A·B in bfloat16: blocks that stay, in clusters that share what they load, and stores behind products.
//
// Words       tile         TILE_M×TILE_N elements of C, which a block computes
//             slab         what 64 steps of k of a tile need, in shared memory
//             ring, stage  the ring is room for STAGES slabs, a stage is room for one
//             producer     the warpgroup of which one thread loads slabs, by TMA; the others are consumers, which
//                          multiply them: roles.cu explains how they wait for each other
//             cluster      CLUSTER_M×CLUSTER_N blocks on neighbouring multiprocessors, whose tiles are neighbours
//             multicast    a load that TMA brings to several blocks of a cluster
//             patch        PATCH rows of clusters' tiles, which are computed together
//             band         64 rows and 64 columns of a tile, on their way to C
//             overlap      a block begins before the last launch has ended, and waits (../overlap.cuh)
//             D            what is added: C = alpha·A·B + beta·D
//             early        slabs that a block loads before its cluster has met, whole and for itself alone, as the
//                          others may have no mbarriers yet; two, or without a cluster as many as the ring holds
//
// Idea        In roles.cu a block computes one tile and ends. Here blocks stay, one on each multiprocessor, and
//             take tile after tile. The producer does not notice where a tile ends: it fills the ring with the next
//             tile's slabs while the consumers store the last one. They round their sums, write them to shared
//             memory, and TMA stores them while they multiply the next tile.
//
//             Blocks of a cluster with tiles one above the other need the same slab of B, and those side by side
//             the same slab of A. Each loads a part of its rows, and TMA brings it to all of them: a stage is
//             empty only when the consumers of all these blocks have left it.
//
//                  C, order of tiles                           block 0           block 1, below it
//                 ┌────┬────┬────┬────┐                       ┌────┬──────┐     ┌────┬──────┐
//                 │ 0  │ 2  │ 4  │ ...│  a patch of two       │ a  │ b ▲  │     │ a' │ b ▲  │
//                 ├────┼────┼────┼────┤  clusters' rows,      └────┴───┼──┘     └────┴───┼──┘
//                 │ 1  │ 3  │ 5  │    │  column by column              └── each loads ───┘
//                 ╞════╪════╪════╪════╡  half of b, for both
//                 │ then the next one │
//                 └────┴────┴────┴────┘
//
//             A consumer has GROUP_M rows of the tile. With 128 rows and 192 columns a thread holds 192 sums, and the
//             tile is 256×192, the largest that fits. 2200×2200 is 108 such tiles, a single wave on 132
//             multiprocessors; it is 162 tiles of 256×128, two waves.
//
//             D comes as slabs do: behind the last slab of a tile the producer fills a stage or two of the ring with D's
//             bands. They are there before the last products are done, and leave their stages as soon as they are added, so
//             the next slabs come while C is stored. Loads of D by each lane, after the products, took a tenth
//             of the time of A·Aᵀ + D at 4096.
//
// Order       Producer: sets up the mbarriers, waits for the last launch, loads the early slabs, meets the cluster.
//             Then, for each tile and each slab: waits until the stage is empty, and loads its parts of the slab;
//             behind them its bands of D.
//             Consumers: meet the cluster. Then, for each tile:
//             multiply its slabs, leaving each stage to all blocks that fill it; add beta·D; then for each band of their rows:
//               1. Wait until TMA has read the band before the last one, whose place is free then.
//               2. Round the sums, and write them there, swizzled (stmatrix); meet the warpgroup.
//               3. One thread gives TMA the band.
//             A block ends when its ring is empty for good: until then others may write to its memory.
//
// Where       order of tiles   Order, Tiles        producer    produce_tiles
//             shared loads     load, load_d        consumers   consume, add_d, store_band
//             All are in HopperTile (../hopper_tile.cuh), where compute_tiles puts them together.
//
// Takes       n and k that are multiples of 8: TMA wants rows that begin at 16 bytes, C's too.
//
// Traffic     2k(1/(CLUSTER_M·TILE_M) + 1/(CLUSTER_N·TILE_N)) bytes from the L2 per element of C. Tiles of a patch
//             share their rows of A and their columns of B in the L2 cache. Where C is a wave of small tiles, they wait
//             for it: the 95 tiles of 64×192 of 1184×944×3984 read 194 MB, in clusters of 4×2 blocks 61 MB. A cluster
//             lies in one group of 14 to 18 multiprocessors, so of an H100's 132 there is room for 30 clusters of four
//             and 15 of eight: no more are launched.
//             A block multiplies every second tile from the end of k to its beginning: of the rows of A that stay the
//             same from one column of a patch to the next, the L2 has what came last.
// Removes     The start and the end of a block, and half of the loads of B.
// Limit       Power. Between the last product of a tile and the first of the next one the tensor cores wait for
//             the sums to be written to shared memory.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;                 // rows and columns of C of a block
    static constexpr int group = GROUP_M;                                // rows of C of a consumer
    static constexpr int stages = STAGES;                                  // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;     // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                    // rows of clusters' tiles of a patch
    static constexpr int bands = BANDS;                                    // places for bands of a consumer
    static constexpr int resident = RESIDENT;                              // blocks of a multiprocessor
    static constexpr int early = cluster_m * cluster_n == 1 ? stages : 2;  // slabs loaded before the cluster meets
    static constexpr bool d_by_ring = ADDS;                                // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
persistent_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
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
