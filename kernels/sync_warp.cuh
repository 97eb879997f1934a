// A warp's barrier.
#pragma once

// The CPU has no warps: there it is the block's barrier, which all its threads call as often.
__device__ __forceinline__ void sync_warp()
{
#ifdef __CUDA_ARCH__
    __syncwarp();
#else
    __syncthreads();
#endif
}
