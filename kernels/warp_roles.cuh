// What warps need that have different work in one block: barriers of some of the warps, registers that one
// warpgroup leaves to another, and one lane that acts for its warp. From compute capability 9.0 on;
// registers move on 9.0a only.
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

// Wait until `threads` threads (whole warps) have come to the barrier of this number, here or by
// arrive_at_barrier. Numbers are 1 to 15; 0 is __syncthreads().
__device__ __forceinline__ void sync_at_barrier(int number, int threads, int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("barrier.cta.sync.aligned %0, %1;" :: "r"(number), "r"(threads) : "memory");
#else
    cuda_on_cpu::sync_named(number, threads, line);
#endif
}

// Come to it without waiting.
__device__ __forceinline__ void arrive_at_barrier(int number, int threads)
{
#ifdef __CUDACC__
    asm volatile("barrier.cta.arrive.aligned %0, %1;" :: "r"(number), "r"(threads) : "memory");
#else
    cuda_on_cpu::arrive_named(number, threads);
#endif
}

// Leave this warpgroup so many registers per thread (a multiple of 8), and give the rest back. All its warps
// call it. A kernel begins with as many as its __launch_bounds__ allow, which have to name the blocks of a
// multiprocessor, too; else ptxas ignores these calls (C7508).
template <int registers>
__device__ __forceinline__ void keep_registers()
{
    static_assert(registers % 8 == 0 && 24 <= registers && registers <= 256, "as setmaxnreg takes them");
#ifdef __CUDACC__
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
#endif
}

// Take registers that others have given back, up to so many, and wait until they have.
template <int registers>
__device__ __forceinline__ void take_registers()
{
    static_assert(registers % 8 == 0 && 24 <= registers && registers <= 256, "as setmaxnreg takes them");
#ifdef __CUDACC__
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
#endif
}

// Whether this thread is the one of its warp that acts for it. By elect.sync ptxas knows that there is only
// one; by a comparison of the thread's index it would put a loop over the lanes around each copy.
__device__ __forceinline__ bool elected()
{
#ifdef __CUDACC__
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
