// C = A·B in bfloat16: blocks that stay, in clusters that share what they load, and stores behind products.
//
// Words       As in roles.cu, and
//             cluster      CLUSTER_M×CLUSTER_N blocks on neighbouring multiprocessors, whose tiles are neighbours
//             multicast    a load that TMA brings to several blocks of a cluster
//             patch        PATCH rows of clusters' tiles, which are computed together
//             band         64 rows and 64 columns of a tile, on their way to C
//             overlap      A block begins before the last launch has ended, and waits (../overlap.cuh)
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
// Order       Producer: waits for the last launch. Then, for each tile of its cluster and each slab: as in roles.cu.
//             Consumers, for each tile: multiply its slabs as in roles.cu, then for each band of their rows:
//               1. Wait until TMA has read the band before the last one, whose place is free then.
//               2. Round the sums and write them there, swizzled (stmatrix); meet the warpgroup.
//               3. One thread gives TMA the band.
//             Block   A block ends with its cluster: others may still write to its memory.
//
// Takes       As tma.cu. C is stored by TMA too.
//
// Traffic     2k(1/(CLUSTER_M·TILE_M) + 1/(CLUSTER_N·TILE_N)) bytes from the L2 per element of C. Tiles of a patch
//             share their rows of A and their columns of B in the L2 cache. A block multiplies every second
//             tile from the end of k to its beginning: of the rows of A that stay the same from one column of a
//             patch to the next, the L2 has what came last.
// Removes     The start and the end of a block, and half of the loads of B.
// Limit       Power. Between the last product of a tile and the first of the next one the tensor cores wait for
//             the sums to be written to shared memory.
#include "bands.cuh"

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(threads + 128, RESIDENT)
persistent_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                __nv_bfloat16* __restrict__ C, int m, int n, int k, const __grid_constant__ CUtensorMap in_a,
                const __grid_constant__ CUtensorMap in_b, const __grid_constant__ CUtensorMap out)
{
    extern __shared__ __align__(1024) char memory[];
    compute_by_bands(memory, out, [&](Slab* slabs, auto store) {
        compute_tiles(slabs, in_a, in_b, m, n, k, store);
    });
}
