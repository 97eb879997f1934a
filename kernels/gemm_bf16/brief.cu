// C = A·B in bfloat16 for a small product: a block for each tile, and loads before anything else.
//
// Words       As in persistent.cu, where
//             cluster      is CLUSTER blocks on neighbouring multiprocessors, whose tiles lie side by side
//             early        is STAGES / CLUSTER slabs: each of the cluster's blocks loads the same rows of A, and all
//                          of them together no more than one block that fills its ring
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
//             Further slabs of A are shared as in persistent.cu: each block loads a part of the rows for all.
//
// Order       Producer: sets up the mbarriers, waits for the last launch, issues the early loads, meets the cluster,
//             and issues further loads as stages become empty. It stays until all are empty: then nobody reaches for
//             this block's mbarriers any more. Consumers: meet the cluster, multiply, store.
//
// Where       load_early, produce, consume and store are in HopperTile (../hopper_tile.cuh).
//
// Takes       n and k that are multiples of 8: TMA wants rows that begin at 16 bytes.
//
// Traffic     2k(1/TILE_M + 1/(CLUSTER·TILE_N)) bytes from the L2 per element of C, more for the early slabs. Stores
//             of 16 bytes of a row.
// Removes     The cluster's barrier before the loads, and two steps between the last product and C.
// Limit       The latencies of a launch, of a load by TMA and of a store; the L2 from some 1000×1000 on.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
    static constexpr int cluster_n = CLUSTER;               // blocks of a cluster, side by side
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
    static constexpr int early = stages / cluster_n;        // slabs loaded before the cluster meets
    static constexpr bool adds = ADDS;                      // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 32, Tiling::resident)
brief_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* C, int m, int n,
           int k, float alpha, float beta, const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in_a,
           const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[Tiling::stages], empty[Tiling::stages];
    Tile::Ring ring = {(Tile::Slab*)memory, full, empty};
    const Tile::Inputs in = {in_a, in_b};
    const int row = blockIdx.y * Tiling::tile_m, column = blockIdx.x * Tiling::tile_n;
    const int2 place = Tile::place_in_cluster();
    const int slabs = Tile::slabs_of(k), early = min(slabs, Tiling::early);
    if (Tile::produces()) {
        in.prefetch();
        ring.set_up(Tile::warps_that_leave);
        wait_for_last_launch();
        Tile::load_early(ring, in, {row, column}, early, place);
    }
    __syncwarp();
    meet_cluster();  // the mbarriers of all blocks are there
    if (Tile::consumes()) {
        const bool served = Tile::serves();
        Tile::Sums sums = {};
        Tile::consume(ring, sums, slabs, [&](int stage) {
            if (served) arrive_in_block(empty[stage], threadIdx.x % 32);
        });
        const Tile::Addition addition = {alpha, beta, D};
        Tile::each_band(sums, {row, column}, [&](float* own, int row, int column) {
            addition.apply(own, m, n, row, column);
        });
        Tile::store(sums, C, m, n, row, column);
    } else if (Tile::produces()) {
        ring = ring.after(early);
        Tile::produce(ring, in, {row, column}, early, slabs, place);
        ring.wait_until_empty();
    }
}
