// Copies of whole rows from global to shared memory by the tensor memory accelerator (cp.async.bulk,
// from compute capability 9.0 on): one thread's instruction moves a row. What has arrived is counted
// in bytes by an mbarrier in shared memory, phase after phase, the first of parity 0. Compiled for the
// CPU, a copy is done at once, and there is nothing to wait for.
#pragma once

#include "async_copy.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
constexpr bool BULK_COPIES = true;
#else
constexpr bool BULK_COPIES = false;
#endif

using Mbarrier = unsigned long long;

// Called by the whole block: from here on a phase of each takes `arrivals` calls of expect_bytes, and
// ends with the last of the bytes that they name. The accelerator sees shared memory by a way of its
// own (the async proxy), and the fence lets it see there what has been stored.
template <int count>
__device__ __forceinline__ void init_mbarriers(Mbarrier (&mbarriers)[count], int arrivals)
{
#ifdef __CUDA_ARCH__
    if (threadIdx.x == 0) {
        for (int i = 0; i < count; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                         :: "r"(shared_address(&mbarriers[i])), "r"(arrivals) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
#endif
    __syncthreads();
}

// Whether this is the one thread of its warp that is to issue copies. Asked so, and not by the thread's
// index, ptxas knows that there is one, and makes no loop over lanes around each copy.
__device__ __forceinline__ bool elected()
{
#ifdef __CUDA_ARCH__
    unsigned chosen;
    asm volatile("{\n"
                 ".reg .pred one;\n"
                 "elect.sync _|one, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, one;\n"
                 "}"
                 : "=r"(chosen));
    return chosen;
#else
    return threadIdx.x % 32 == 0;
#endif
}

// Arrive at the mbarrier's phase, which has to wait for that many more bytes.
__device__ __forceinline__ void expect_bytes(Mbarrier& mbarrier, int bytes)
{
#ifdef __CUDA_ARCH__
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(&mbarrier)), "r"(bytes) : "memory");
#endif
}

// Copy `bytes` bytes; their number and both addresses are multiples of 16.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, int bytes,
                                          Mbarrier& mbarrier)
{
#ifdef __CUDA_ARCH__
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :: "r"(shared_address(shared)), "l"(global), "r"(bytes),
                    "r"(shared_address(&mbarrier)) : "memory");
#else
    for (int i = 0; i < bytes / 4; i++) ((float*)shared)[i] = ((const float*)global)[i];
#endif
}

// Wait for the end of the phase of that parity. The loop is in PTX: one of C++ would part the code
// around it, and ptxas would compute anew on its other side what it has in registers.
__device__ __forceinline__ void wait_for_phase(Mbarrier& mbarrier, unsigned parity)
{
#ifdef __CUDA_ARCH__
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra again;\n"
                 "}"
                 :: "r"(shared_address(&mbarrier)), "r"(parity) : "memory");
#endif
}
