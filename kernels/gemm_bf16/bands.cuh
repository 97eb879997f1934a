// The way of a tile's sums to C, band by band through shared memory and by TMA, while the next tile is
// multiplied. persistent.cu explains it.
#pragma once

#include "band.cuh"
#include "persistent.cuh"

// A consumer's places for bands, which it takes by turns: one is written while the others are stored.
using Bands = Band[BANDS];

// Whether this thread gives TMA the bands of its warpgroup.
__device__ __forceinline__ bool stores() { return threadIdx.x % 128 == 0; }

// Store a warpgroup's rows of the tile. `turn`: of the next band, counted over all tiles.
__device__ __forceinline__ void store_bands(const Sums& sums, Bands& bands, int& turn, const CUtensorMap& out,
                                            int2 tile)
{
    const int group = threadIdx.x / 128, barrier = 1 + group;
#pragma unroll
    for (int half = 0; half < GROUP_M / 64; half++)
#pragma unroll
        for (int panel = 0; panel < TILE_N / 64; panel++) {
            Band& band = bands[turn++ % BANDS];
            if (stores()) wait_until_tiles_are_read<BANDS - 1>();
            sync_at_barrier(barrier, 128);
            write(band, &sums[half][32 * panel]);
            fence_async_proxy();
            sync_at_barrier(barrier, 128);
            if (stores()) {
                store_tile(out, band, tile.x + GROUP_M * group + 64 * half, tile.y + 64 * panel);
                commit_tile_stores();
            }
        }
}

// Compute a block's tiles and store them by bands. compute(slabs, store) computes them with the ring in `slabs`,
// and calls store(sums, tile) for each one that begins at row tile.x and column tile.y.
template <class Compute>
__device__ __forceinline__ void compute_by_bands(char* memory, const CUtensorMap& out, Compute compute)
{
    Slab* slabs = (Slab*)memory;
    Bands& bands = ((Bands*)(slabs + STAGES))[threadIdx.x / 128];
    int turn = 0;
    compute(slabs, [&](const Sums& sums, int2 tile) { store_bands(sums, bands, turn, out, tile); });
    if (threadIdx.x < threads && stores()) wait_until_tiles_are_read<0>();
}
