// Elements of C of which halves may have lost too much: found, and computed by multiply-adds in float32.
//
// Test        What is lost of a row of A takes at most lost·Σ|b| from an element, and the same the other way round.
//             An element is in doubt if both together exceed 2^-21 of it. It is not larger than its Σ|a||b|, so an
//             element that passes is as right as its sum. An infinite or NaN element of A or B has lost all.
//
//             a row      8 · 2^70   3        5            C passes where b is not tiny beside 2^70; where it is
//             a column      0       1        2            zero, as here, C is 13 and in doubt
//
// A warp has 16 rows of a tile, and 2 rows of a lane's sums are `Lane` below. Few doubts are settled one by one, all
// lanes sharing out a sum; where there are more, the warp computes all of its part again.
#pragma once

#include "splitting.cuh"

constexpr int few_doubts = 32;  // of a warp

// Where a lane's sums lie in C (wgmma.cuh).
struct Lane {
    int row, column;

    __device__ int row_of(int sum) const { return row + sum / 2 % 2 * 8; }
    __device__ int column_of(int sum) const { return column + sum / 4 * 8 + sum % 2; }
};

struct Factors {
    const float *A, *B;
    const Line *rows, *columns;
    int m, n, k;
};

// Whether anything was lost of the warp's rows, from `row` on, and columns.
__device__ __forceinline__ bool anything_lost(const Factors& of, int row, int column, int width)
{
    const int lane = threadIdx.x % 32;
    bool lost = row + lane % 16 < of.m && of.rows[row + lane % 16].lost > 0;
    for (int i = column + lane; i < min(column + width, of.n); i += 32) lost |= of.columns[i].lost > 0;
    return __any_sync(~0u, lost);
}

// A bit for each of the lane's sums that is in doubt.
template <int count>
__device__ __forceinline__ unsigned long long doubts(const float (&sums)[count], const Factors& of, Lane lane)
{
    static_assert(count <= 64, "a bit for each");
    unsigned long long found = 0;
#pragma unroll
    for (int i = 0; i < count; i++) {
        const int row = lane.row_of(i), column = lane.column_of(i);
        if (row >= of.m || column >= of.n) continue;
        const Line a = of.rows[row], b = of.columns[column];
        const bool sure = a.lost * b.sum + a.sum * b.lost <= share_left * fabsf(sums[i]);
        found |= (unsigned long long)!sure << i;
    }
    return found;
}

__device__ __forceinline__ int doubts_of_warp(unsigned long long doubts)
{
    int count = 0;
    for (; doubts; doubts &= doubts - 1) count++;
    for (int lanes = 16; lanes > 0; lanes /= 2) count += __shfl_xor_sync(~0u, count, lanes);
    return count;
}

// Compute a lane's sums; what lies outside of C is a copy of what lies at its edge.
template <int count>
__device__ __forceinline__ void compute(float (&sums)[count], const Factors& of, Lane lane)
{
    const float* above = of.A + (size_t)min(lane.row_of(0), of.m - 1) * of.k;
    const float* below = of.A + (size_t)min(lane.row_of(2), of.m - 1) * of.k;
#pragma unroll
    for (int i = 0; i < count; i++) sums[i] = 0;
    for (int step = 0; step < of.k; step++) {
        const float a[2] = {above[step], below[step]};
        const float* b = of.B + (size_t)step * of.n;
#pragma unroll
        for (int i = 0; i < count; i++) sums[i] = fmaf(a[i / 2 % 2], b[min(lane.column_of(i), of.n - 1)], sums[i]);
    }
}

// One element of C, by all lanes of a warp.
__device__ __forceinline__ float element(const Factors& of, int row, int column)
{
    float sum = 0;
#pragma unroll 4
    for (int step = threadIdx.x % 32; step < of.k; step += 32)
        sum = fmaf(of.A[(size_t)row * of.k + step], of.B[(size_t)step * of.n + column], sum);
    return over_lanes(sum, Sum());
}

// Compute the elements in doubt, and store them.
template <int count>
__device__ __forceinline__ void settle(unsigned long long doubts, float* C, const Factors& of, Lane lane)
{
    for (int i = 0; i < count; i++) {
        const unsigned lanes = __ballot_sync(~0u, doubts >> i & 1);
        for (int other = 0; other < 32; other++) {
            const int row = __shfl_sync(~0u, lane.row_of(i), other);
            const int column = __shfl_sync(~0u, lane.column_of(i), other);
            if (!(lanes >> other & 1)) continue;
            const float sum = element(of, row, column);
            if (threadIdx.x % 32 == other) C[(size_t)row * of.n + column] = sum;
        }
    }
}
