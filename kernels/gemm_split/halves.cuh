// Floats as halves, for three_products.cu:
//
//     A float as two halves    and what is known of a line
//     Splitting                the pass before the product
//     Doubts                   elements of C of which halves may have lost too much
#pragma once

#include <cuda_fp16.h>

#include "../async_copy.cuh"

// ---- A float as two halves ----
//
// A line is a row of A or a column of B.
//
//     x·2^exponent = high + low·2^-12 + left          |low·2^-12| ≤ 2^-11 |high|
//
// The exponent is the line's. It brings the line's largest element to 2^14 to 2^15, near the top of a half's range,
// and so low to at most 2^15. Down to 2^-28 of the largest element, `left` is at most 2^-23 of an element. Below, low
// is too small for all its bits. What is left then is at most 2^-51 of the largest element; where it is more than
// 2^-21 of its own element, it is `lost`.

constexpr float low_unit = 0x1p-12f, share_left = 0x1p-21f;

struct Line {
    int exponent;
    float sum;   // of the scaled elements' absolute values
    float lost;  // the most that is lost of an element; infinite where halves will not do
};

// 2^exponent, from 2^-126 on, as float's bits have it.
__device__ __forceinline__ float power(int exponent) { return __int_as_float((exponent + 127) << 23); }

// 2^exponent in two factors, each of which a float holds.
struct Scale {
    float first, second;

    __device__ Scale(int exponent) : first(power(exponent >> 1)), second(power(exponent - (exponent >> 1))) {}

    __device__ float of(float x) const { return x * first * second; }
};

__device__ __forceinline__ int exponent_for(float largest)
{
    return largest > 0 && largest < INFINITY ? 14 - ilogbf(largest) : 0;
}

// Split an element; the greater of `lost` and what is lost of it.
__device__ __forceinline__ float split(float x, const Scale& scale, __half& high, __half& low, float lost)
{
    const float scaled = scale.of(x);
    high = __float2half_rn(scaled);
    const float rest = scaled - __half2float(high);
    low = __float2half_rn(rest / low_unit);
    const float left = fabsf(rest - __half2float(low) * low_unit);
    const bool kept = (left <= share_left * fabsf(scaled)) & (scaled != 0 | x == 0);
    return kept ? lost : fmaxf(lost, left < INFINITY ? fmaxf(left, 0x1p-126f) : INFINITY);
}

// A line of which all has been split. Where one element is all there is to a sum, SGEMM rounds it once, and
// nothing makes up for the bits that halves lack.
__device__ __forceinline__ Line finished(int exponent, float sum, float lost, float largest)
{
    const bool alone = largest > 0 && sum <= 1.001f * Scale(exponent).of(largest);
    return {exponent, sum, alone ? INFINITY : lost};
}

// ---- Splitting ----
//
// The pass before the product: A and B as halves, in the workspace. It needs the elements twice, first for the largest
// of them. A thread keeps what it reads in shared memory (cp.async), as much as there is room for. What is left it
// reads again, backwards, from the L2 what it has read last, `batch` loads at once: with one it would mostly wait.
//
//     rows of A       four rows for a block, four warps for each, lanes along k
//     columns of B    32 columns for a cluster, a lane for each; all its warps along k. What its blocks find of a column
//                     they tell each other through shared memory
//
// Layout      32 steps of k make a slab: 32 highs and then 32 lows, side by side in a row of A and below each other
//             in a column of B. What is missing of the last slab is zeros.
//
//                   row of A   │ 32 highs │ 32 lows │ 32 highs │ 32 lows │ ...

constexpr int slab_steps = 32;
constexpr int splitting_warps = 16, splitting_threads = 32 * splitting_warps;
constexpr int sharers = 4;     // blocks of a cluster
constexpr int rows_of_block = 4, warps_of_row = splitting_warps / rows_of_block;
constexpr int batch = 8;       // elements that a thread loads before it uses the first
constexpr int most_kept = 52;  // elements of a thread, so that a multiprocessor has room for two blocks

using Kept = float[most_kept][splitting_threads];

struct Sum {
    __device__ float operator()(float a, float b) const { return a + b; }
};

