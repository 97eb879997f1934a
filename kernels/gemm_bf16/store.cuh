// The sums of a lane, as tensor cores leave them, rounded to bfloat16 and stored.
#pragma once

#include <cuda_bf16.h>

// Store two neighbouring sums, as far as they lie in C. Where rows have an even number of elements, it is
// one store of four bytes.
__device__ __forceinline__ void store_pair(__nv_bfloat16* C, int m, int n, int row, int column, float first,
                                           float second)
{
    if (row >= m || column >= n) return;
    __nv_bfloat16* place = C + (size_t)row * n + column;
    if (n % 2 == 0) {
        *(__nv_bfloat162*)place = __floats2bfloat162_rn(first, second);
    } else {
        place[0] = __float2bfloat16(first);
        if (column + 1 < n) place[1] = __float2bfloat16(second);
    }
}

// Store the four sums of a fragment: two neighbours at (row, column), and two eight rows below.
__device__ __forceinline__ void store_fragment(__nv_bfloat16* C, int m, int n, int row, int column,
                                               const float* sums)
{
    store_pair(C, m, n, row, column, sums[0], sums[1]);
    store_pair(C, m, n, row + 8, column, sums[2], sums[3]);
}
