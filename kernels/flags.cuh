// Flags between blocks: one leaves sums in memory, another waits for them.
//
// A block may wait only for blocks of lower index. The device starts those earlier, so they are sure to run.
#pragma once

// Who has sums, waits and adds: all threads of a block, or others that say how they meet.
struct WholeBlock {
    static __device__ __forceinline__ void meet() { __syncthreads(); }
};

// Tell other blocks that this one's sums are in memory, by its flag.
template <class Who = WholeBlock>
__device__ inline void announce(unsigned* flag)
{
#ifdef __CUDA_ARCH__
    __threadfence();
    Who::meet();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(flag) : "memory");
#else
    Who::meet();
    if (threadIdx.x == 0) *flag = 1;
#endif
}

// Wait for the flags `first`, `first` + `apart` ... up to `last`, and take them down for the next launch.
template <int threads, class Who = WholeBlock>
__device__ inline void wait_for_sums(unsigned* flags, int first, int last, int apart = 1)
{
    if (first > last) return;
    for (int i = first + threadIdx.x * apart; i <= last; i += threads * apart) {
        unsigned ready = 0;
#ifdef __CUDA_ARCH__
        while (!ready)
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(ready) : "l"(&flags[i]) : "memory");
#else
        ready = flags[i];
#endif
        flags[i] = 0;
    }
    Who::meet();
}
