// Blocks that stay on their multiprocessors, in clusters that share what they load. persistent.cu explains them.
#pragma once

#include "../cluster.cuh"
#include "../overlap.cuh"
#include "ring.cuh"

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int rows_of_a = TILE_M / CLUSTER_N, rows_of_b = TILE_K / CLUSTER_M;  // of a slab, that a block loads
constexpr int EARLY = CLUSTER == 1 ? STAGES : 2;  // slabs that each block loads for itself

// This block's place in its cluster: blocks are numbered column by column.
__device__ __forceinline__ int2 place_in_cluster()
{
    const int rank = rank_in_cluster();
    return {rank % CLUSTER_M, rank / CLUSTER_M};
}

// The order of the tiles: a cluster's are taken together, patch by patch, and in a patch column by column.
struct Order {
    int rows, columns;  // of clusters' tiles

    __device__ Order(int m, int n)
        : rows((m + CLUSTER_M * TILE_M - 1) / (CLUSTER_M * TILE_M)),
          columns((n + CLUSTER_N * TILE_N - 1) / (CLUSTER_N * TILE_N))
    {
    }

    __device__ int tiles() const { return rows * columns; }

    // The first row and column of C that the block at this place of its cluster computes.
    __device__ int2 position(int index, int2 place) const
    {
        const int patch = index / (PATCH * columns), first = patch * PATCH, height = min(PATCH, rows - first);
        const int within = index - first * columns;
        return {((first + within % height) * CLUSTER_M + place.x) * TILE_M,
                (within / height * CLUSTER_N + place.y) * TILE_N};
    }
};

// The tiles of this block, one after the other.
struct Tiles {
    Order order;
    int index = blockIdx.x / CLUSTER, turn = 0;
    int2 place = place_in_cluster(), first;  // the tile's first row and column of C

    __device__ Tiles(int m, int n) : order(m, n) { find(); }

    __device__ bool left() const { return index < order.tiles(); }

    __device__ void next()
    {
        index += gridDim.x / CLUSTER, turn++;
        find();
    }

    __device__ void find()
    {
        if (left()) first = order.position(index, place);
    }

    // Whether the sums of this tile begin at the end of k.
    __device__ bool backwards() const { return turn % 2; }
};

// Load slab k of a tile: this block's parts for the blocks that need them too, or, if it is not `shared`, all parts
// for itself.
template <bool shared = true>
__device__ __forceinline__ void load(Slab& slab, Mbarrier& full, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                     int2 tile, int k, int2 place)
{
    constexpr unsigned column = (1u << CLUSTER_M) - 1, row = ((1u << CLUSTER) - 1) / column;  // as bits of the blocks
    expect_bytes(full, sizeof slab);
    for (int part = shared ? place.y : 0; part < (shared ? place.y + 1 : CLUSTER_N); part++)
        load_part<shared && (CLUSTER_N > 1)>(slab.a[part * rows_of_a], in_a, full, tile.x + part * rows_of_a, k,
                                             row << place.x);
    for (int panel = 0; panel < TILE_N / 64; panel++)
        for (int part = shared ? place.x : 0; part < (shared ? place.x + 1 : CLUSTER_M); part++)
            load_part<shared && (CLUSTER_M > 1)>(slab.b[panel][part * rows_of_b], in_b, full, k + part * rows_of_b,
                                                 tile.y + 64 * panel, column << place.y * CLUSTER_M);
}

// Load the first slabs before the cluster has met: each block for itself, since the others may have no mbarriers.
__device__ __forceinline__ void begin(Ring& ring, const Tiles& tiles, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                      int slabs)
{
#pragma unroll 1
    for (int s = 0; s < slabs; s++, ring.next())
        load<false>(ring.slabs[ring.stage], ring.full[ring.stage], in_a, in_b, tiles.first, s * TILE_K, tiles.place);
}

// Fill the ring with the slabs of all tiles but the first `early` ones, and stay until its last ones are read: then
// nobody writes to this block's shared memory any more.
__device__ __forceinline__ void produce(Ring& ring, Tiles tiles, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                        int slabs, int early)
{
    for (; tiles.left(); tiles.next(), early = 0) {
        const int begin = tiles.backwards() ? slabs - 1 : 0, step = tiles.backwards() ? -1 : 1;
#pragma unroll 1
        for (int s = early; s < slabs; s++, ring.next()) {
            wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
            load(ring.slabs[ring.stage], ring.full[ring.stage], in_a, in_b, tiles.first, (begin + step * s) * TILE_K,
                 tiles.place);
        }
    }
    for (int i = 0; i < STAGES; i++, ring.next()) wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
}

// Whether the block of this lane's number loads for this block: it has the same row or the same column.
__device__ __forceinline__ bool serves()
{
    const int lane = threadIdx.x % 32;
    const int2 place = place_in_cluster();
    return lane < CLUSTER && (lane % CLUSTER_M == place.x || lane / CLUSTER_M == place.y);
}

// Compute this block's tiles. store(sums, tile): store a tile that begins at row tile.x and column tile.y.
template <class Store>
__device__ __forceinline__ void compute_tiles(Slab* slabs_there, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                              int m, int n, int k, Store store)
{
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Ring ring = {slabs_there, full, empty};
    if constexpr (RESIDENT == 1) let_next_launch_begin();
    if (produces()) prefetch_map(in_a), prefetch_map(in_b);
    Tiles tiles(m, n);  // the first one is found while the maps come
    const int slabs = (k + TILE_K - 1) / TILE_K, early = tiles.left() ? min(slabs, EARLY) : 0;
    if (produces()) {
        ring.set_up((CLUSTER_M + CLUSTER_N - 1) * threads / 32);
        wait_for_last_launch();
        begin(ring, tiles, in_a, in_b, early);
    }
    __syncwarp();
    meet_cluster();  // the mbarriers of all blocks are there
    if (threadIdx.x >= threads) {
        keep_few_registers();
        if (produces()) produce(ring, tiles, in_a, in_b, slabs, early);
    } else {
        take_many_registers();
        const bool served = serves();
        const auto leave = [&](int stage) {
            if (served) arrive_in_block(empty[stage], threadIdx.x % 32);
        };
        Sums sums = {};
        for (; tiles.left(); tiles.next()) {
            consume(ring, sums, slabs, leave);
            store(sums, tiles.first);
        }
    }
}
