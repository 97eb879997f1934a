// Copies from global to shared memory that bypass the registers (cp.async, from compute capability 8.0
// on). The thread that issues a copy goes on at once. It commits what it has issued as a group, and later
// waits for groups, which end in order.
#pragma once

#ifdef __CUDACC__
__device__ __forceinline__ unsigned shared_address(const void* shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}
#else
#include <copies.h>
#endif

// Copy `bytes` (4, 8 or 16) bytes, or fill them with zeros where `valid` is false.
template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool valid)
{
#ifdef __CUDACC__
    const int from = valid ? bytes : 0;
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared_address(shared)), "l"(global), "r"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                     :: "r"(shared_address(shared)), "l"(global), "r"(from), "n"(bytes) : "memory");
#else
    cuda_on_cpu::issue_copy(shared, valid ? global : nullptr, bytes);
#endif
}

__device__ __forceinline__ void commit_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    cuda_on_cpu::commit_copies();
#endif
}

// Wait until at most `groups` of this thread's groups are under way: its newest ones.
template <int groups>
__device__ __forceinline__ void wait_for_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory");
#else
    cuda_on_cpu::wait_for_copies(groups);
#endif
}
