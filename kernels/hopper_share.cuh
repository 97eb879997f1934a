// Tiles of C on Hopper's tensor cores in equal shares for as many clusters as there are (stream-k):
// gemm_bf16/streamed.cu explains it. What a tile is, hopper_tile.cuh has; what a share is, stream_k.cuh.
//
// T is a kernel's tiling, as for HopperTile, with `blocks` of the grid and the `least` slabs that are worth a stretch.
#pragma once

#include "hopper_tile.cuh"
#include "stream_k.cuh"

template <class T>
struct HopperShare {
    using Tile = HopperTile<T>;

    // What StreamK shares out, to whom: slabs of a cluster's tiles, all alike, to clusters. Only consumers have sums.
    struct Shares {
        static constexpr int cluster = Tile::cluster, blocks = T::blocks / cluster, threads = Tile::consumer_threads;
        static constexpr int least = T::least, heavy_cost = 1, light_cost = 1;  // costs of a slab

        static __device__ __forceinline__ int number() { return blockIdx.x / cluster; }
        static __device__ __forceinline__ int place(int stretch) { return stretch * cluster + rank_in_cluster(); }
        static __device__ __forceinline__ void meet() { sync_at_barrier(1 + Tile::consumers, threads); }
    };

    using Stream = StreamK<Shares>;
    using Schedule = typename Stream::Schedule;
    using Part = typename Stream::Part;

    using BlockSums = float[T::tile_m * T::tile_n];

    // In global memory, what blocks leave for others, and a flag each that says that it is there.
    struct Left {
        BlockSums* partial_sums;
        unsigned* flags;
    };

    // Fill the ring with the slabs of all parts, and stay until its last ones are read.
    static __device__ __forceinline__ void produce_parts(typename Tile::Ring ring, Schedule& schedule,
                                                         const typename Tile::Inputs& in, int m, int n)
    {
        const typename Tile::Order order(m, n);
        const int2 place = Tile::place_in_cluster();
        wait_for_last_launch();
        for (Part part = schedule.next(); !part.empty(); part = schedule.next()) {
            const int2 tile = order.position(part.tile, place);
            Tile::produce(ring, in, tile, part.begin, part.end, place);
            if (T::d_by_ring && !schedule.leaves(part)) Tile::load_d(ring, in, tile);
        }
        ring.wait_until_empty();
    }

    // Multiply the slabs of all parts. One thread keeps the schedule, and looks for the next part meanwhile: the
    // registers are the sums'. store(sums, tile): store a tile that begins at row tile.x and column tile.y.
    template <class Store>
    static __device__ __forceinline__ void consume_parts(typename Tile::Ring& ring, Schedule& schedule,
                                                         Part (&parts)[2], const typename Tile::Inputs& in, int m, int n,
                                                         Left left, Store store)
    {
        const bool served = Tile::serves();
        const auto leave = [&](int stage) {
            if (served) arrive_in_block(ring.empty[stage], threadIdx.x % 32);
        };
        const auto position = [&](const Part& part) {
            return typename Tile::Order(m, n).position(part.tile, Tile::place_in_cluster());
        };
        typename Tile::Sums sums = {};
        constexpr int count = sizeof sums / sizeof(float);
        for (int turn = 0;; turn ^= 1) {
            Shares::meet();  // the part is there
            const Part& part = parts[turn];
            if (part.empty()) return;
            if (threadIdx.x == 0) parts[turn ^ 1] = schedule.next();
            int row_of_a = 0;
            if constexpr (T::symmetric) row_of_a = Tile::row_of_a(position(part), Tile::place_in_cluster());
            Tile::consume(ring, sums, of_warp(part.end - part.begin), leave, row_of_a);
            if (schedule.leaves(part)) {
                Stream::template leave_sums<count>(&sums[0][0], left.partial_sums, left.flags, schedule);
            } else {
                const int first = of_warp(schedule.first_stretch(part)), own = of_warp(schedule.stretch);
                if (part.begin > 0)
                    Stream::template add_left_sums<count>(&sums[0][0], left.partial_sums, left.flags, first, own);
                Tile::add_d(ring, sums, in, leave);
                store(sums, position(part));
            }
        }
    }

    // Compute this block's part of its cluster's share.
    template <class Store>
    static __device__ __forceinline__ void compute(typename Tile::Slab* slabs, const typename Tile::Inputs& in, int m,
                                                   int n, int k, Left left, Store store)
    {
        __shared__ Mbarrier full[T::stages], empty[T::stages];
        __shared__ Schedule of_producer, of_consumers;
        __shared__ Part parts[2];
        typename Tile::Ring ring = {slabs, full, empty};
        if constexpr (T::resident == 1) let_next_launch_begin();
        if (Tile::produces()) in.prefetch();
        if (threadIdx.x == 0) {
            of_producer = of_consumers = Schedule::of(typename Tile::Order(m, n).tiles(), 0, Tile::slabs_of(k));
            parts[0] = of_consumers.next();
            ring.set_up(Tile::warps_that_leave);
        }
        meet_cluster();  // the mbarriers of all blocks are there
        if (!Tile::consumes()) {
            Tile::Registers::keep_for_producer();
            if (Tile::produces()) produce_parts(ring, of_producer, in, m, n);
        } else {
            Tile::Registers::take_for_consumer();
            consume_parts(ring, of_consumers, parts, in, m, n, left, store);
        }
    }
};
