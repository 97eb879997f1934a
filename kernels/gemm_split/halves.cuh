// A float as two halves, and what is known of a line: a row of A or a column of B.
//
//     x·2^exponent = high + low·2^-12 + left          |low·2^-12| ≤ 2^-11 |high|
//
// The exponent is the line's. It brings the line's largest element to 2^14 to 2^15, near the top of a half's range,
// and so low to at most 2^15. Down to 2^-28 of the largest element, `left` is at most 2^-23 of an element. Below, low
// is too small for all its bits. What is left then is at most 2^-51 of the largest element; where it is more than
// 2^-21 of its own element, it is `lost`.
#pragma once

#include <cuda_fp16.h>

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
