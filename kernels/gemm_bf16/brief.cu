// C = A·B in bfloat16 for a small product: a block for each tile, and loads before anything else.
//
// Words       As in roles.cu.
//
// Idea        A small product takes as long as its one tile's way from the first load to the last store, and most of
//             that is waiting for one step after the other. So steps go that a single tile does not need. In
//             persistent.cu a cluster meets before the first load: here the thread that loads sets up the mbarriers
//             itself, and loads what the ring holds before the block meets. The producer is one warp, and no
//             registers move. Sums go to C from registers, not by way of shared memory and TMA.
//
//                  persistent.cu    set up ─ cluster meets ─ load ─ multiply ─ to shared memory ─ TMA stores
//                  here             set up ─ load ─ multiply ─ store
//                                            └ block meets, meanwhile
//
// Order       Producer: sets up the mbarriers, issues the loads of the first STAGES slabs, meets the block, and issues
//             further loads as stages become empty. Consumers: meet the block, multiply as in roles.cu, store.
//
// Takes       As tma.cu.
//
// Traffic     2k(1/TILE_M + 1/TILE_N) bytes from the L2 per element of C. Stores of 16 bytes of a row.
// Removes     The cluster's barrier before the loads, and two steps between the last product and C.
// Limit       The latencies of a launch, of a load by TMA and of a store. Larger products want larger tiles and shared
//             loads.
#include "ring.cuh"

extern "C" __global__ void __launch_bounds__(threads + 32, RESIDENT)
brief_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
           int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Ring ring = {(Slab*)memory, full, empty};
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K, early = min(slabs, STAGES);
    if (produces()) {
        prefetch_map(in_a), prefetch_map(in_b);
        ring.set_up(threads / 32);
        fill(ring, in_a, in_b, row, column, 0, early);
    }
    __syncthreads();
    if (threadIdx.x < threads) {
        Sums sums = {};
        consume(ring, sums, slabs, [&](int stage) {
            if (elected()) arrive(empty[stage]);
        });
        store(sums, C, m, n, row, column);
    } else if (produces()) {
        fill(ring, in_a, in_b, row, column, early, slabs);
    }
}
