// Clusters that take equal shares of a product's slabs (stream-k). streamed.cu explains them.
#pragma once

#include "../stream_k.cuh"
#include "persistent.cuh"

constexpr int GRID = MULTIPROCESSORS * RESIDENT;  // blocks

// What StreamK shares out, to whom: slabs of a cluster's tiles, all alike, to clusters. Only consumers have sums.
struct Shares {
    static constexpr int blocks = GRID / CLUSTER, cluster = CLUSTER, threads = ::threads, least = LEAST;
    static constexpr int heavy_cost = 1, light_cost = 1;  // of a slab

    static __device__ __forceinline__ int number() { return blockIdx.x / CLUSTER; }
    static __device__ __forceinline__ int place(int stretch) { return stretch * CLUSTER + rank_in_cluster(); }
    static __device__ __forceinline__ void meet() { sync_at_barrier(1 + consumers, threads); }
};

using Stream = StreamK<Shares>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[GRID];
__device__ float partial_sums[GRID][TILE_M * TILE_N];

// Fill the ring with the slabs of all parts, and stay until its last ones are read.
__device__ __forceinline__ void produce(Ring ring, Stream::Schedule& schedule, const CUtensorMap& in_a,
                                        const CUtensorMap& in_b, int m, int n)
{
    const Order order(m, n);
    const int2 place = place_in_cluster();
    wait_for_last_launch();
    for (Stream::Part part = schedule.next(); !part.empty(); part = schedule.next()) {
        const int2 tile = order.position(part.tile, place);
#pragma unroll 1
        for (int s = part.begin; s < part.end; s++, ring.next()) {
            wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
            load(ring.slabs[ring.stage], ring.full[ring.stage], in_a, in_b, tile, s * TILE_K, place);
        }
    }
    for (int i = 0; i < STAGES; i++, ring.next()) wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
}

// Multiply the slabs of all parts. One thread keeps the schedule, and looks for the next part meanwhile: the
// registers are the sums'.
template <class Store>
__device__ __forceinline__ void consume_parts(Ring& ring, Stream::Schedule& schedule, Stream::Part (&parts)[2],
                                              int m, int n, Store store)
{
    const bool served = serves();
    const auto leave = [&](int stage) {
        if (served) arrive_in_block(ring.empty[stage], threadIdx.x % 32);
    };
    Sums sums = {};
    for (int turn = 0;; turn ^= 1) {
        Shares::meet();  // the part is there
        const Stream::Part& part = parts[turn];
        if (part.empty()) return;
        if (threadIdx.x == 0) parts[turn ^ 1] = schedule.next();
        consume(ring, sums, part.end - part.begin, leave);
        if (part.begin > 0) {
            Stream::leave_sums<sizeof sums / sizeof(float)>(&sums[0][0], partial_sums, flags);
        } else {
            if (part.end < schedule.slabs)
                Stream::add_left_sums<sizeof sums / sizeof(float)>(&sums[0][0], partial_sums, flags, schedule, part);
            store(sums, Order(m, n).position(part.tile, place_in_cluster()));
        }
    }
}

// Compute this block's part of its cluster's share. store(sums, tile): store a tile that begins at row tile.x and
// column tile.y.
template <class Store>
__device__ __forceinline__ void compute_share(Slab* slabs_there, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                              int m, int n, int k, Store store)
{
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    __shared__ Stream::Schedule of_producer, of_consumers;
    __shared__ Stream::Part parts[2];
    Ring ring = {slabs_there, full, empty};
    if constexpr (RESIDENT == 1) let_next_launch_begin();
    if (produces()) prefetch_map(in_a), prefetch_map(in_b);
    const Stream::Schedule whole = Stream::Schedule::of(Order(m, n).tiles(), 0, (k + TILE_K - 1) / TILE_K);
    if (produces()) of_producer = whole;
    if (threadIdx.x == 0) {
        of_consumers = whole, parts[0] = of_consumers.next();
        ring.set_up((CLUSTER_M + CLUSTER_N - 1) * threads / 32);
    }
    meet_cluster();  // the mbarriers of all blocks are there
    if (threadIdx.x >= threads) {
        keep_few_registers();
        if (produces()) produce(ring, of_producer, in_a, in_b, m, n);
    } else {
        take_many_registers();
        consume_parts(ring, of_consumers, parts, m, n, store);
    }
}
