// The device side of measuring and verifying. No kernel of the catalogue depends on it.
#include <cmath>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

typedef unsigned long long u64;

// Keep the stream busy until the host raises the flag, so that everything enqueued behind this
// kernel runs without waiting for the host. It gives up after `patience_ns`, because a dead or
// blocked host must not hold the GPU; the sampler then discards its measurements.
extern "C" __global__ void hold(const volatile int* flag, u64 patience_ns)
{
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (*flag == 0 && now - start < patience_ns);
}

// Does nothing: the timer's reading for it is the smallest possible.
extern "C" __global__ void empty() {}

__device__ u64 first_index() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ u64 grid_threads() { return (u64)gridDim.x * blockDim.x; }

// SplitMix64 by counter, like fills.random_bits.
__device__ u64 random_bits(u64 start, u64 index)
{
    u64 z = start + (index + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// Like fills.normal.
__device__ double normal(u64 start, u64 index)
{
    u64 total = 0;
    for (int word = 0; word < 3; ++word) {
        const u64 bits = random_bits(start, 3 * index + word);
        total += (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
    }
    return (double)total * 0x1p-16 - 6.0;
}

// fill is an index into fills.FILLS; start comes from fills.start_of; bits are a mantissa's.
template <typename Element>
__device__ void fill(Element* x, u64 count, int fill, u64 start, int matrix, int bits)
{
    for (u64 i = first_index(); i < count; i += grid_threads()) {
        const u64 random = random_bits(start, i);
        const double unit = 1.0 / (1ull << bits);
        x[i] = fill == 0 ? (Element)((double)(random >> (64 - bits)) * (2.0 * unit) - 1.0)
             : fill == 1 ? (Element)(matrix + 1)
             : fill == 2 ? (Element)floor((double)(random >> 40) * 0x1p-24 * 9.0 + 0.5)
             : fill == 3 ? (Element)(i % 100)
                         : (Element)normal(start, i);
    }
}

__device__ double wide(double x) { return x; }
__device__ double wide(float x) { return x; }
__device__ double wide(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ double wide(__half x) { return __half2float(x); }

// x in float64, and |x|: the operands of the reference product and of its error bound.
template <typename Element>
__device__ void widen(const Element* x, double* to, float* magnitude, u64 count)
{
    for (u64 i = first_index(); i < count; i += grid_threads()) {
        to[i] = wide(x[i]);
        magnitude[i] = (float)fabs(wide(x[i]));
    }
}

// x times a power of two, which is exact.
template <typename Element>
__device__ void scale(Element* x, u64 count, double factor)
{
    for (u64 i = first_index(); i < count; i += grid_threads()) x[i] = (Element)(wide(x[i]) * factor);
}

// x as the exact sum of multiples of `unit` and a rest (verification.split), and |x|.
extern "C" __global__ void split(const double* x, double* high, double* low, float* magnitude,
                                 double unit, u64 count)
{
    for (u64 i = first_index(); i < count; i += grid_threads()) {
        const double nearest = rint(x[i] / unit) * unit;
        high[i] = nearest;
        low[i] = x[i] - nearest;
        magnitude[i] = (float)fabs(x[i]);
    }
}

// The larger of two, or infinity if the second is not finite.
__device__ double larger(double one, double other)
{
    return isfinite(other) ? fmax(one, other) : INFINITY;
}

// The errors |C - (high + low)| of `count` elements of C in rows of n, from row `first` on. found[0]
// gets the largest as a share of its bound, scale * magnitude + rounding * |high|; found[1] gets the
// largest as a share of its magnitude, and the sum of these shares is added to found[2]. An error is
// infinite if C is not finite, or differs although its bound is zero. `low` may be null. With
// `upper`, elements below the diagonal do not count.
template <typename Element>
__device__ void compare(const Element* C, const double* high, const double* low,
                        const float* magnitude, u64 count, u64 n, u64 first, int upper,
                        double scale, double rounding, double* found)
{
    double share = 0.0, largest = 0.0, sum = 0.0;
    for (u64 i = first_index(); i < count; i += grid_threads()) {
        if (upper && i % n < first + i / n) continue;
        const double error = fabs((wide(C[i]) - high[i]) - (low ? low[i] : 0.0));
        if (error == 0.0) continue;
        const double bound = scale * magnitude[i] + rounding * fabs(high[i]);
        sum += error / magnitude[i];
        largest = larger(largest, error / magnitude[i]);
        share = larger(share, error / bound);
    }
    for (int lane = 16; lane > 0; lane /= 2) {
        share = fmax(share, __shfl_xor_sync(~0u, share, lane));
        largest = fmax(largest, __shfl_xor_sync(~0u, largest, lane));
        sum += __shfl_xor_sync(~0u, sum, lane);
    }
    if (threadIdx.x % 32 == 0) {
        // Non-negative doubles order like their bits.
        atomicMax((u64*)found, (u64)__double_as_longlong(share));
        atomicMax((u64*)found + 1, (u64)__double_as_longlong(largest));
        atomicAdd(found + 2, sum);
    }
}

#define OF_TYPE(name, Element)                                                                    \
    extern "C" __global__ void fill_##name(Element* x, u64 count, int kind, u64 start, int matrix, \
                                           int bits)                                               \
    {                                                                                              \
        fill(x, count, kind, start, matrix, bits);                                                 \
    }                                                                                              \
    extern "C" __global__ void scale_##name(Element* x, u64 count, double factor)                 \
    {                                                                                             \
        scale(x, count, factor);                                                                  \
    }                                                                                             \
    extern "C" __global__ void widen_##name(const Element* x, double* to, float* magnitude,        \
                                            u64 count)                                             \
    {                                                                                              \
        widen(x, to, magnitude, count);                                                            \
    }                                                                                              \
    extern "C" __global__ void compare_##name(const Element* C, const double* high,                \
                                              const double* low, const float* magnitude,           \
                                              u64 count, u64 n, u64 first, int upper,              \
                                              double scale, double rounding, double* found)        \
    {                                                                                              \
        compare(C, high, low, magnitude, count, n, first, upper, scale, rounding, found);          \
    }
OF_TYPE(bfloat16, __nv_bfloat16)
OF_TYPE(float16, __half)
OF_TYPE(float32, float)
OF_TYPE(float64, double)

// Mirrors the upper triangle of the n×n matrix C into the lower one, for a library that writes only
// one triangle. A tile is transposed in shared memory, so that reads and writes are both along rows;
// the padding spreads the transposed reads over the banks.
constexpr int mirror_tile = 32;

extern "C" __global__ void mirror(double* C, int n)
{
    __shared__ double tile[mirror_tile][mirror_tile + 1];
    if (blockIdx.x < blockIdx.y) return;
    const int row = blockIdx.y * mirror_tile, col = blockIdx.x * mirror_tile;
    for (int y = threadIdx.y; y < mirror_tile; y += blockDim.y)
        if (row + y < n && col + threadIdx.x < n)
            tile[y][threadIdx.x] = C[(size_t)(row + y) * n + col + threadIdx.x];
    __syncthreads();
    for (int y = threadIdx.y; y < mirror_tile; y += blockDim.y) {
        const int i = col + y, j = row + threadIdx.x;
        if (i < n && j < i) C[(size_t)i * n + j] = tile[threadIdx.x][y];
    }
}
