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
//             enough for all, then one stretch of the slabs that are left. Where a stretch begins inside a tile,
//             its sums go to memory, and the cluster that has the tile's first slab adds them to its own.
//
//                  slabs of the tiles that are left, of three tiles for five clusters
//                 ┌───────────────────┬───────────────────┬───────────────────┐
//                 │ tile 0            │ tile 1            │ tile 2            │
//                 ├───────────┬───────┴───┬───────────┬───┴───────┬───────────┤
//                 │ stretch 0 │ stretch 1 │ stretch 2 │ stretch 3 │ stretch 4 │
//                 └───────────┴───────────┴───────────┴───────────┴───────────┘
//                   waits for   leaves its   waits for 3  leaves ...
//                   1           first part
//
// What lies   As in persistent.cu, and in global memory partial_sums and flags, in shared memory the schedule and
// where       two parts: this one and the next.
//
// Order       Producer, for each part of its cluster's share and each slab: as in persistent.cu.
//             Consumers, for each part:
//               1. Meet; one thread finds the next part while all multiply the slabs of this one.
//               2. If the part lacks the tile's first slab: store the sums to partial_sums, raise the flag.
//               3. If it has it, but not the last one: wait for the flags of the other stretches, and add their
//                  sums, always in the same order.
//               4. If it has the first slab: store the tile, as in persistent.cu.
//             Each block of a cluster leaves sums for the block at its place in another one, and has a flag of its
//             own. A cluster waits for clusters of lower index only.
//
// Where       shares, parts   Schedule in ../stream_k.cuh      step 2   leave_sums in ../stream_k.cuh
//             step 1          consume_parts below              step 3   add_left_sums there
//                                                              step 4   store_bands in ../hopper_tile.cuh
//
// Takes       n and k that are multiples of 8, as persistent.cu.
//
// Traffic     As persistent.cu. A block writes and reads a tile of sums, of four bytes each, at most twice.
// Removes     Idle multiprocessors in the last wave, and where C has fewer tiles than the card multiprocessors.
// Limit       The way of sums through the L2: some microseconds. So a stretch has LEAST slabs at least.
#include "../hopper_tile.cuh"
#include "../stream_k.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;              // rows and columns of C of a block
    static constexpr int group_m = GROUP_M;                             // rows of C of a consumer
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;  // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                 // rows of clusters' tiles of a patch
    static constexpr int bands = BANDS;                                 // places for bands of a consumer
    static constexpr int resident = RESIDENT;                           // blocks of a multiprocessor
    static constexpr int blocks = MULTIPROCESSORS * resident;           // blocks of the grid
    static constexpr int least = LEAST;                                 // the fewest slabs worth a stretch
};

using Tile = HopperTile<Tiling>;

// What StreamK shares out, to whom: slabs of a cluster's tiles, all alike, to clusters. Only consumers have sums.
struct Shares {
    static constexpr int cluster = Tile::cluster, blocks = Tiling::blocks / cluster, threads = Tile::consumer_threads;
    static constexpr int least = Tiling::least, heavy_cost = 1, light_cost = 1;  // costs of a slab

    static __device__ __forceinline__ int number() { return blockIdx.x / cluster; }
    static __device__ __forceinline__ int place(int stretch) { return stretch * cluster + rank_in_cluster(); }
    static __device__ __forceinline__ void meet() { sync_at_barrier(1 + Tile::consumers, threads); }
};

using Stream = StreamK<Shares>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[Tiling::blocks];
__device__ float partial_sums[Tiling::blocks][Tiling::tile_m * Tiling::tile_n];

// Fill the ring with the slabs of all parts, and stay until its last ones are read.
__device__ __forceinline__ void produce_parts(Tile::Ring ring, Stream::Schedule& schedule, const Tile::Inputs& in,
                                              int m, int n)
{
    const Tile::Order order(m, n);
    const int2 place = Tile::place_in_cluster();
    wait_for_last_launch();
    for (Stream::Part part = schedule.next(); !part.empty(); part = schedule.next())
        Tile::produce(ring, in, order.position(part.tile, place), part.begin, part.end, place);
    ring.wait_until_empty();
}

// Multiply the slabs of all parts. One thread keeps the schedule, and looks for the next part meanwhile: the
// registers are the sums'. store(sums, tile): store a tile that begins at row tile.x and column tile.y.
template <class Store>
__device__ __forceinline__ void consume_parts(Tile::Ring& ring, Stream::Schedule& schedule, Stream::Part (&parts)[2],
                                              int m, int n, Store store)
{
    const bool served = Tile::serves();
    const auto leave = [&](int stage) {
        if (served) arrive_in_block(ring.empty[stage], threadIdx.x % 32);
    };
    Tile::Sums sums = {};
    constexpr int count = sizeof sums / sizeof(float);
    for (int turn = 0;; turn ^= 1) {
        Shares::meet();  // the part is there
        const Stream::Part& part = parts[turn];
        if (part.empty()) return;
        if (threadIdx.x == 0) parts[turn ^ 1] = schedule.next();
        Tile::consume(ring, sums, part.end - part.begin, leave);
        if (part.begin > 0) {
            Stream::leave_sums<count>(&sums[0][0], partial_sums, flags);
        } else {
            if (part.end < schedule.slabs)
                Stream::add_left_sums<count>(&sums[0][0], partial_sums, flags, schedule, part);
            store(sums, Tile::Order(m, n).position(part.tile, Tile::place_in_cluster()));
        }
    }
}

// Compute this block's part of its cluster's share.
template <class Store>
__device__ __forceinline__ void compute_share(Tile::Slab* slabs, const Tile::Inputs& in, int m, int n, int k,
                                              Store store)
{
    __shared__ Mbarrier full[Tiling::stages], empty[Tiling::stages];
    __shared__ Stream::Schedule of_producer, of_consumers;
    __shared__ Stream::Part parts[2];
    Tile::Ring ring = {slabs, full, empty};
    if constexpr (Tiling::resident == 1) let_next_launch_begin();
    if (Tile::produces()) in.prefetch();
    const Stream::Schedule whole = Stream::Schedule::of(Tile::Order(m, n).tiles(), 0, Tile::slabs_of(k));
    if (Tile::produces()) of_producer = whole;
    if (threadIdx.x == 0) {
        of_consumers = whole, parts[0] = of_consumers.next();
        ring.set_up(Tile::warps_that_leave);
    }
    meet_cluster();  // the mbarriers of all blocks are there
    if (threadIdx.x >= Tile::consumer_threads) {
        Tile::Registers::keep_for_producer();
        if (Tile::produces()) produce_parts(ring, of_producer, in, m, n);
    } else {
        Tile::Registers::take_for_consumer();
        consume_parts(ring, of_consumers, parts, m, n, store);
    }
}

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
streamed_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
              __nv_bfloat16* __restrict__ C, int m, int n, int k, const __grid_constant__ CUtensorMap in_a,
              const __grid_constant__ CUtensorMap in_b, const __grid_constant__ CUtensorMap out)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::compute_by_bands(slabs, out, [&](auto store) { compute_share(slabs, {in_a, in_b}, m, n, k, store); });
}
