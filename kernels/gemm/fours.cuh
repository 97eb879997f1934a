// Four neighbouring floats of a row of global memory: one access where rows begin at 16 bytes.
#pragma once

// Load four elements, of which the first `inside` exist; the others are zeros.
template <bool vectors>
__device__ __forceinline__ float4 load_four(const float* __restrict__ from, int inside)
{
    if (vectors) return inside > 0 ? *(const float4*)from : float4{0, 0, 0, 0};
    return {inside > 0 ? from[0] : 0, inside > 1 ? from[1] : 0,
            inside > 2 ? from[2] : 0, inside > 3 ? from[3] : 0};
}

// Load four elements that no other thread needs, past the L1. They are `apart` words apart; neighbours are
// one access. Those from number `inside` on, in words after the first, are zeros.
template <int apart>
__device__ __forceinline__ float4 load_once(const float* __restrict__ from, int inside)
{
    if constexpr (apart > 1)
        return {inside > 0 ? __ldg(from) : 0, inside > apart ? __ldg(from + apart) : 0,
                inside > 2 * apart ? __ldg(from + 2 * apart) : 0,
                inside > 3 * apart ? __ldg(from + 3 * apart) : 0};
#ifdef __CUDA_ARCH__
    float4 four = {0, 0, 0, 0};
    if (inside > 0)
        asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(four.x), "=f"(four.y), "=f"(four.z), "=f"(four.w) : "l"(from));
    return four;
#else
    return load_four<true>(from, inside);
#endif
}

// Store four elements, of which the first `inside` exist.
template <bool vectors>
__device__ __forceinline__ void store_four(float* to, float4 values, int inside)
{
    if (vectors) {
        if (inside > 0) *(float4*)to = values;
    } else {
        if (inside > 0) to[0] = values.x;
        if (inside > 1) to[1] = values.y;
        if (inside > 2) to[2] = values.z;
        if (inside > 3) to[3] = values.w;
    }
}

// Whether rows of B and C begin at 16 bytes, so that four words of a row are one access.
__device__ __forceinline__ bool rows_hold_fours(const float* B, const float* C, int n)
{
    return n % 4 == 0 && (((size_t)B | (size_t)C) & 15) == 0;
}

// The same value in a register of its own. To add −0 changes no value.
__device__ __forceinline__ float in_own_register(float value)
{
#ifdef __CUDA_ARCH__
    asm("add.f32 %0, %0, 0f80000000;" : "+f"(value));
#endif
    return value;
}

// Four sums, to be stored at once, which wants four registers side by side. If the sums themselves lay so,
// each would share its register bank with its operand of B, and the loop would wait for the bank (WORKLOG.md).
__device__ __forceinline__ float4 in_own_registers(const float* sums)
{
    return {in_own_register(sums[0]), in_own_register(sums[1]), in_own_register(sums[2]), in_own_register(sums[3])};
}
