// C = A·B in bfloat16 for a small product: a block for each tile, and loads before anything else.
//
// Words       As in roles.cu, and
//             cluster      CLUSTER blocks on neighbouring multiprocessors, whose tiles lie side by side
//             early        slabs that a block loads before its cluster has met, and so for itself alone
//
// Idea        A small product takes as long as its one tile's way from the first load to the last store, and most of
//             that is waiting for one step after the other. So steps go that a single tile does not need. In
//             persistent.cu a cluster meets before the first load: here the thread that loads sets up the mbarriers
//             itself, and issues loads before the cluster meets. The producer is one warp, and no registers move.
//             Sums go to C from registers, not by way of shared memory and TMA.
//
//                  persistent.cu    set up ─ cluster meets ─ load ─ multiply ─ to shared memory ─ TMA stores
//                  here             set up ─ load ─ multiply ─ store
//                                            └ cluster meets, meanwhile
//
//             Further slabs of A are loaded as in persistent.cu: each block loads a part of the rows for all.
//
// Order       Producer: sets up the mbarriers, waits for the last launch (../overlap.cuh), issues the early loads,
//             meets the cluster, and issues further loads as stages become empty. It stays until the last ones are:
//             then nobody reaches for this block's mbarriers any more. Consumers: meet the cluster, multiply as in
//             roles.cu, store.
//
// Takes       As tma.cu.
//
// Traffic     2k(1/TILE_M + 1/(CLUSTER·TILE_N)) bytes from the L2 per element of C, more for the early slabs. Stores
//             of 16 bytes of a row.
// Removes     The cluster's barrier before the loads, and two steps between the last product and C.
// Limit       The latencies of a launch, of a load by TMA and of a store; the L2 from some 1000×1000 on.
#include "../cluster.cuh"
#include "../overlap.cuh"
#include "ring.cuh"

constexpr int rows_of_a = TILE_M / CLUSTER, EARLY = STAGES / CLUSTER;  // rows that a block loads for all
constexpr unsigned short all_blocks = (1u << CLUSTER) - 1;             // of a cluster, as bits

// Fill the ring with slabs `begin` to `end` - 1 of the tile at (row, column); of A only this block's part, for all
// blocks, if the cluster shares it.
template <bool shared>
__device__ __forceinline__ void fill(Ring& ring, const CUtensorMap& in_a, const CUtensorMap& in_b, int row, int column,
                                     int begin, int end)
{
    const int rank = rank_in_cluster();
#pragma unroll 1
    for (int s = begin; s < end; s++, ring.next()) {
        Mbarrier& full = ring.full[ring.stage];
        Slab& slab = ring.slabs[ring.stage];
        wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
        expect_bytes(full, sizeof slab);
        for (int part = shared ? rank : 0; part < (shared ? rank + 1 : CLUSTER); part++) {
            const int first = part * rows_of_a;
            load_part<shared>(slab.a[first], in_a, full, row + first, s * TILE_K, all_blocks);
        }
        for (int panel = 0; panel < TILE_N / 64; panel++)
            load_tile(slab.b[panel], in_b, full, s * TILE_K, column + 64 * panel);
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(threads + 32, RESIDENT)
brief_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
           int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Ring ring = {(Slab*)memory, full, empty};
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K, early = min(slabs, EARLY);
    if (produces()) {
        prefetch_map(in_a), prefetch_map(in_b);
        ring.set_up(CLUSTER * threads / 32);
        wait_for_last_launch();
        fill<false>(ring, in_a, in_b, row, column, 0, early);
    }
    __syncwarp();
    meet_cluster();  // the mbarriers of all blocks are there
    if (threadIdx.x < threads) {
        const bool served = threadIdx.x % 32 < CLUSTER;
        Sums sums = {};
        consume(ring, sums, slabs, [&](int stage) {
            if (served) arrive_in_block(empty[stage], threadIdx.x % 32);
        });
        store(sums, C, m, n, row, column);
    } else if (produces()) {
        fill<(CLUSTER > 1)>(ring, in_a, in_b, row, column, early, slabs);
        for (int i = 0; i < STAGES; i++, ring.next()) wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
    }
}
