// C = A·B in bfloat16: blocks that stay, in clusters that share what they load, and stores behind products.
//
// Words       As in roles.cu, and
//             cluster      CLUSTER blocks on neighbouring multiprocessors, which compute tiles one above the other
//             multicast    a load that TMA brings to all blocks of a cluster
//             patch        PATCH rows of clusters' tiles, which are computed together
//             band         64 rows and 64 columns of a tile, on their way to C
//
// Idea        In roles.cu a block computes one tile and ends. Here blocks stay, one on each multiprocessor, and
//             take tile after tile. The producer does not notice where a tile ends: it fills the ring with the next
//             tile's slabs while the consumers store the last one. They round their sums, write them to shared
//             memory, and TMA stores them while they multiply the next tile.
//
//             The blocks of a cluster need the same slab of B. Each loads a part of its rows, and TMA brings it
//             to all of them: a stage is empty only when all consumers of the cluster have left it.
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
// Order       Producer, for each tile of its cluster and each slab: as in roles.cu.
//             Consumers, for each tile: multiply its slabs as in roles.cu, then for each band of their rows:
//               1. Wait until TMA has read the band before the last one, whose place is free then.
//               2. Round the sums and write them there, swizzled (stmatrix); meet the warpgroup.
//               3. One thread gives TMA the band.
//             Block   A block ends with its cluster: others may still write to its memory.
//
// Takes       As tma.cu. C is stored by TMA too.
//
// Traffic     2k(1/TILE_M + 1/(CLUSTER·TILE_N)) bytes from the L2 per element of C. Tiles of a patch share their
//             rows of A and their columns of B in the L2 cache.
// Removes     The start and the end of a block, and half of the loads of B.
// Limit       Power. Between the last product of a tile and the first of the next one the tensor cores wait for
//             the sums to be written to shared memory.
#include "../cluster.cuh"
#include "../mma.cuh"
#include "../tile_copy.cuh"
#include "../warp_roles.cuh"
#include "warpgroup_tile.cuh"

static_assert(TILE_M == 128, "two consumers and a producer share 65536 registers as said here");

constexpr int rows_of_b = TILE_K / CLUSTER;  // of a slab, which a block loads for its cluster

using Band = __nv_bfloat16[64][64];

// A consumer's places for bands, which it takes by turns: one is written while the other one is stored.
using Bands = Band[2];

struct Ring {
    Slab* slabs;
    Mbarrier *full, *empty;
    int slab = 0;  // the next one, counted over all tiles

    __device__ int stage() const { return slab % STAGES; }
    __device__ int round() const { return slab / STAGES % 2; }
};

// The tiles of this block, one after the other.
struct Tiles {
    int rows, columns;  // of clusters' tiles
    int index = blockIdx.x / CLUSTER;

    __device__ Tiles(int m, int n)
        : rows((m + CLUSTER * TILE_M - 1) / (CLUSTER * TILE_M)), columns((n + TILE_N - 1) / TILE_N)
    {
    }

    __device__ bool left() const { return index < rows * columns; }
    __device__ void next() { index += gridDim.x / CLUSTER; }

    // The first row and column of C.
    __device__ int2 position() const
    {
        const int patch = index / (PATCH * columns), first = patch * PATCH, height = min(PATCH, rows - first);
        const int within = index - first * columns;
        return {((first + within % height) * CLUSTER + (int)rank_in_cluster()) * TILE_M, within / height * TILE_N};
    }
};

__device__ __forceinline__ void load(Slab& slab, Mbarrier& full, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                     int2 tile, int k)
{
    expect_bytes(full, sizeof slab);
    load_tile(slab.a, in_a, full, tile.x, k);
    const int first = rank_in_cluster() * rows_of_b;
    for (int panel = 0; panel < TILE_N / 64; panel++)
        if constexpr (CLUSTER > 1)
            load_tile_to_blocks(slab.b[panel][first], in_b, full, k + first, tile.y + 64 * panel, (1 << CLUSTER) - 1);
        else
            load_tile(slab.b[panel], in_b, full, k, tile.y + 64 * panel);
}

