// Tiles of AᵀA for whole numbers of a byte on Hopper's tensor cores, for residues.cu: blocks that stay, in clusters
// of two. ../gemm_bf16/roles.cu explains the ring between producer and consumers, persistent.cu the clusters.
//
//     plane       the residues of A for one modulus: n columns of A, each along a row of bytes
//     tile        T::side rows and columns of C's lower triangle, for one plane; a cluster computes it, its blocks
//                 the upper and the lower half
//     slab        128 bytes of the columns of A that the block's rows of C need (a), and its columns of C (b)
//     portion     slabs whose sums stay below 2^31
//
// T is the kernel's `struct Tiling`.
#pragma once

#include "../hopper_tile.cuh"
#include "../patches.cuh"
#include "in_step.cuh"
#include "residues_columns.cuh"

template <class T>
struct ByteTile {
    static constexpr int half = T::side / 2, cluster = 2;
    static constexpr int consumer_threads = 2 * half, consumer_warps = consumer_threads / 32;
    static constexpr int tile_k = slab_rows;

    // Rows of 128 bytes, swizzled.
    struct Slab {
        signed char a[half][tile_k], b[T::side][tile_k];
    };

    using Ring = SlabRing<Slab, T::stages>;
    using Registers = RegisterShares<consumer_threads / 128>;
    using Sums = int[half];  // of a thread, of 64 rows and all columns (Products of a warpgroup, ../instructions.cuh)

    // ---- Order ----

    // The tiles of this cluster: plane after plane, and of a plane patch after patch.
    struct Tiles {
        int across, of_plane, end;  // tiles
        int index = blockIdx.x / cluster, plane, row, column;  // row, column: the first ones of C, of this block

        __device__ Tiles(int n, int planes)
            : across((n + T::side - 1) / T::side), of_plane(across * (across + 1) / 2), end(planes * of_plane)
        {
            find();
        }

        __device__ bool more() const { return index < end; }

        __device__ void next()
        {
            index += gridDim.x / cluster;
            find();
        }

        __device__ void find()
        {
            plane = index / of_plane;
            const int2 at = place_in_triangle<T::patch>(index % of_plane, across);
            row = at.y * T::side + rank_in_cluster() * half, column = at.x * T::side;
        }

        // Begin the tile together with the others of its wave. One block keeps step for its cluster.
        __device__ void keep_step(unsigned* begun) const
        {
            if (!begun || rank_in_cluster() > 0) return;
            const int clusters = gridDim.x / cluster;
            begin_in_step(*begun, (index / clusters + 1) * clusters, end);
        }
    };

    // ---- Slabs ----

    // Load a slab as soon as its stage is empty: this block's rows, and for both blocks half of the columns.
    static __device__ __forceinline__ void load(Ring& ring, const CUtensorMap& planes, const Tiles& tile, int k)
    {
        const int part = rank_in_cluster() * half;
        Slab& slab = ring.slabs[ring.stage];
        Mbarrier& full = ring.full[ring.stage];
        wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
        expect_bytes(full, sizeof slab);
        load_tile(slab.a, planes, full, tile.plane, tile.row, k);
        load_tile_to_blocks(slab.b[part], planes, full, tile.plane, tile.column + part, k, 3);
    }

    static __device__ __forceinline__ void multiply(Sums& sums, unsigned long long rows, unsigned long long columns,
                                                    bool add)
    {
        fence_products();
#pragma unroll
        for (int k = 0; k < tile_k; k += 32) multiply_tiles(sums, behind(rows, k), behind(columns, k), add || k > 0);
        commit_products();
    }

    // Multiply a tile's slabs. fold(sums): make sums small at the end of a portion.
    template <class Fold>
    static __device__ __forceinline__ void consume(Ring& ring, Sums& sums, int slabs, Fold fold)
    {
        const int row = of_warp(threadIdx.x / 128) * 64;
        const auto leave = [&](int stage) {
            if (threadIdx.x % 32 < cluster) arrive_in_block(ring.empty[stage], threadIdx.x % 32);
        };
        for (int begin = 0; begin < slabs; begin += T::portion) {
            const int end = min(begin + T::portion, slabs);
            for (int s = begin; s < end; s++, ring.next()) {
                const Slab& slab = ring.slabs[ring.stage];
                const auto rows = operand(slab.a[row]), columns = operand(slab.b);
                wait_for_phase(ring.full[ring.stage], ring.round);
                multiply(sums, rows, columns, s > 0);
                wait_for_products<1>();
                if (s > begin) leave(ring.last_stage());
            }
            wait_for_products<0>();
            leave(ring.last_stage());
            if (end < slabs) fold(sums);
        }
    }

    // ---- The life of a block ----

    // finish.fold(sums, plane) at the end of a portion, finish.store(sums, plane, row, column) at the end of a tile.
    // begun: the count of begun tiles, if clusters keep in step (in_step.cuh).
    template <class Finish>
    static __device__ __forceinline__ void compute(Slab* slabs_of_ring, const CUtensorMap& planes, int count, int m,
                                                   int n, Finish finish, unsigned* begun = nullptr)
    {
        __shared__ Mbarrier full[T::stages], empty[T::stages];
        Ring ring = {slabs_of_ring, full, empty};
        const int slabs = (m + tile_k - 1) / tile_k;
        if (threadIdx.x == 0) ring.set_up(cluster * consumer_warps);
        sync_cluster();  // the mbarriers of both blocks are there
        Tiles tile(n, count);
        if (of_warp(threadIdx.x) >= consumer_threads) {
            Registers::keep_for_producer();
            if (threadIdx.x / 32 == consumer_warps && elected())
                for (; tile.more(); tile.next()) {
                    tile.keep_step(begun);
                    for (int s = 0; s < slabs; s++, ring.next()) load(ring, planes, tile, s * tile_k);
                }
            __syncwarp();
        } else {
            Registers::take_for_consumer();
            Sums sums;
            for (; tile.more(); tile.next()) {
                consume(ring, sums, slabs, [&](Sums& own) { finish.fold(own, tile.plane); });
                finish.store(sums, tile.plane, tile.row, tile.column);
            }
        }
        sync_cluster();  // nobody uses another one's memory any more
    }
};
