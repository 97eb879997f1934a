// A part of a tile, rounded and in shared memory, on its way to C.
#pragma once

#include <cuda_bf16.h>

#include "../mma.cuh"

using Band = __nv_bfloat16[64][64];

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
