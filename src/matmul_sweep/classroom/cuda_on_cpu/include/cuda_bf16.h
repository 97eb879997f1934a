// CUDA's bfloat16 on the CPU: what the kernels here use of cuda_bf16.h, by what CUDA says of it.
#pragma once

#include <stdint.h>
#include <string.h>

// The upper half of a float: its sign, its exponent, and 8 bits of mantissa with the leading one.
struct __nv_bfloat16 {
    uint16_t bits;

    __nv_bfloat16() = default;

    // Rounded to nearest, ties to even; a NaN stays one.
    __nv_bfloat16(float value)
    {
        uint32_t word;
        memcpy(&word, &value, sizeof word);
        const bool nan = (word & 0x7FFFFFFF) > 0x7F800000;
        bits = nan ? 0x7FFF : uint16_t((word + 0x7FFF + (word >> 16 & 1)) >> 16);
    }

    operator float() const
    {
        const uint32_t word = uint32_t(bits) << 16;
        float value;
        memcpy(&value, &word, sizeof value);
        return value;
    }

    __nv_bfloat16& operator+=(float other) { return *this = *this + other; }
    __nv_bfloat16& operator-=(float other) { return *this = *this - other; }
    __nv_bfloat16& operator*=(float other) { return *this = *this * other; }
};

inline __nv_bfloat16 __float2bfloat16(float value) { return value; }
inline float __bfloat162float(__nv_bfloat16 value) { return value; }
inline __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }

#define SHORT_FLOAT __nv_bfloat16
#define SHORT_PAIR __nv_bfloat162
#include "short_floats.h"

using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
inline __nv_bfloat162 __float2bfloat162_rn(float value) { return {value, value}; }
inline __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 value) { return {value, value}; }
inline __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 x, __nv_bfloat16 y) { return {x, y}; }
inline __nv_bfloat162 __float22bfloat162_rn(float2 pair) { return {pair.x, pair.y}; }
inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
inline float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }
