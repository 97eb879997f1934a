// Elements of C of which halves may have lost too much: found, and computed by multiply-adds in float32.
//
// Test        What is lost of a row of A changes an element of C by at most lost·Σ|b|; the same holds the other way
//             round. An element is in doubt if both together may exceed 2^-21 of it, so what passes has lost less
//             than 2^-21 of its Σ|a||b|. A line with an infinity or NaN has lost all.
//
//                 a row of A       2^40   3   5       These have lost bits beside 2^40.
//                 a column of B       7   1   2       The sum is large: what is lost does not show.
//                 another one         0   1   2       The sum is 13: in doubt.
//
// Few doubts of a warp are settled one by one, its lanes sharing out the steps of k. Where there are more, the warp
// computes all of its part of the tile again.
#pragma once

#include "splitting.cuh"

constexpr int few_doubts = 32;  // of a warp
constexpr int short_sum = 64;   // steps of k

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

// Compute a lane's sums; what lies outside of C is a copy of what lies at its edge. Short sums are added up to
// long ones, so that fewer additions round a large number.
template <int count>
__device__ __forceinline__ void compute(float (&sums)[count], const Factors& of, Lane lane)
{
    const float* above = of.A + (size_t)min(lane.row_of(0), of.m - 1) * of.k;
    const float* below = of.A + (size_t)min(lane.row_of(2), of.m - 1) * of.k;
#pragma unroll
    for (int i = 0; i < count; i++) sums[i] = 0;
    for (int first = 0; first < of.k; first += short_sum) {
        float part[count] = {};
        for (int step = first; step < min(first + short_sum, of.k); step++) {
            const float a[2] = {above[step], below[step]};
            const float* b = of.B + (size_t)step * of.n;
#pragma unroll
            for (int i = 0; i < count; i++) part[i] = fmaf(a[i / 2 % 2], b[min(lane.column_of(i), of.n - 1)], part[i]);
        }
#pragma unroll
        for (int i = 0; i < count; i++) sums[i] += part[i];
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
