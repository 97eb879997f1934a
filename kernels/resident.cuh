// Blocks that stay: each takes tile after tile of C, and fills and reads a ring of slabs all the while. From
// compute capability 9.0 on.
//
// Words       cluster      neighbouring blocks that compute tiles one above the other, and share slabs of B
//             patch        rows of clusters' tiles that are computed together, column by column, so that they
//                          find their rows of A and their columns of B in the L2 cache
//
//                  C, order of tiles
//                 ┌────┬────┬────┬────┐
//                 │ 0  │ 2  │ 4  │ ...│  a patch of two clusters' rows
//                 ├────┼────┼────┼────┤
//                 │ 1  │ 3  │ 5  │    │
//                 ╞════╪════╪════╪════╡
//                 │ then the next one │
//                 └────┴────┴────┴────┘
#pragma once

#include "cluster.cuh"
#include "mbarrier.cuh"

// Stages of slabs, with two mbarriers for each (mbarrier.cuh).
template <class Slab, int stages>
struct Ring {
    Slab* slabs;
    Mbarrier *full, *empty;
    int slab = 0;  // the next one, counted over all tiles

    __device__ int stage() const { return slab % stages; }
    __device__ int last_stage() const { return (slab - 1) % stages; }
    __device__ int round() const { return slab / stages % 2; }

    // Set up the mbarriers: one producer fills a stage, and so many warps of the cluster leave it.
    __device__ void init(int warps)
    {
        for (int stage = 0; stage < stages; stage++) {
            init_mbarrier(full[stage], 1);
            init_mbarrier(empty[stage], warps);
        }
        publish_mbarriers();
    }
};

// The tiles of this block, one after the other.
template <int tile_m, int tile_n, int cluster, int patch>
struct Tiles {
    int rows, columns;  // of clusters' tiles
    int index = blockIdx.x / cluster;

    __device__ Tiles(int m, int n)
        : rows((m + cluster * tile_m - 1) / (cluster * tile_m)), columns((n + tile_n - 1) / tile_n)
    {
    }

    __device__ bool left() const { return index < rows * columns; }
    __device__ void next() { index += gridDim.x / cluster; }

    // The first row and column of C.
    __device__ int2 position() const
    {
        const int above = index / (patch * columns) * patch, height = min(patch, rows - above);
        const int within = index - above * columns;
        return {((above + within % height) * cluster + (int)rank_in_cluster()) * tile_m, within / height * tile_n};
    }
};
