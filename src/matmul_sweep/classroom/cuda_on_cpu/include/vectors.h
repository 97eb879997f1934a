// CUDA's vectors of 1 to 4 numbers, and how they are made.
#pragma once

// alignment: of four, which is at most 16 bytes.
#define VECTORS(type, name, alignment)                                                                       \
    struct name##1 { type x; };                                                                              \
    struct alignas(2 * sizeof(type)) name##2 { type x, y; };                                                 \
    struct name##3 { type x, y, z; };                                                                        \
    struct alignas(alignment) name##4 { type x, y, z, w; };                                                  \
    inline name##1 make_##name##1(type x) { return {x}; }                                                    \
    inline name##2 make_##name##2(type x, type y) { return {x, y}; }                                         \
    inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                              \
    inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
VECTORS(signed char, char, 4)
VECTORS(unsigned char, uchar, 4)
VECTORS(short, short, 8)
VECTORS(unsigned short, ushort, 8)
VECTORS(int, int, 16)
VECTORS(unsigned, uint, 16)
VECTORS(long, long, 16)
VECTORS(unsigned long, ulong, 16)
VECTORS(long long, longlong, 16)
VECTORS(unsigned long long, ulonglong, 16)
VECTORS(float, float, 16)
VECTORS(double, double, 16)
#undef VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 extents) : x(extents.x), y(extents.y), z(extents.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};
