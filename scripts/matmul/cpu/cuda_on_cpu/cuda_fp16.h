// CUDA's half on the CPU: what the kernels here use of cuda_fp16.h, by what CUDA says of it.
#pragma once

#include <math.h>
#include <stdint.h>

// A sign, 5 bits of exponent, and 11 bits of mantissa with the leading one.
struct __half {
    uint16_t bits;

    __half() = default;

    // Rounded to nearest, ties to even; over 65504 it is infinite, and a NaN stays one.
    __half(float value)
    {
        const uint16_t sign = signbit(value) ? 0x8000 : 0;
        const float size = fabsf(value);
        if (isnan(value)) bits = 0x7FFF;
        else if (size >= 65520.0f) bits = sign | 0x7C00;
        else {
            int exponent;
            frexpf(size, &exponent);  // size < 2^exponent
            const int least = size < 0x1p-14f ? -24 : exponent - 11;  // exponent of the last bit
            const unsigned units = unsigned(nearbyintf(ldexpf(size, -least)));
            bits = uint16_t(sign | (units + (unsigned(least + 24) << 10)));
        }
    }

    operator float() const
    {
        const int exponent = bits >> 10 & 31, fraction = bits & 1023;
        float size = exponent ? ldexpf(float(1024 + fraction), exponent - 25) : ldexpf(float(fraction), -24);
        if (exponent == 31) size = fraction ? NAN : INFINITY;
        return bits & 0x8000 ? -size : size;
    }
};

inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline float __half2float(__half value) { return value; }
