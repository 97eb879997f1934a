// The pass before the product: A and B as halves, in the workspace. A block has 32 rows of A or 32 columns of B.
// It reads them twice, first for the largest elements. The second time it goes backwards, and finds in the caches
// what it has read last. A thread has `batch` loads under way at a time: with one it would mostly wait.
//
//     rows of A       one to 32 warps for each, so that a row lies in the L2 when it is read again; lanes along k
//     columns of B    a lane for each column, warps along k
//
// Layout      32 steps of k make a slab: 32 highs and then 32 lows, side by side in a row of A and below each other
//             in a column of B. What is missing of the last slab is zeros.
//
//                   row of A   │ 32 highs │ 32 lows │ 32 highs │ 32 lows │ ...
#pragma once

#include "halves.cuh"

constexpr int slab_steps = 32, splitting_warps = 32;
constexpr int batch = 8;  // elements that a thread loads before it uses the first

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

struct Most {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <class Both>
__device__ __forceinline__ float over_lanes(float x, Both both)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) x = both(x, __shfl_xor_sync(~0u, x, lanes));
    return x;
}

// Of the warps first, first + 1, ...: each of their lanes gets the same lane's values of all. All threads of
// the block take part.
template <class Both>
__device__ __forceinline__ float over_warps(float x, int first, int warps, Both both)
{
    __shared__ float parts[splitting_warps][33];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
    parts[warp][lane] = x;
    __syncthreads();
    x = parts[first][lane];
    for (int other = first + 1; other < first + warps; other++) x = both(x, parts[other][lane]);
    return x;
}

__device__ __forceinline__ int round_up(int number, int unit) { return (number + unit - 1) / unit * unit; }

// use(step, x) for the elements x of a line at the steps first, first + stride, ... below `end` and for a few beyond,
// which are zeros, as are those from k on. Backwards, it begins with what was read last before.
template <bool backwards, class Use>
__device__ __forceinline__ void for_elements(const float* __restrict__ line, int apart, int first, int stride, int k,
                                             int end, Use use)
{
    const int batches = (end - first + batch * stride - 1) / (batch * stride);
    for (int b = 0; b < batches; b++) {
        const int begin = first + (backwards ? batches - 1 - b : b) * batch * stride;
        const float* from = line + (size_t)begin * apart;
        float x[batch];
#pragma unroll
        for (int i = 0; i < batch; i++, from += (size_t)stride * apart) x[i] = begin + i * stride < k ? *from : 0;
#pragma unroll
        for (int i = 0; i < batch; i++) use(begin + i * stride, x[i]);
    }
}

// Split the rows from `first` on.
__device__ __forceinline__ void split_rows(const float* __restrict__ A, __half* __restrict__ halves, Line* lines,
                                           int m, int k, int first)
{
    int warps = 1;  // of a row
    while (warps < splitting_warps && warps * 1024 < k) warps *= 2;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, team = warp / warps, begin = team * warps;
    const int padded = round_up(k, slab_steps), own = (warp - begin) * 32 + lane;
    for (int row = first + team; row < first + 32; row += splitting_warps / warps) {
        const float* from = A + (size_t)min(row, m - 1) * k;
        __half* to = halves + (size_t)min(row, m - 1) * 2 * padded;
        float largest = 0, sum = 0, lost = 0;
        for_elements<false>(from, 1, own, 32 * warps, k, k, [&](int, float x) { largest = fmaxf(largest, fabsf(x)); });
        largest = over_warps(over_lanes(largest, Most()), begin, warps, Most());
        const Scale scale(exponent_for(largest));
        for_elements<true>(from, 1, own, 32 * warps, k, padded, [&](int step, float x) {
            __half high, low;
            lost = split(x, scale, high, low, lost);
            sum += fabsf(scale.of(x));
            if (row < m && step < padded) to[2 * step - lane] = high, to[2 * step - lane + slab_steps] = low;
        });
        sum = over_warps(over_lanes(sum, Sum()), begin, warps, Sum());
        lost = over_warps(over_lanes(lost, Most()), begin, warps, Most());
        if (row < m && warp == begin && lane == 0) lines[row] = finished(exponent_for(largest), sum, lost, largest);
    }
}

// Split the columns from `first` on. Rows of halves are `pitch` elements long.
__device__ __forceinline__ void split_columns(const float* __restrict__ B, __half* __restrict__ halves, Line* lines,
                                              int n, int k, int first)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, column = first + lane;
    const int padded = round_up(k, slab_steps), pitch = round_up(n, 8);
    const float* from = B + min(column, n - 1);
    float largest = 0, sum = 0, lost = 0;
    for_elements<false>(from, n, warp, splitting_warps, k, k,
                        [&](int, float x) { largest = fmaxf(largest, fabsf(x)); });
    largest = over_warps(largest, 0, splitting_warps, Most());
    const Scale scale(exponent_for(largest));
    for_elements<true>(from, n, warp, splitting_warps, k, padded, [&](int step, float x) {
        __half* to = halves + (size_t)(2 * step - warp) * pitch + column;
        __half high, low;
        lost = split(x, scale, high, low, lost);
        sum += fabsf(scale.of(x));
        if (column < n && step < padded) to[0] = high, to[(size_t)slab_steps * pitch] = low;
    });
    sum = over_warps(sum, 0, splitting_warps, Sum());
    lost = over_warps(lost, 0, splitting_warps, Most());
    if (column < n && warp == 0) lines[column] = finished(exponent_for(largest), sum, lost, largest);
}
