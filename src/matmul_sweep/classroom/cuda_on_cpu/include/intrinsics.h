// Vectors and functions that classroom kernels use beside those of the catalogue's kernels.
#pragma once

struct int3 { int x, y, z; };
struct float3 { float x, y, z; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(2) char2 { signed char x, y; };

inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }

// Products of the lower 24 bits, which old kernels compute indices with.
inline int __mul24(int a, int b)
{
    return (int(unsigned(a) << 8) >> 8) * (int(unsigned(b) << 8) >> 8);
}
inline unsigned __umul24(unsigned a, unsigned b) { return (a & 0xFFFFFF) * (b & 0xFFFFFF); }

// A value of the same bits.
inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline double __longlong_as_double(long long bits) { return __builtin_bit_cast(double, bits); }

inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline long long __double2ll_rn(double x) { return llrint(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }

// The bytes of two words, 0 to 3 of `low` and 4 to 7 of `high`, of the numbers that the selector's hexadecimal
// digits name.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const unsigned long long both = (unsigned long long)high << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= (both >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return result;
}

// The products of the four bytes of two words, added to c: signed or unsigned, as the types of the arguments say.
namespace cuda_on_cpu {
template <typename A, typename B>
inline unsigned sum_of_bytes(unsigned a, unsigned b, unsigned c)
{
    for (int i = 0; i < 32; i += 8) c += unsigned(A(a >> i) * B(b >> i));
    return c;
}
}  // namespace cuda_on_cpu
inline int __dp4a(int a, int b, int c) { return cuda_on_cpu::sum_of_bytes<int8_t, int8_t>(a, b, c); }
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c)
{
    return cuda_on_cpu::sum_of_bytes<uint8_t, uint8_t>(a, b, c);
}
