// C = A·B in bfloat16 for any shape: copies whose rows begin at 16 bytes, and then as persistent.cu.
//
// Idea        TMA takes no matrix whose rows begin anywhere, and so all kernels that it feeds refuse odd n and k.
//             Loads of single elements, as in wgmma.cu, are many times slower. Here a first launch copies A and B
//             to rows that are up to seven elements longer. The copy reads and writes each element once, the
//             product reads it many times: n/TILE_N or m/TILE_M times from the L2.
//
//                 A, rows of k elements            workspace, rows of a multiple of 8
//                 ┌─────────────┐                  ┌─────────────┬──┐
//                 │ 0 1 2 ... 8 │0 1 2 ...         │ 0 1 2 ... 8 │  │ anything
//                 └─────────────┘                  ├─────────────┼──┤
//                   the next row begins            │ 0 1 2 ... 8 │  │
//                   where this one ends            └─────────────┴──┘
//
//             The tensor maps say how long the rows are in truth. What lies behind them comes as zeros.
//
// Order       pad_bf16 (pad.cuh), then the tiles as in persistent.cu; each waits for the launch before it. C has
//             rows that begin anywhere, which TMA does not take either: each warp writes 16 rows of a band to shared
//             memory as there, and then stores row after row, neighbouring lanes neighbouring elements.
//
// Traffic     As persistent.cu, and 4(mk + kn) bytes for the copies.
// Limit       The copies where m or n is small; the stores, which no product of the block's hides.
#include "../hopper_tile.cuh"
#include "pad.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;                 // rows and columns of C of a block
    static constexpr int stages = STAGES;                                  // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;     // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                    // rows of clusters' tiles of a patch
    static constexpr int resident = RESIDENT;                              // blocks of a multiprocessor
    static constexpr int early = cluster_m * cluster_n == 1 ? stages : 2;  // slabs loaded before the cluster meets
    static constexpr bool adds = ADDS;                                     // whether C = alpha·A·B + beta·D
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void
pad_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* C, int m, int n,
         int k, float alpha, float beta, const __nv_bfloat16* D, void* a, void* b,
         const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    pad<Tiling::resident == 1>(A, B, m, n, k, (__nv_bfloat162*)a, (__nv_bfloat162*)b);
}

// Store a warpgroup's rows of a tile, which begin at (row, column) of C. A warp writes and reads rows of its own.
__device__ __forceinline__ void store_rows(Tile::SumsOf64& sums, Tile::Band& band, __nv_bfloat16* C, int m, int n,
                                           int row, int column, const Tile::Addition& addition)
{
    const int first = threadIdx.x / 32 % 4 * 16;
#pragma unroll
    for (int panel = 0; panel < Tile::panels; panel++) {
        addition.apply(&sums[32 * panel], m, n, row, column + 64 * panel);
        __syncwarp();  // the last panel's rows are read
        Tile::write(band, &sums[32 * panel]);
        __syncwarp();
#pragma unroll 4
        for (int r = first; r < first + 16; r++)
            if (row + r < m) Tile::store_row(band, r, C + (size_t)(row + r) * n, n, column + 64 * panel);
    }
}

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
padded_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* C, int m, int n,
            int k, float alpha, float beta, const __nv_bfloat16* D, void* a, void* b,
            const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    const int group = threadIdx.x / 128;
    Tile::Band& band = ((Tile::Band*)(slabs + Tiling::stages))[group];
    Tile::compute_tiles(slabs, {in_a, in_b}, m, n, k, [&](Tile::Sums& sums, int2 tile) {
        store_rows(sums[0], band, C, m, n, tile.x + group * 64, tile.y, {alpha, beta, D});
    });
}
