// Cooperative groups on the CPU: blocks, and tiles of a warp.
#pragma once

#include "barriers.h"

namespace cooperative_groups {

#define CALLER size_t line = __builtin_LINE()

class thread_block {
public:
    static void sync(CALLER) { cuda_on_cpu::wait_for_block(line); }
    static unsigned thread_rank() { return unsigned(cuda_on_cpu::thread_number()); }
    static unsigned size() { return unsigned(cuda_on_cpu::thread_count); }
    static unsigned num_threads() { return size(); }
    static uint3 thread_index() { return threadIdx; }
    static uint3 group_index() { return blockIdx; }
    static dim3 group_dim() { return blockDim; }
};

inline thread_block this_thread_block() { return {}; }

// `Size` neighbouring threads of a block, a power of two; those of several warps only wait.
template <unsigned Size>
class thread_block_tile {
    static_assert(Size && Size <= 1024 && !(Size & (Size - 1)), "a tile has 1 to 1024 threads, a power of 2");

    static unsigned first() { return cuda_on_cpu::lane_number() / Size * Size; }
    static unsigned mask() { return (Size == 32 ? ~0u : (1u << Size % 32) - 1) << first(); }

public:
    static unsigned thread_rank() { return unsigned(cuda_on_cpu::thread_number() % Size); }
    static unsigned meta_group_rank() { return unsigned(cuda_on_cpu::thread_number() / Size); }
    static unsigned meta_group_size() { return unsigned((cuda_on_cpu::thread_count + Size - 1) / Size); }
    static constexpr unsigned size() { return Size; }
    static constexpr unsigned num_threads() { return Size; }
    static void sync(CALLER)
    {
        if (Size <= 32) return __syncwarp(mask(), line);
        if (cuda_on_cpu::thread_count % Size) cuda_on_cpu::misuse("a tile of several warps is not full");
        auto& barrier = cuda_on_cpu::current->block->tiles[meta_group_rank()];
        const size_t number = cuda_on_cpu::arrive(barrier, Size);
        cuda_on_cpu::wait_at(barrier, number, "a tile of threads", line);
    }

    template <typename Value>
    static Value shfl(Value own, int rank, CALLER) { return __shfl_sync(mask(), own, rank, Size, line); }
    template <typename Value>
    static Value shfl_up(Value own, unsigned by, CALLER) { return __shfl_up_sync(mask(), own, by, Size, line); }
    template <typename Value>
    static Value shfl_down(Value own, unsigned by, CALLER) { return __shfl_down_sync(mask(), own, by, Size, line); }
    template <typename Value>
    static Value shfl_xor(Value own, unsigned by, CALLER) { return __shfl_xor_sync(mask(), own, by, Size, line); }

    static int any(int vote, CALLER) { return __any_sync(mask(), vote, line); }
    static int all(int vote, CALLER) { return __all_sync(mask(), vote, line); }
    static unsigned ballot(int vote, CALLER) { return __ballot_sync(mask(), vote, line) >> first(); }
};

template <unsigned Size>
inline thread_block_tile<Size> tiled_partition(const thread_block&) { return {}; }
template <unsigned Size, unsigned Larger>
inline thread_block_tile<Size> tiled_partition(const thread_block_tile<Larger>&) { return {}; }

template <typename Group>
inline void sync(const Group&, CALLER) { Group::sync(line); }

#undef CALLER

}  // namespace cooperative_groups
