// Equal shares of a product's slabs for a fixed number of blocks, wherever tiles begin and end in
// them, and the sums that blocks leave for one another (stream-k). Parameters: RESIDENT blocks of a
// multiprocessor, MULTIPROCESSORS of the device, and LEAST slabs of a share, since fewer are not worth
// the sums' way through memory.
#pragma once

constexpr int BLOCKS = RESIDENT * MULTIPROCESSORS;

__device__ unsigned ready[BLOCKS];  // whether a block has left its sums

__device__ void announce(unsigned* flag)
{
#ifdef __CUDA_ARCH__
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) asm volatile("st.release.gpu.u32 [%0], 1;" :: "l"(flag) : "memory");
#else
    __syncthreads();
    if (threadIdx.x == 0) *flag = 1;
#endif
}

__device__ void await(unsigned* flag)
{
    if (threadIdx.x == 0) {
        unsigned there = 0;
#ifdef __CUDA_ARCH__
        while (!there) asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(there) : "l"(flag) : "memory");
#else
        there = *flag;
#endif
        *flag = 0;  // for the next launch
    }
    __syncthreads();
}

// The work that is left when all blocks have done their whole tiles, in equal stretches of slabs.
struct Stretches {
    int whole;        // tiles that are done whole
    int slabs;        // of a tile
    long long total;  // of the tiles that are left
    int count;        // of stretches

    __device__ Stretches(int tiles, int slabs)
        : whole(tiles % BLOCKS ? max(tiles / BLOCKS - 1, 0) * BLOCKS : tiles), slabs(slabs),
          total((long long)(tiles - whole) * slabs),
          count((int)min((long long)BLOCKS, max(total / LEAST, 1LL))) {}

    __device__ long long begin(int which) const { return total * which / count; }
};
