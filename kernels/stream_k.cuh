// The work of a product in equal shares for a fixed number of blocks (stream-k). The first page of
// gemm/streamed.cu explains it; this file has
//
//     Schedule          which slabs of which tiles are a block's share
//     each_part         the loop over a block's share
//     store_sums ...    how blocks leave sums for one another
//     announce ...      flags that say that sums are there; kernels with shares of another kind use these alone
//
// A block's share is whole tiles first, then one stretch of the slabs of the tiles that are left. A part
// is what the share has of one tile. A stretch is multiplied from its last tile to its first one:
//
//      slabs of the tiles that are left ►
//      ┌───────────────────┬───────────────────┬───────────────────┐
//      │ tile 0            │ tile 1            │ tile 2            │
//      ├──────────────┬────┴─────────┬─────────┴────┬──────────────┤
//      │ stretch 0    │ 2nd  stretch │ 2nd     1st  │ ...          │
//      │              │       1  1st │ stretch 2    │              │
//      └──────────────┴──────────────┴──────────────┴──────────────┘
//
// So sums are left first, by who has a tile's beginning, and wanted last, by who has its end. And blocks are
// in step along k: at any time they are equally far from a tile's start, or farther by the difference of a
// stretch and a tile. What they load they have in common, and the L2 cache holds it. From first to last tile
// they would be everywhere along k, and each slab would come from memory for each tile that wants it.
//
// S says what is shared, and by whom: `struct Shares` in gemm/streamed.cu, gram/tensor_streamed.cu or
// gemm_bf16/streamed.cu.
#pragma once

#include "overlap.cuh"

// ---- Flags ----
//
// One block leaves sums in memory, another waits for them. A block may wait only for blocks of lower index. The
// device starts those earlier, so they are sure to run.

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

// ---- Who shares what ----

// Each block has a share of its own.
struct EachBlock : WholeBlock {
    static constexpr int cluster = 1;  // blocks that have a share together, a tile of each part each

    static __device__ __forceinline__ int number() { return blockIdx.x; }   // of the share's owner
    static __device__ __forceinline__ int place(int stretch) { return stretch; }  // of sums, and of their flag
};

template <class S>
struct StreamK {
    // Else a stretch might be empty, and another block would wait for its sums in vain.
    static_assert(S::least * S::light_cost >= S::heavy_cost, "no stretch is empty");

    // ---- Shares ----

    // The slabs of a tile from number `begin` to before `end`.
    struct Part {
        int tile, begin, end;

        __device__ bool empty() const { return begin == end; }
    };

    // What a block does, part by part: whole tiles while there are enough for all blocks, then its
    // stretch. The light tiles come after the heavy ones.
    struct Schedule {
        int whole_tiles;         // tiles that are computed whole
        int slabs;               // of a tile
        long long heavy, light;  // slabs of the tiles that are left
        int stretches, stretch;  // of all blocks, and this block's, if it is not negative
        int tile;                // this block's next whole tile
        long long first, end;    // this block's stretch, as far as it is not done
        int last;                // its last tile, of those that are left
        long long start;         // and the first slab of that

        static __device__ __forceinline__ Schedule of(int heavy, int light, int slabs)
        {
            Schedule schedule;
            const long long work = (long long)heavy * S::heavy_cost + (long long)light * S::light_cost;
            const int wave = S::blocks * S::heavy_cost, waves = (int)((work + wave - 1) / wave);
            // To share out a last wave that lacks less than S::least slabs a block costs more than it
            // gains. Then only the light tiles are shared out, among the blocks without a whole tile.
            const bool full = ((long long)waves * wave - work) * slabs < (long long)S::least * wave;
            // A stretch is nearly a tile, from half of one to one and a half: the nearer, the more are blocks in step.
            const int shared_waves = 2 * ((long long)waves * wave - work) < wave ? 1 : 2;
            schedule.whole_tiles =
                full ? heavy : min(max(waves - shared_waves, 0), heavy / S::blocks) * S::blocks;
            schedule.slabs = slabs;
            schedule.heavy = (long long)(heavy - schedule.whole_tiles) * slabs;
            schedule.light = (long long)light * slabs;
            const int most = full ? max(min(waves * S::blocks - heavy, S::blocks), 1) : S::blocks;
            schedule.stretches = (int)min((long long)most, max((schedule.heavy + schedule.light) / S::least, 1LL));
            schedule.tile = S::number(), schedule.first = schedule.end = 0;
            // The last blocks have the stretches: where all heavy tiles are whole, these blocks have one less.
            schedule.stretch = S::number() - (S::blocks - schedule.stretches);
            if (schedule.stretch < 0) return schedule;
            schedule.first = schedule.first_slab(schedule.stretch);
            schedule.end = schedule.first_slab(schedule.stretch + 1);
            schedule.last = (int)quotient(schedule.end - 1, slabs);
            schedule.start = (long long)schedule.last * slabs;
            return schedule;
        }

