// A ring of slabs in shared memory between a producer and consumers, which may go on from tile to tile, and the
// registers of both. roles.cu explains it. Threads 0 to `threads` - 1 consume; the warpgroup behind them produces.
#pragma once

#include "../tile_copy.cuh"
#include "../warp_roles.cuh"
#include "warpgroup_tile.cuh"

struct Ring {
    Slab* slabs;
    Mbarrier *full, *empty;
    int stage = 0, round = 0;  // of the next slab; the round as a parity

    __device__ void next()
    {
        if (++stage == STAGES) stage = 0, round ^= 1;
    }

    // Set up the mbarriers, by one thread. `consumers`: warps that arrive when a stage is empty. The block, or its
    // cluster, has to meet before others use them.
    __device__ void set_up(int consumers) const
    {
        for (int stage = 0; stage < STAGES; stage++) {
            init_mbarrier(full[stage], 1);
            init_mbarrier(empty[stage], consumers);
        }
        publish_mbarriers();
    }
};

// Whether this thread is the one that issues all loads.
__device__ __forceinline__ bool produces() { return threadIdx.x / 32 == threads / 32 && elected(); }

// Load this block's part of a box's rows, for `blocks` of the cluster.
template <bool shared>
__device__ __forceinline__ void load_part(void* part, const CUtensorMap& map, Mbarrier& full, int row, int column,
                                          unsigned short blocks)
{
    if constexpr (shared)
        load_tile_to_blocks(part, map, full, row, column, blocks);
    else
        load_tile(part, map, full, row, column);
}

// Multiply the next slabs of the ring: sums = a·b. leave(stage): tell whoever fills it that a stage is empty.
template <class Leave>
__device__ __forceinline__ void consume(Ring& ring, Sums& sums, int slabs, Leave leave)
{
    for (int s = 0, last = 0; s < slabs; s++, last = ring.stage, ring.next()) {
        wait_for_phase(ring.full[ring.stage], ring.round);
        multiply(sums, ring.slabs[ring.stage], s > 0);
        wait_for_products<1>();
        if (s > 0) leave(last);
    }
    wait_for_products<0>();
    leave((ring.stage + STAGES - 1) % STAGES);
}

// A multiprocessor has 65536 registers, 512 for each place in a warpgroup, for RESIDENT blocks. All threads begin
// with `at_first` of them, as ptxas gives them by __launch_bounds__. The producer keeps `few`, and consumers take
// as many as are there then: more would let them wait for ever.
constexpr int consumers = threads / 128, at_first = 512 / RESIDENT / (consumers + 1) / 8 * 8;
constexpr int few = 32, there = (at_first + (at_first - few) / consumers) / 8 * 8, many = there < 240 ? there : 240;

__device__ __forceinline__ void keep_few_registers()
{
    if constexpr (many > at_first) keep_registers<few>();
}

__device__ __forceinline__ void take_many_registers()
{
    if constexpr (many > at_first) take_registers<many>();
}
