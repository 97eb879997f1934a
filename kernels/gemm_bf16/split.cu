// C = A·B in bfloat16: the blocks of a cluster share the sum of a tile.
//
// Words       As in roles.cu, and
//             share        the slabs of a tile that one block of the cluster multiplies
//
// Idea        A small C has fewer tiles than the device has multiprocessors, and smaller tiles need more bytes for
//             each multiply-add. Here SPLITS blocks, a cluster, compute one tile: each multiplies an equal share
//             of its slabs. Then each leaves its sums in its shared memory, and adds and stores a part of the
//             columns, reading the sums of the other blocks where they are. No sum goes through global memory,
//             and the order of the additions is always the same.
//
//                          k ►                                     sums in shared memory
//                 ┌──────┬──────┬──────┬──────┐         block 0   ┌────┬────┬────┬────┐
//               m │  0   │  1   │  2   │  3   │               1   ├────┼────┼────┼────┤
//               ▼ └──────┴──────┴──────┴──────┘               2   ├────┼────┼────┼────┤
//                 slabs of A (and of B) by block              3   └─┬──┴─┬──┴─┬──┴─┬──┘
//                                                    added by block 0    1    2    3
//
// Order       Producer and consumers as in roles.cu, for the slabs of the share. Then
//               1. The consumers of a block meet: nobody reads the ring any more. They write their sums there.
//               2. The cluster meets.
//               3. Each consumer adds what the same thread of each block has for its block's columns, and
//                  stores it.
//               4. The cluster meets: nobody reads another block's sums any more.
//
// Takes       As tma.cu.
//
// Traffic     2k(1/TILE_M + 1/TILE_N) bytes from the L2 per element of C, and 4(SPLITS - 1) between blocks.
// Removes     The idle multiprocessors where C is small and k long.
// Limit       What does not shrink with k: a launch, the first slabs, and the exchange of the sums.
#include "../cluster.cuh"
#include "ring.cuh"

constexpr int columns = TILE_N / SPLITS;  // that a block adds and stores
static_assert(columns % 8 == 0, "four sums of a thread lie in eight columns");

// Sums of all consumers of a block: of each eight columns four of a thread.
using Left = float4[TILE_N / 8][threads];
static_assert(sizeof(Left) <= STAGES * sizeof(Slab), "the sums find room in the ring");

__device__ __forceinline__ void produce(Ring ring, const CUtensorMap& in_a, const CUtensorMap& in_b, int row,
                                        int column, int begin, int end)
{
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
        left[j][threadIdx.x] = make_float4(sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]);
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

extern "C" __global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(threads + 128, RESIDENT)
split_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
           int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Ring ring = {(Slab*)memory, full, empty};
    Left& left = *(Left*)memory;
    const int row = blockIdx.y * TILE_M, column = blockIdx.x / SPLITS * TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K, rank = rank_in_cluster();
    const int begin = slabs * rank / SPLITS, end = slabs * (rank + 1) / SPLITS;
    if (produces()) prefetch_map(in_a), prefetch_map(in_b);
    ring.set_up(threads / 32);
    __syncthreads();
    if (threadIdx.x >= threads) {
        keep_few_registers();
        if (produces()) produce(ring, in_a, in_b, row, column, begin, end);
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
