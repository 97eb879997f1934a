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

// Wait for the sums of stretches `first` to `last`.
__device__ void await(int first, int last)
{
    if (first > last) return;
    for (int i = first + threadIdx.x; i <= last; i += THREADS) {
        unsigned there = 0;
#ifdef __CUDA_ARCH__
        while (!there)
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(there) : "l"(&ready[i]) : "memory");
#else
        there = ready[i];
#endif
        ready[i] = 0;  // for the next launch
    }
    __syncthreads();
}

// The work that is left when all blocks have done their whole tiles, in equal stretches of slabs.
struct Stretches {
    int whole;        // tiles that are done whole
    int slabs;        // of a tile
    long long total;  // of the tiles that are left
    int count;        // of stretches

    // Sharing out a last wave that is nearly full costs more than it gains.
    __device__ Stretches(int tiles, int slabs)
        : whole((tiles + BLOCKS / 16) % BLOCKS <= BLOCKS / 16 ? tiles : max(tiles / BLOCKS - 1, 0) * BLOCKS),
          slabs(slabs), total((long long)(tiles - whole) * slabs),
          count((int)min((long long)BLOCKS, max(total / LEAST, 1LL))) {}

    __device__ long long begin(int which) const { return total * which / count; }

    // The last stretch with a share in the first `tiles` of these tiles, `which` or one behind it.
    __device__ int last_of(int tiles, int which) const
    {
        while (which + 1 < count && begin(which + 1) < (long long)tiles * slabs) which++;
        return which;
    }
};
