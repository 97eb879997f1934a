// CUDA's half on the CPU: what classroom kernels use of cuda_fp16.h, by what CUDA says of it.
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

// IEEE binary16: a sign, 5 bits of exponent, 11 bits of mantissa with the leading one. Arithmetic
// goes by way of float, whose 24 bits are enough that rounding twice gives the same half.
struct __half {
    uint16_t bits;

    __half() = default;

    // Rounded to nearest, ties to even, by adding to and taking from a float of the right exponent.
    __half(float value)
    {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        const uint32_t sign = word >> 16 & 0x8000, magnitude = word & 0x7FFFFFFF;
        if (magnitude > 0x7F800000) {
            bits = 0x7FFF;  // a NaN
        } else if (magnitude >= 0x477FF000) {
            bits = sign | 0x7C00;  // from 65520 on, infinity
        } else if (magnitude < 0x38800000) {  // below 2⁻¹⁴ the unit is 2⁻²⁴
            bits = sign | uint16_t(nearbyintf(fabsf(value) * 0x1p24f));
        } else {
            const uint32_t rounded = magnitude + 0xFFF + (magnitude >> 13 & 1);
            bits = sign | uint16_t((rounded - 0x38000000) >> 13);
        }
    }

    operator float() const
    {
        const uint32_t exponent = bits >> 10 & 0x1F, fraction = bits & 0x3FF;
        float magnitude;
        if (exponent == 0x1F)
            magnitude = fraction ? NAN : INFINITY;
        else
            magnitude = exponent ? ldexpf(float(fraction | 0x400), int(exponent) - 25)
                                 : ldexpf(float(fraction), -24);
        return bits & 0x8000 ? -magnitude : magnitude;
    }

    __half& operator+=(float other) { return *this = *this + other; }
    __half& operator-=(float other) { return *this = *this - other; }
    __half& operator*=(float other) { return *this = *this * other; }
};
using half = __half;

inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline __half __double2half(double value) { return float(value); }
inline __half __int2half_rn(int value) { return float(value); }
inline float __half2float(__half value) { return value; }
inline int __half2int_rn(__half value) { return int(nearbyintf(value)); }
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline __half __ushort_as_half(unsigned short bits)
{
    __half value;
    value.bits = bits;
    return value;
}

#define SHORT_FLOAT __half
#define SHORT_PAIR __half2
#include "short_floats.h"

using half2 = __half2;
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float2half2_rn(float value) { return {value, value}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 make_half2(__half x, __half y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 pair) { return {pair.x, pair.y}; }
inline float2 __half22float2(__half2 pair) { return {pair.x, pair.y}; }
