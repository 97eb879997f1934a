// Equal shares of a product's slabs for a fixed number of blocks, wherever tiles begin and end in
// them, and the sums that blocks leave for one another (stream-k). Parameters: RESIDENT blocks of a
// multiprocessor, MULTIPROCESSORS of the device, and LEAST slabs, since fewer are not worth the sums'
// way through memory. There may be tiles of two kinds: the includer defines what a slab of a HEAVY
// one costs, and of a LIGHT one, which come behind them.
#pragma once

constexpr int BLOCKS = RESIDENT * MULTIPROCESSORS;

static_assert(LEAST * LIGHT >= HEAVY, "no stretch is empty, which a block would wait for in vain");

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

// Slabs `from` to `to` of the tile `at`: a stretch, or all of them.
struct Part {
    int at, from, to;

    __device__ bool empty() const { return from == to; }
};

// This block's stretch: it waits for later ones, which are of blocks that the device starts earlier.
__device__ __forceinline__ int mine() { return BLOCKS - 1 - blockIdx.x; }

// What a block does, part by part: whole tiles while there are enough for all blocks, then an equal
// stretch of the slabs of the tiles that are left.
struct Walk {
    int whole;               // tiles that are done whole
    int slabs;               // of a tile
    long long heavy, light;  // slabs of the tiles that are left
    long long slab, end;     // of them, those left of this block's stretch
    int count;               // of stretches
    int tile;                // this block's next whole one

    static __device__ __forceinline__ Walk over(int heavy, int light, int slabs)
    {
        Walk walk;
        const long long work = (long long)heavy * HEAVY + (long long)light * LIGHT;
        const int wave = BLOCKS * HEAVY, waves = (int)((work + wave - 1) / wave);
        // Sharing out a last wave that is full but for LEAST slabs a block costs more than it gains:
        // then only the light tiles are, by the blocks that have no whole tile in it.
        const bool full = ((long long)waves * wave - work) * slabs < (long long)LEAST * wave;
        walk.whole = full ? heavy : min(max(waves - 2, 0), heavy / BLOCKS) * BLOCKS;
        walk.slabs = slabs;
        walk.heavy = (long long)(heavy - walk.whole) * slabs, walk.light = (long long)light * slabs;
        const int most = full ? max(min(waves * BLOCKS - heavy, BLOCKS), 1) : BLOCKS;
        walk.count = (int)min((long long)most, max((walk.heavy + walk.light) / LEAST, 1LL));
        walk.tile = blockIdx.x, walk.slab = walk.end = 0;
        if (mine() < walk.count) walk.slab = walk.begin(mine()), walk.end = walk.begin(mine() + 1);
        return walk;
    }

    // The first slab of a stretch.
    __device__ __forceinline__ long long begin(int which) const
    {
        const long long cost = (heavy * HEAVY + light * LIGHT) * which / count;
        return cost < heavy * HEAVY ? cost / HEAVY : heavy + (cost - heavy * HEAVY) / LIGHT;
    }

    // Go on to the next part, an empty one behind the last.
    __device__ __forceinline__ Part next()
    {
        Part part = {tile, 0, slabs};
        if (tile < whole) {
            tile += BLOCKS;
        } else {
            part.at = whole + (int)(slab / slabs), part.from = (int)(slab % slabs);
            part.to = (int)min((long long)slabs, part.from + end - slab);
            slab += part.to - part.from;
        }
        return part;
    }

    // The last stretch with a share in a part's tile, this block's or one behind it.
    __device__ __forceinline__ int last(Part part) const
    {
        int which = mine();
        if (part.at < whole) return which;
        const long long behind = (long long)(part.at - whole + 1) * slabs;
        while (which + 1 < count && begin(which + 1) < behind) which++;
        return which;
    }
};

// Call `run` for this block's parts of tiles of `slabs` slabs. One thread walks, in shared memory: the
// registers are the sums'.
template <class Run>
__device__ __forceinline__ void each_part(int heavy, int light, int slabs, Run run)
{
    __shared__ Walk walk;
    __shared__ Part part;
    if (threadIdx.x == 0) walk = Walk::over(heavy, light, slabs);
    for (;;) {
        __syncthreads();  // the part before is done
        if (threadIdx.x == 0) part = walk.next();
        __syncthreads();
        if (part.empty()) break;
        run(walk, part);
    }
}

// A thread's sums to their place in memory, and added from there.
template <int count, class Number>
__device__ __forceinline__ void put(const Number* own, Number* place)
{
#pragma unroll
    for (int i = 0; i < count; i++) place[i * THREADS + threadIdx.x] = own[i];
}

template <int count, class Number>
__device__ __forceinline__ void add(Number* own, const Number* place)
{
#pragma unroll
    for (int i = 0; i < count; i++) own[i] += place[i * THREADS + threadIdx.x];
}

// Leave a thread's sums in this block's place of `partial`.
template <int count, class Number, int size>
__device__ __forceinline__ void leave(const Number* own, Number (*partial)[size])
{
    put<count>(own, partial[mine()]);
    announce(&ready[mine()]);
}

// Add to a thread's sums of a part what the stretches behind it have left, always in the same order.
template <int count, class Number, int size>
__device__ __forceinline__ void add_left(Number* own, const Number (*partial)[size],
                                         const Walk& walk, const Part& part)
{
    const int last = walk.last(part);
    await(mine() + 1, last);
    for (int other = mine() + 1; other <= last; other++) add<count>(own, partial[other]);
}
