// Clusters: blocks that run at the same time on neighbouring multiprocessors, and reach each other's shared
// memory; from compute capability 9.0 on. A kernel says how many with __cluster_dims__, and its catalogue
// entry with `cluster`.
//
//     A block's shared memory has to be there while others use it: the cluster meets before a block uses
//     another one's, so that all have begun. Before a block returns, it meets again, or the block knows by its
//     mbarriers that the others are done.
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

// This block's number in its cluster.
__device__ __forceinline__ unsigned rank_in_cluster()
{
#ifdef __CUDACC__
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#else
    return cuda_on_cpu::current->block->rank;
#endif
}

// Come to the cluster's barrier; what this thread did before is visible to those that have waited.
__device__ __forceinline__ void arrive_at_cluster()
{
#ifdef __CUDACC__
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
    cuda_on_cpu::arrive_cluster();
#endif
}

// Wait until all threads of the cluster have come.
__device__ __forceinline__ void wait_for_cluster(int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    cuda_on_cpu::wait_for_cluster(line);
#endif
}

__device__ __forceinline__ void sync_cluster(int line = __builtin_LINE())
{
    arrive_at_cluster();
    wait_for_cluster(line);
}

// Wait until all blocks of the cluster have begun and published their mbarriers. Other stores need not be visible
// then, so this is sooner done.
__device__ __forceinline__ void meet_cluster(int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
    cuda_on_cpu::arrive_cluster();
#endif
    wait_for_cluster(line);
}

// A variable of this block's shared memory as it is in another block of the cluster.
template <class Value>
__device__ __forceinline__ Value* in_block(Value* shared, unsigned rank)
{
#ifdef __CUDACC__
    Value* remote;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(shared), "r"(rank));
    return remote;
#else
    return (Value*)cuda_on_cpu::in_block(shared, rank);
#endif
}