        // Rounded down, and exact: no product of slabs and blocks comes to 2^52. One thread divides while all others wait;
        // divisions of long longs cost it half a microsecond more (WORKLOG.md).
        static __device__ __forceinline__ long long quotient(long long number, long long by)
        {
            return (long long)((double)number / (double)by);
        }

        // The cost of the slabs before one of the tiles that are left.
        __device__ __forceinline__ long long cost_before(long long slab) const
        {
            return min(slab, heavy) * S::heavy_cost + max(slab - heavy, 0LL) * S::light_cost;
        }

        // The first slab of a stretch: stretches cost as much as each other.
        __device__ __forceinline__ long long first_slab(int stretch) const
        {
            const long long cost = quotient(cost_before(heavy + light) * stretch, stretches);
            return cost < heavy * S::heavy_cost ? cost / S::heavy_cost
                                                : heavy + (cost - heavy * S::heavy_cost) / S::light_cost;
        }

        // Go on to the next part; after the last one it is empty.
        __device__ __forceinline__ Part next()
        {
            if (tile < whole_tiles) {
                const Part whole = {tile, 0, slabs};
                tile += S::blocks;
                return whole;
            }
            if (first == end) return {whole_tiles, 0, 0};
            const Part part = {whole_tiles + last, (int)max(first - start, 0LL), (int)(end - start)};
            end = max(first, start);
            last--, start -= slabs;
            return part;
        }

        // Whether a part lacks its tile's last slab: its sums are left for another block.
        __device__ __forceinline__ bool leaves(const Part& part) const { return part.end < slabs; }

        // The first stretch that has slabs of a part's tile: this block's or an earlier one. It is the last one
        // before which less than the cost of all slabs up to the tile's first one is done.
        __device__ __forceinline__ int first_stretch(const Part& part) const
        {
            if (part.begin == 0) return stretch;
            const long long begun = cost_before((long long)(part.tile - whole_tiles) * slabs + 1);
            return (int)quotient(begun * stretches - 1, cost_before(heavy + light));
        }
    };

    // Call `run` for each part of this block's share of `heavy` and `light` tiles, of `slabs` slabs each.
    // One thread keeps the schedule, in shared memory: the registers are the sums'. It is ready before the last launch has
    // ended, if that overlaps with this one.
    template <class Run>
    static __device__ __forceinline__ void each_part(int heavy, int light, int slabs, Run run)
    {
        __shared__ Schedule schedule;
        __shared__ Part part;
        if (threadIdx.x == 0) schedule = Schedule::of(heavy, light, slabs);
        wait_for_last_launch();
        for (;;) {
            __syncthreads();  // all threads are done with the part before
            if (threadIdx.x == 0) part = schedule.next();
            __syncthreads();
            if (part.empty()) break;
            run(schedule, part);
        }
    }

    // ---- Sums in memory ----

    // Store a thread's sums to its block's place in memory, or add what lies there to them.
    template <int count, class Number>
    static __device__ __forceinline__ void store_sums(const Number* sums, Number* memory)
    {
#pragma unroll
        for (int i = 0; i < count; i++) memory[i * S::threads + threadIdx.x] = sums[i];
    }

    template <int count, class Number>
    static __device__ __forceinline__ void add_sums(Number* sums, const Number* memory)
    {
#pragma unroll
        for (int i = 0; i < count; i++) sums[i] += memory[i * S::threads + threadIdx.x];
    }

    // Leave a thread's sums of a part for the block that stores the tile.
    template <int count, class Number, int size>
    static __device__ __forceinline__ void leave_sums(const Number* sums, Number (*partial_sums)[size],
                                                      unsigned* flags, const Schedule& schedule)
    {
        store_sums<count>(sums, partial_sums[S::place(schedule.stretch)]);
        announce<S>(&flags[S::place(schedule.stretch)]);
    }

    // Add to a thread's sums of a part what stretches from `first` to before `own` have left of its tile, always in the
    // same order.
    template <int count, class Number, int size>
    static __device__ __forceinline__ void add_left_sums(Number* sums, const Number (*partial_sums)[size],
                                                         unsigned* flags, int first, int own)
    {
        wait_for_sums<S::threads, S>(flags, S::place(first), S::place(own - 1), S::cluster);
        for (int stretch = first; stretch < own; stretch++)
            add_sums<count>(sums, partial_sums[S::place(stretch)]);
    }
};
