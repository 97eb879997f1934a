// Copies of whole rows from global to shared memory by the tensor memory accelerator (cp.async.bulk,
// from compute capability 9.0 on): one thread's instruction moves a row. An mbarrier in shared memory
// counts the bytes that arrive, phase after phase; the first phase has parity 0. Compiled for the CPU, a
// copy is done at once, and there is nothing to wait for.
#pragma once

#include "async_copy.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
constexpr bool BULK_COPIES = true;
#else
constexpr bool BULK_COPIES = false;
#endif

using Mbarrier = unsigned long long;

// Set up mbarriers; the whole block calls this. A phase takes `arrivals` calls of expect_bytes, and ends
// when the last of the bytes that they name has arrived. The accelerator reaches shared memory by a way of
// its own (the async proxy); the fence makes the stores before it visible there.
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

// Whether this thread is the one of its warp that issues copies. By elect.sync ptxas knows that there is
// only one; by a comparison of the thread's index it would put a loop over the lanes around each copy.
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

// Arrive at the mbarrier, and let its phase wait for `bytes` more bytes.
__device__ __forceinline__ void expect_bytes(Mbarrier& mbarrier, int bytes)
{
#ifdef __CUDA_ARCH__
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(&mbarrier)), "r"(bytes) : "memory");
#endif
}

// Copy `bytes` bytes. The number and both addresses are multiples of 16.
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

// Wait for the end of the phase with this parity. The loop is written in PTX: a loop in C++ would split
// the code around it, and after it ptxas would compute again what it has in registers.
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
