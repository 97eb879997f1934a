// Launches that overlap: a stream starts a launch while the last one ends (programmatic dependent launch, from
// compute capability 9.0 on; the catalogue's key `early`). Blocks take the places of those that have left, set up
// what depends on nobody, and wait. Without the key a launch begins when the last one has ended, and nobody waits.
//
//     last launch   ... products, stores ──────┐ ended
//     this one            set up, fetch maps   wait   loads, products ...
#pragma once

// Wait until the last launch has ended and all that it wrote is there. One thread of a block is enough, if all
// else that the block does in global memory follows from what this thread does then.
__device__ __forceinline__ void wait_for_last_launch()
{
#ifdef __CUDACC__
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Let the next launch begin, as soon as all blocks have said so or left.
__device__ __forceinline__ void allow_next_launch()
{
#ifdef __CUDACC__
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
