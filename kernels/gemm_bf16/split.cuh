// Clusters whose blocks share the sum of a tile. split.cu explains them.
#pragma once

#include "../cluster.cuh"
#include "../overlap.cuh"
#include "ring.cuh"

constexpr int columns = TILE_N / SPLITS;  // that a block adds and stores
static_assert(columns % 8 == 0, "four sums of a thread lie in eight columns");

// Sums of all consumers of a block: of each eight columns four of a thread.
using Left = float4[TILE_N / 8][threads];
static_assert(sizeof(Left) <= STAGES * sizeof(Slab), "the sums find room in the ring");

// Fill the ring with slabs `begin` to `end` - 1 of the tile at (row, column).
__device__ __forceinline__ void fill(Ring& ring, const CUtensorMap& in_a, const CUtensorMap& in_b, int row, int column,
                                     int begin, int end)
{
    wait_for_last_launch();
#pragma unroll 1
    for (int slab = begin; slab < end; slab++, ring.next()) {
        Mbarrier& full = ring.full[ring.stage];
        wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
        expect_bytes(full, sizeof(Slab));
        load_tile(ring.slabs[ring.stage].a, in_a, full, row, slab * TILE_K);
        for (int panel = 0; panel < TILE_N / 64; panel++)
            load_tile(ring.slabs[ring.stage].b[panel], in_b, full, slab * TILE_K, column + 64 * panel);
    }
}

// Leave a thread's sums for all blocks of the cluster.
__device__ __forceinline__ void leave_sums(const Sums& sums, Left& left)
{
    sync_at_barrier(1, threads);
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j++)
        left[j][threadIdx.x] = make_float4(sums[0][4 * j], sums[0][4 * j + 1], sums[0][4 * j + 2], sums[0][4 * j + 3]);
}

// Add what all blocks have left of this block's columns, and store them.
__device__ __forceinline__ void store_total(Left& left, __nv_bfloat16* C, int m, int n, int row, int column)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = rank_in_cluster() * columns;
    float total[columns / 8][4] = {};
#pragma unroll
    for (int block = 0; block < SPLITS; block++) {
        const auto* theirs = in_block(&left[own / 8], block);
#pragma unroll
        for (int j = 0; j < columns / 8; j++) {
            const float4 sums = theirs[j][threadIdx.x];
            total[j][0] += sums.x, total[j][1] += sums.y, total[j][2] += sums.z, total[j][3] += sums.w;
        }
    }
#pragma unroll
    for (int j = 0; j < columns / 8; j++)
        store_fragment(C, m, n, row + 16 * warp + lane / 4, column + own + 8 * j + lane % 4 * 2, total[j]);
}

// Compute this cluster's tile.
__device__ __forceinline__ void compute_together(Slab* slabs_there, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                                 __nv_bfloat16* C, int m, int n, int k)
{
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Ring ring = {slabs_there, full, empty};
    Left& left = *(Left*)slabs_there;
    if constexpr (RESIDENT == 1) let_next_launch_begin();
    const int row = blockIdx.y * TILE_M, column = blockIdx.x / SPLITS * TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K, rank = rank_in_cluster();
    const int begin = slabs * rank / SPLITS, end = slabs * (rank + 1) / SPLITS;
    if (produces()) prefetch_map(in_a), prefetch_map(in_b);
    if (threadIdx.x == 0) ring.set_up(threads / 32);
    __syncthreads();
    if (threadIdx.x >= threads) {
        keep_few_registers();
        if (produces()) fill(ring, in_a, in_b, row, column, begin, end);
        __syncwarp();
        sync_cluster();
    } else {
        take_many_registers();
        Sums sums = {};
        if (begin < end)
            consume(ring, sums, end - begin, [&](int stage) {
                if (elected()) arrive(empty[stage]);
            });
        leave_sums(sums, left);
        sync_cluster();  // all sums of the tile are there
        store_total(left, C, m, n, row, column);
    }
    sync_cluster();
}
