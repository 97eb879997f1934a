// A tile of C by warpgroups: slabs in shared memory as the tensor cores take them, their products, and the
// stores. Warpgroup w has GROUP_M rows of the tile from GROUP_M·w on, 64 or 128, and all its columns.
#pragma once

#include <cuda_bf16.h>

#include "../wgmma.cuh"
#include "store.cuh"

constexpr int TILE_K = 64;  // steps of k of a slab, 128 bytes of a row of A
#ifndef GROUP_M
#define GROUP_M 64  // rows of a warpgroup; some kernels let the catalogue say it
#endif
constexpr int threads = TILE_M / GROUP_M * 128;

// Rows of 128 bytes, swizzled. Of B a row has 64 columns, and further columns are further panels.
struct Slab {
    __nv_bfloat16 a[TILE_M][TILE_K];
    __nv_bfloat16 b[TILE_N / 64][TILE_K][64];
};

// A thread's sums, of 64 rows after 64 rows.
using SumsOf64 = float[TILE_N / 2];
using Sums = SumsOf64[GROUP_M / 64];

// sums += a·b for a slab, which all see, or sums = a·b without `add`; the products are a group that is under way.
__device__ __forceinline__ void multiply(Sums& sums, const Slab& slab, bool add = true)
{
    constexpr int pattern = 1024;  // bytes of eight rows
    const int group = threadIdx.x / 128;
    fence_products();
#pragma unroll
    for (int k = 0; k < TILE_K; k += 16)
#pragma unroll
        for (int half = 0; half < GROUP_M / 64; half++)
            multiply_tiles<__nv_bfloat16, true>(sums[half], operand(&slab.a[GROUP_M * group + 64 * half][k], pattern),
                                                operand(slab.b[0][k], pattern, sizeof slab.b[0]), add || k > 0);
    commit_products();
}

// Store a tile that begins at (row, column).
__device__ __forceinline__ void store(const Sums& sums, __nv_bfloat16* C, int m, int n, int row, int column)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < TILE_N / 8; j++)
        store_fragment(C, m, n, row + 16 * warp + lane / 4, column + 8 * j + lane % 4 * 2, &sums[0][4 * j]);
}