__device__ __forceinline__ void produce(Ring ring, Tiles tiles, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                        int slabs)
{
    for (; tiles.left(); tiles.next())
        for (int s = 0; s < slabs; s++, ring.slab++) {
            wait_for_phase_of_cluster(ring.empty[ring.stage()], 1 - ring.round());
            load(ring.slabs[ring.stage()], ring.full[ring.stage()], in_a, in_b, tiles.position(), s * TILE_K);
        }
}

// Leave a stage to the producers of the cluster.
__device__ __forceinline__ void leave(const Ring& ring, int stage)
{
    const int lane = threadIdx.x % 32;
    if (lane < CLUSTER) arrive_in_block(ring.empty[stage], lane);
}

__device__ __forceinline__ void consume(Ring& ring, Sums& sums, int slabs)
{
    for (int s = 0; s < slabs; s++, ring.slab++) {
        wait_for_phase(ring.full[ring.stage()], ring.round());
        multiply(sums, ring.slabs[ring.stage()]);
        wait_for_products<1>();
        if (s > 0) leave(ring, (ring.slab - 1) % STAGES);
    }
    wait_for_products<0>();
    leave(ring, (ring.slab - 1) % STAGES);
}

__device__ __forceinline__ unsigned rounded(const float* two)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(two[0], two[1]);
    return *(const unsigned*)&both;
}

// Write 64 columns of a warpgroup's sums to a band, swizzled as TMA takes it.
__device__ __forceinline__ void write(Band& band, const float* sums)
{
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const float* own = &sums[8 * j];
        const unsigned fragments[4] = {rounded(own), rounded(own + 2), rounded(own + 4), rounded(own + 6)};
        store_matrices<false>(fragments, &band[row][((2 * j + lane / 16) ^ row % 8) * 8]);
    }
}

// Store a warpgroup's rows of the tile. `turn`: of the next band, counted over all tiles.
__device__ __forceinline__ void store_bands(const Sums& sums, Bands& bands, int& turn, const CUtensorMap& out,
                                            int2 tile)
{
    const int group = threadIdx.x / 128, barrier = 1 + group;
    const bool first = threadIdx.x % 128 == 0;
#pragma unroll
    for (int panel = 0; panel < TILE_N / 64; panel++) {
        Band& band = bands[turn++ % 2];
        if (first) wait_until_tiles_are_read<1>();
        sync_at_barrier(barrier, 128);
        write(band, &sums[32 * panel]);
        fence_async_proxy();
        sync_at_barrier(barrier, 128);
        if (first) {
            store_tile(out, band, tile.x + 64 * group, tile.y + 64 * panel);
            commit_tile_stores();
        }
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(threads + 128, 1)
persistent_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                __nv_bfloat16* __restrict__ C, int m, int n, int k, const __grid_constant__ CUtensorMap in_a,
                const __grid_constant__ CUtensorMap in_b, const __grid_constant__ CUtensorMap out)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Ring ring = {(Slab*)memory, full, empty};
    Bands* bands = (Bands*)(ring.slabs + STAGES);
    Tiles tiles(m, n);
    const int slabs = (k + TILE_K - 1) / TILE_K;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init_mbarrier(full[stage], 1);
            init_mbarrier(empty[stage], CLUSTER * threads / 32);
        }
        publish_mbarriers();
    }
    sync_cluster();  // the mbarriers of all blocks are there
    if (threadIdx.x >= threads) {
        keep_registers<40>();
        if (threadIdx.x == threads) produce(ring, tiles, in_a, in_b, slabs);
        __syncwarp();
    } else {
        take_registers<232>();
        for (int turn = 0; tiles.left(); tiles.next()) {
            Sums sums = {};
            consume(ring, sums, slabs);
            store_bands(sums, bands[threadIdx.x / 128], turn, out, tiles.position());
        }
        if (threadIdx.x % 128 == 0) wait_until_tiles_are_read<0>();
        __syncwarp();
    }
    sync_cluster();  // nobody uses another one's memory any more
}
