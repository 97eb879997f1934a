// Copies of whole rows from global to shared memory by the tensor memory accelerator (cp.async.bulk,
// from compute capability 9.0 on): one thread's instruction moves a row, whose bytes arrive at an mbarrier.
#pragma once

#include "async_copy.cuh"
#include "instructions.cuh"

// Set up mbarriers; the whole block calls this. A phase takes `arrivals` calls of expect_bytes.
template <int count>
__device__ __forceinline__ void init_mbarriers(Mbarrier (&mbarriers)[count], int arrivals)
{
    if (threadIdx.x == 0) {
        for (int i = 0; i < count; i++) init_mbarrier(mbarriers[i], arrivals);
        fence_async_proxy();
    }
    __syncthreads();
}

// Copy `bytes` bytes. The number and both addresses are multiples of 16.
__device__ __forceinline__ void copy_bulk(void* shared, const void* global, int bytes,
                                          Mbarrier& mbarrier)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];"
                 :: "r"(shared_address(shared)), "l"(global), "r"(bytes),
                    "r"(shared_address(&mbarrier)) : "memory");
#else
    cuda_on_cpu::issue_row(shared, global, bytes, &mbarrier);
#endif
}
