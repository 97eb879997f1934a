// The device's side of measuring and verifying: no kernel of the catalogue depends on it.
#include <cmath>

typedef unsigned long long u64;

// Keep the stream busy until the host raises the flag, so that everything enqueued behind this
// kernel runs without waiting for the host. Gives up after `patience_ns`: a host that died or
// blocked must not hold the GPU, and the sampler discards what it measured after that long.
extern "C" __global__ void hold(const volatile int* flag, u64 patience_ns)
{
    u64 start, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (*flag == 0 && now - start < patience_ns);
}

// SplitMix64 by counter, as fills.random_bits.
__device__ u64 random_bits(u64 start, u64 index)
{
    u64 z = start + (index + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

// fill is an index into fills.FILLS; start comes from fills.start_of.
extern "C" __global__ void fill(float* x, u64 count, int fill, u64 start, int matrix)
{
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const double fraction = (double)(random_bits(start, i) >> 40);
        x[i] = fill == 0 ? (float)(fraction * 0x1p-23 - 1.0)
             : fill == 1 ? (float)(matrix + 1)
             : fill == 2 ? (float)floor(fraction * 0x1p-24 * 9.0 + 0.5)
                         : (float)(i % 100);
    }
}

// x in float64, and |x|: the operands of the reference product and of its error bound.
extern "C" __global__ void widen(const float* x, double* wide, float* magnitude, u64 count)
{
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        wide[i] = x[i];
        magnitude[i] = fabsf(x[i]);
    }
}

// largest[0] becomes the largest |C - reference| / (scale * magnitude), infinity where C is not
// finite or differs although its bound is zero. Non-negative doubles order like their bits.
extern "C" __global__ void compare(const float* C, const double* reference, const float* magnitude,
                                   u64 count, double scale, double* largest)
{
    double worst = 0.0;
    const u64 step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const double error = fabs((double)C[i] - reference[i]);
        const double share = !isfinite(C[i]) ? INFINITY : error == 0.0 ? 0.0
                                             : error / (scale * magnitude[i]);
        worst = fmax(worst, share);
    }
    for (int lane = 16; lane > 0; lane /= 2)
        worst = fmax(worst, __shfl_xor_sync(~0u, worst, lane));
    if (threadIdx.x % 32 == 0) atomicMax((u64*)largest, (u64)__double_as_longlong(worst));
}
