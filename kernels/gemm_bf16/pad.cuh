// Copies of A and B whose rows begin at 16 bytes, so that TMA takes them: the first launch of padded.cu, which
// explains it, and of padded_split.cu.
#pragma once

#include "../instructions.cuh"

constexpr int of_thread = 4;  // pairs of elements, whose loads are under way together

// Copy a matrix of `rows` rows of `length` elements to rows of a multiple of 8. Block `block` of those for this
// matrix takes blockDim.x * of_thread pairs, one row's after the other's: rows may be short or long.
__device__ __forceinline__ void copy_rows(const __nv_bfloat16* __restrict__ from, __nv_bfloat162* __restrict__ to,
                                          int rows, int length, unsigned block)
{
    const unsigned pairs = (length + 1) / 2, stride = (length + 7) / 8 * 4;  // of a row
    const unsigned first = block * blockDim.x * of_thread + threadIdx.x;
    __nv_bfloat162 both[of_thread];
#pragma unroll
    for (int i = 0; i < of_thread; i++) {
        const unsigned pair = first + i * blockDim.x, row = pair / pairs, column = pair % pairs * 2;
        if (row >= rows) continue;
        const __nv_bfloat16* own = from + (size_t)row * length + column;
        both[i] = {own[0], own[column + 1 < length ? 1 : 0]};
    }
#pragma unroll
    for (int i = 0; i < of_thread; i++) {
        const unsigned pair = first + i * blockDim.x, row = pair / pairs;
        if (row < rows) to[(size_t)row * stride + pair % pairs] = both[i];
    }
}

// The first blocks copy A, the others B. `lets_next_begin`: whether the product's blocks may begin meanwhile.
template <bool lets_next_begin>
__device__ __forceinline__ void pad(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, int m,
                                    int n, int k, __nv_bfloat162* a, __nv_bfloat162* b)
{
    if constexpr (lets_next_begin) let_next_launch_begin();
    wait_for_last_launch();
    const unsigned of_block = blockDim.x * of_thread, of_a = (m * ((k + 1) / 2) + of_block - 1) / of_block;
    if (blockIdx.x < of_a)
        copy_rows(A, a, m, k, blockIdx.x);
    else
        copy_rows(B, b, k, n, blockIdx.x - of_a);
}
