// Functions of CUDA that kernels of classrooms use beside those of the catalogue's kernels.
#pragma once

#include <stdlib.h>
#include <time.h>

// name(parameters) is an expression of them. Where a GPU rounds otherwise or less exactly, here it is exact.
#define WORD(type, name, parameters, ...) \
    inline type name parameters { return __VA_ARGS__; }

// Products of the lower 24 bits, which old kernels compute indices with, and upper halves of products.
WORD(int, __mul24, (int a, int b), (int(unsigned(a) << 8) >> 8) * (int(unsigned(b) << 8) >> 8))
WORD(unsigned, __umul24, (unsigned a, unsigned b), (a & 0xFFFFFF) * (b & 0xFFFFFF))
WORD(int, __mulhi, (int a, int b), int((long long)(a) * b >> 32))
WORD(unsigned, __umulhi, (unsigned a, unsigned b), unsigned((unsigned long long)(a) * b >> 32))
WORD(long long, __mul64hi, (long long a, long long b), (long long)(__int128(a) * b >> 64))
WORD(unsigned long long, __umul64hi, (unsigned long long a, unsigned long long b),
     (unsigned long long)((unsigned __int128)(a) * b >> 64))

// Bits.
WORD(int, __popc, (unsigned bits), __builtin_popcount(bits))
WORD(int, __popcll, (unsigned long long bits), __builtin_popcountll(bits))
WORD(int, __clz, (int bits), bits ? __builtin_clz(bits) : 32)
WORD(int, __clzll, (long long bits), bits ? __builtin_clzll(bits) : 64)
WORD(int, __ffs, (int bits), __builtin_ffs(bits))
WORD(int, __ffsll, (long long bits), __builtin_ffsll(bits))
WORD(unsigned, __funnelshift_l, (unsigned low, unsigned high, unsigned by),
     unsigned(((unsigned long long)(high) << 32 | low) << (by & 31) >> 32))
WORD(unsigned, __funnelshift_r, (unsigned low, unsigned high, unsigned by),
     unsigned(((unsigned long long)(high) << 32 | low) >> (by & 31)))
inline unsigned __brev(unsigned bits)
{
    unsigned reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= (bits >> i & 1) << (31 - i);
    return reversed;
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector)
{
    const unsigned long long bytes = (unsigned long long)(high) << 32 | low;
    unsigned chosen = 0;
    for (int i = 0; i < 4; ++i) chosen |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return chosen;
}

// A value of the same bits.
WORD(float, __int_as_float, (int bits), __builtin_bit_cast(float, bits))
WORD(float, __uint_as_float, (unsigned bits), __builtin_bit_cast(float, bits))
WORD(int, __float_as_int, (float value), __builtin_bit_cast(int, value))
WORD(unsigned, __float_as_uint, (float value), __builtin_bit_cast(unsigned, value))
WORD(double, __longlong_as_double, (long long bits), __builtin_bit_cast(double, bits))
WORD(long long, __double_as_longlong, (double value), __builtin_bit_cast(long long, value))

// Conversions.
WORD(int, __float2int_rn, (float x), int(nearbyintf(x)))
WORD(int, __float2int_rz, (float x), int(x))
WORD(int, __float2int_rd, (float x), int(floorf(x)))
WORD(int, __float2int_ru, (float x), int(ceilf(x)))
WORD(unsigned, __float2uint_rn, (float x), unsigned(nearbyintf(x)))
WORD(unsigned, __float2uint_rz, (float x), unsigned(x))
WORD(float, __int2float_rn, (int x), float(x))
WORD(float, __uint2float_rn, (unsigned x), float(x))
WORD(float, __double2float_rn, (double x), float(x))
WORD(int, __double2int_rn, (double x), int(nearbyint(x)))
WORD(double, __int2double_rn, (int x), double(x))

// Arithmetic.
WORD(float, __fadd_rn, (float a, float b), a + b)
WORD(float, __fsub_rn, (float a, float b), a - b)
WORD(float, __fmul_rn, (float a, float b), a * b)
WORD(float, __fdiv_rn, (float a, float b), a / b)
WORD(float, __fdividef, (float a, float b), a / b)
WORD(float, __fmaf_rn, (float a, float b, float c), fmaf(a, b, c))
WORD(float, __frcp_rn, (float x), 1.0f / x)
WORD(float, __fsqrt_rn, (float x), sqrtf(x))
WORD(float, __frsqrt_rn, (float x), 1.0f / sqrtf(x))
WORD(float, rsqrtf, (float x), 1.0f / sqrtf(x))
WORD(float, __saturatef, (float x), x > 0.0f ? x < 1.0f ? x : 1.0f : 0.0f)
WORD(float, __expf, (float x), expf(x))
WORD(float, __exp10f, (float x), powf(10.0f, x))
WORD(float, __logf, (float x), logf(x))
WORD(float, __log2f, (float x), log2f(x))
WORD(float, __sinf, (float x), sinf(x))
WORD(float, __cosf, (float x), cosf(x))
WORD(float, __tanf, (float x), tanf(x))
WORD(float, __powf, (float x, float y), powf(x, y))
WORD(double, __dadd_rn, (double a, double b), a + b)
WORD(double, __dsub_rn, (double a, double b), a - b)
WORD(double, __dmul_rn, (double a, double b), a * b)
WORD(double, __ddiv_rn, (double a, double b), a / b)
WORD(double, __fma_rn, (double a, double b, double c), fma(a, b, c))
WORD(double, rsqrt, (double x), 1.0 / sqrt(x))
#undef WORD

// Loads and stores with a hint for the caches.
#define HINTED_LOAD(name)      \
    template <typename Value>  \
    __forceinline__ Value name(const Value* address) { return *address; }
#define HINTED_STORE(name)     \
    template <typename Value>  \
    __forceinline__ void name(Value* address, Value value) { *address = value; }
HINTED_LOAD(__ldg)
HINTED_LOAD(__ldca)
HINTED_LOAD(__ldcg)
HINTED_LOAD(__ldcs)
HINTED_LOAD(__ldcv)
HINTED_LOAD(__ldlu)
HINTED_STORE(__stcg)
HINTED_STORE(__stcs)
HINTED_STORE(__stwb)
HINTED_STORE(__stwt)
#undef HINTED_LOAD
#undef HINTED_STORE

// The clock, and what is about the machine alone.
inline long long clock64() { return (long long)(__builtin_ia32_rdtsc()); }
inline void __nanosleep(unsigned) {}
[[noreturn]] inline void __trap() { abort(); }
#define __builtin_assume(condition) ((void)0)
#define __assume(condition) ((void)0)
