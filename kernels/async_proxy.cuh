// The async proxy: the way of its own by which the tensor cores (wgmma) and the tensor memory accelerator
// (TMA) reach shared memory, from compute capability 9.0 on. What a thread has stored is visible there only
// after a fence. The other way round an mbarrier or a wait for a group is enough.
//
//     threads store a tile ──► each: fence_async_proxy() ──► barrier ──► one reads it by wgmma or TMA
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

// Make this thread's stores to shared memory visible to the async proxy.
__device__ __forceinline__ void fence_async_proxy()
{
#ifdef __CUDACC__
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    cuda_on_cpu::fence_async_proxy();
#endif
}
