// Launches that overlap: programmatic dependent launch, from compute capability 9.0 on; older cards launch as ever. The
// catalogue's entry of such a kernel has `overlaps: true`.
//
//     Normally a launch begins when the one before it in its stream has ended and its stores are visible. Between
//     the two the card stands idle for about a microsecond. A launch that overlaps begins before that, sets itself
//     up, and waits:
//
//         normally         ├ set up ─ load ─ multiply ─ store ┤      ├ set up ─ load ─ multiply ─ store ┤
//         overlapping      ├ set up ─ load ─ multiply ─ store ┤
//                                                ├ set up ─ wait ─ load ─ multiply ─ store ┤
//
// Before      the wait a launch reads and writes no matrix and no workspace: the one before may still use them.
// Begin       A block begins where there is room for it, once all blocks of the launch before have ended or have let
//             it begin. Blocks that have a multiprocessor to themselves let it begin at once. Of smaller blocks
//             several would then come together where the launch before has left room, and other multiprocessors
//             would get none. So they only end: that still saves most of the microsecond.
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

// Let the next launch begin, once all blocks have come here.
__device__ __forceinline__ void let_next_launch_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// Wait until the launches before this one have ended and their stores are visible. One thread may wait for all
// that act after it: those that wait for its copies, say.
__device__ __forceinline__ void wait_for_last_launch()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#elif !defined(__CUDACC__)
    cuda_on_cpu::wait_for_last_launch();
#endif
}