struct Most {
    __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// What is found of a line's elements as they are split.
struct Found {
    float sum, lost;  // as of a Line
};

struct Together {
    __device__ Found operator()(Found a, Found b) const { return {a.sum + b.sum, fmaxf(a.lost, b.lost)}; }
};

__device__ __forceinline__ float of_lane(float x, int apart) { return __shfl_xor_sync(~0u, x, apart); }

__device__ __forceinline__ Found of_lane(Found x, int apart) { return {of_lane(x.sum, apart), of_lane(x.lost, apart)}; }

template <class Value, class Both>
__device__ __forceinline__ Value over_lanes(Value x, Both both)
{
    for (int lanes = 16; lanes > 0; lanes /= 2) x = both(x, of_lane(x, lanes));
    return x;
}

// Of the warps first, first + 1, ...: each of their lanes gets the same lane's values of all. All threads of
// the block take part, once for each Value and Both: no barrier keeps a second time from overwriting the first.
template <class Value, class Both>
__device__ __forceinline__ Value over_warps(Value x, int first, int warps, Both both)
{
    __shared__ Value parts[splitting_warps][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    parts[warp][lane] = x;
    __syncthreads();
    x = parts[first][lane];
    for (int other = first + 1; other < first + warps; other++) x = both(x, parts[other][lane]);
    return x;
}

// Of all blocks of a cluster, which take part: each lane gets the same lane's values of all, which are the same in all
// warps of a block.
template <class Value, class Both>
__device__ __forceinline__ Value over_cluster(Value x, Both both)
{
    __shared__ Value own[32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) own[lane] = x;
    sync_cluster();
    x = *in_block(&own[lane], 0);
    for (int block = 1; block < sharers; block++) x = both(x, *in_block(&own[lane], block));
    return x;
}

__device__ __forceinline__ int round_up(int number, int unit) { return (number + unit - 1) / unit * unit; }

// A thread's elements of a line, at the steps first, first + stride, ... They lie `apart` from each other.
struct Elements {
    const float* line;
    int apart, first, stride, k;
    Kept& kept;  // the first ones, when largest() has been there

    __device__ __forceinline__ int count_kept() const
    {
        return min(max(k - first + stride - 1, 0) / stride, most_kept);
    }

    // use(step, x) for those that are not kept, and for a few beyond them, which are zeros.
    template <bool backwards, class Use>
    __device__ __forceinline__ void each_other(Use use) const
    {
        const int from_here = first + count_kept() * stride;
        const int batches = max(k - from_here + batch * stride - 1, 0) / (batch * stride);
        for (int b = 0; b < batches; b++) {
            const int begin = from_here + (backwards ? batches - 1 - b : b) * batch * stride;
            const float* from = line + (size_t)begin * apart;
            float x[batch];
#pragma unroll
            for (int i = 0; i < batch; i++, from += (size_t)stride * apart) x[i] = begin + i * stride < k ? *from : 0;
#pragma unroll
            for (int i = 0; i < batch; i++) use(begin + i * stride, x[i]);
        }
    }

    __device__ __forceinline__ float largest() const
    {
        const float* from = line + (size_t)first * apart;
        for (int i = 0; i < count_kept(); i++, from += (size_t)stride * apart)
            copy_async<4>(&kept[i][threadIdx.x], from, true);
        commit_copies();
        float found = 0;
        each_other<false>([&](int, float x) { found = fmaxf(found, fabsf(x)); });
        wait_for_copies<0>();
        for (int i = 0; i < count_kept(); i++) found = fmaxf(found, fabsf(kept[i][threadIdx.x]));
        return found;
    }

    // Split them; `to` is the line of halves, whose elements lie `across` from each other, or `outside`, where nothing
    // is stored. The last slab's missing steps are zeros.
    __device__ __forceinline__ Found split_to(__half* to, int across, bool outside, const Scale& scale) const
    {
        Found found = {};
        const size_t low_behind = (size_t)slab_steps * across;
        const auto place = [&](int step) { return to + (size_t)(2 * step - step % slab_steps) * across; };
        const auto put = [&](__half* at, float x) {
            __half high, low;
            found.lost = split(x, scale, high, low, found.lost);
            found.sum += fabsf(scale.of(x));
            if (!outside) at[0] = high, at[low_behind] = low;
        };
        each_other<true>([&](int step, float x) {
            if (step < k) put(place(step), x);
        });
        __half* at = place(first);
#pragma unroll 4
        for (int i = 0; i < count_kept(); i++, at += (size_t)2 * stride * across) put(at, kept[i][threadIdx.x]);
        const int behind = k + (first - k % stride + stride) % stride;
        if (!outside && behind < round_up(k, slab_steps)) place(behind)[0] = place(behind)[low_behind] = 0;
        return found;
    }
};

// Split the rows from `first` on.
__device__ __forceinline__ void split_rows(const float* __restrict__ A, __half* __restrict__ halves, Line* lines,
                                           int m, int k, int first, Kept& kept)
{
    const int warp = threadIdx.x / 32, begin = warp / warps_of_row * warps_of_row;
    const int row = first + warp / warps_of_row, own = threadIdx.x - 32 * begin;
    const size_t pitch = 2 * round_up(k, slab_steps);
    const Elements elements = {A + (size_t)min(row, m - 1) * k, 1, own, 32 * warps_of_row, k, kept};
    const float largest = over_warps(over_lanes(elements.largest(), Most()), begin, warps_of_row, Most());
    const int exponent = exponent_for(largest);
    const Found part = elements.split_to(halves + row * pitch, 1, row >= m, Scale(exponent));
    const Found found = over_warps(over_lanes(part, Together()), begin, warps_of_row, Together());
    if (row < m && own == 0) lines[row] = finished(exponent, found.sum, found.lost, largest);
}

// Split the columns from `first` on, by a cluster. Rows of halves are `pitch` elements long.
__device__ __forceinline__ void split_columns(const float* __restrict__ B, __half* __restrict__ halves, Line* lines,
                                              int n, int k, int first, Kept& kept)
{
    const int column = first + threadIdx.x % 32, pitch = round_up(n, 8);
    const int own = rank_in_cluster() * splitting_warps + threadIdx.x / 32;
    const Elements elements = {B + min(column, n - 1), n, own, sharers * splitting_warps, k, kept};
    const float largest = over_cluster(over_warps(elements.largest(), 0, splitting_warps, Most()), Most());
    const int exponent = exponent_for(largest);
    const Found part = elements.split_to(halves + column, pitch, column >= n, Scale(exponent));
    const Found found = over_cluster(over_warps(part, 0, splitting_warps, Together()), Together());
    if (column < n && own == 0) lines[column] = finished(exponent, found.sum, found.lost, largest);
    sync_cluster();  // nobody reads another one's memory any more
}

// ---- Doubts ----
//
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

constexpr int few_doubts = 32;  // of a warp
constexpr int short_sum = 64;   // steps of k

// Where a lane's sums lie in C (Products of a warpgroup, ../instructions.cuh).
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
