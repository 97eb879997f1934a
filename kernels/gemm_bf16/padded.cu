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
// Order       pad_bf16, then the tiles as in persistent.cu; each waits for the launch before it (../overlap.cuh). C
//             has rows that begin anywhere, which TMA does not take either: each warp writes 16 rows of a band to
//             shared memory as there, and then stores row after row, neighbouring lanes neighbouring elements.
//
// Traffic     As persistent.cu, and 4(mk + kn) bytes for the copies.
// Limit       The copies where m or n is small; the stores, which no product of the block's hides.
#include "band.cuh"
#include "pad.cuh"
#include "persistent.cuh"

// Store elements of a row of a band from `column` of C on: pairs where rows have an even number of elements.
__device__ __forceinline__ void store_row(const Band& band, int row, __nv_bfloat16* to, int n, int column)
{
    const int lane = threadIdx.x % 32;
    const auto element = [&](int e) -> const __nv_bfloat16& { return band[row][(e / 8 ^ row % 8) * 8 + e % 8]; };
    if (n % 2 == 0) {
        const int first = 2 * lane;
        if (column + first < n) *(__nv_bfloat162*)&to[column + first] = *(const __nv_bfloat162*)&element(first);
    } else {
        for (int e = lane; e < 64; e += 32)
            if (column + e < n) to[column + e] = element(e);
    }
}

// Store a warpgroup's rows of a tile, which begin at (row, column) of C. A warp writes and reads rows of its own.
__device__ __forceinline__ void store_rows(const SumsOf64& sums, Band& band, __nv_bfloat16* C, int m, int n, int row,
                                           int column)
{
    const int first = threadIdx.x / 32 % 4 * 16;
#pragma unroll
    for (int panel = 0; panel < TILE_N / 64; panel++) {
        __syncwarp();  // the last panel's rows are read
        write(band, &sums[32 * panel]);
        __syncwarp();
#pragma unroll 4
        for (int r = first; r < first + 16; r++)
            if (row + r < m) store_row(band, r, C + (size_t)(row + r) * n, n, column + 64 * panel);
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(threads + 128, RESIDENT)
padded_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
            int m, int n, int k, void* a, void* b, const __grid_constant__ CUtensorMap in_a,
            const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    Slab* slabs = (Slab*)memory;
    Band& band = ((Band*)(slabs + STAGES))[threadIdx.x / 128];
    compute_tiles(slabs, in_a, in_b, m, n, k, [&](const Sums& sums, int2 tile) {
        store_rows(sums[0], band, C, m, n, tile.x + threadIdx.x / 128 * 64, tile.y);
    });
}
