// mbarriers: counters in shared memory by which threads wait for threads and for bytes, from compute
// capability 9.0 on. They count phase after phase; the first phase has parity 0, the next one parity 1, then
// 0 again. A phase ends when as many threads have arrived as the mbarrier was set up for, and as many bytes
// as they said.
//
//     phase of parity 0                                   phase of parity 1
//     ├─ arrive ─── expect 8192 bytes, arrive ─── 8192 ──┼─ ...
//                                                bytes    wait_for_phase(…, 0) returns from here on
//
// Ring        A ring of stages has two mbarriers for each: `full`, for which the reader waits, and `empty`,
//             for which the writer waits. In the n-th round through the ring, n = 0, 1, ..., the reader waits
//             for the phase of parity n % 2. The writer waits for parity 1 - n % 2: the phase before the
//             first counts as ended, so in the first round it does not wait.
//
// `line` is that of the call, for what the CPU has to report.
#pragma once

#include "async_proxy.cuh"

using Mbarrier = unsigned long long;

#ifdef __CUDACC__
__device__ __forceinline__ unsigned address_of(const Mbarrier& mbarrier)
{
    return (unsigned)__cvta_generic_to_shared(&mbarrier);
}
#endif

// Set up an mbarrier whose phases take so many arrivals. One thread does it for all.
__device__ __forceinline__ void init_mbarrier(Mbarrier& mbarrier, int arrivals)
{
#ifdef __CUDACC__
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address_of(mbarrier)), "r"(arrivals) : "memory");
#else
    cuda_on_cpu::init_mbarrier(&mbarrier, arrivals);
#endif
}

// Make the mbarriers that this thread has set up visible to TMA, and to the other blocks of the cluster.
// A barrier of the block, or of the cluster, has to follow.
__device__ __forceinline__ void publish_mbarriers()
{
#ifdef __CUDACC__
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    fence_async_proxy();
}

__device__ __forceinline__ void arrive(Mbarrier& mbarrier)
{
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address_of(mbarrier)) : "memory");
#else
    cuda_on_cpu::arrive(&mbarrier);
#endif
}

// Arrive at the mbarrier that lies at the same place in another block of the cluster, or in this one. What this
// thread has written need not be visible there: a release for the cluster would wait for all of its stores.
__device__ __forceinline__ void arrive_in_block(Mbarrier& mbarrier, unsigned rank)
{
#ifdef __CUDACC__
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}"
                 :: "r"(address_of(mbarrier)), "r"(rank) : "memory");
#else
    cuda_on_cpu::arrive(cuda_on_cpu::in_block(&mbarrier, rank));
#endif
}

// Arrive, and let the phase wait for so many more bytes, which copies bring.
__device__ __forceinline__ void expect_bytes(Mbarrier& mbarrier, int bytes)
{
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(address_of(mbarrier)), "r"(bytes) : "memory");
#else
    cuda_on_cpu::arrive(&mbarrier, bytes);
#endif
}

// Wait until the phase of this parity has ended. The loop is written in PTX: ptxas would split the code
// around a loop in C++.
__device__ __forceinline__ void wait_for_phase(Mbarrier& mbarrier, unsigned parity,
                                               int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra again;\n"
                 "}"
                 :: "r"(address_of(mbarrier)), "r"(parity) : "memory");
#else
    cuda_on_cpu::wait_for_phase(&mbarrier, parity, line);
#endif
}
