// cooperative_groups::memcpy_async on the CPU. Each call is a batch of its own.
#pragma once

#include "../cooperative_groups.h"
#include "../copies.h"

namespace cooperative_groups {

template <typename Group>
__forceinline__ void memcpy_async(const Group& group, void* to, const void* from, size_t bytes)
{
    cuda_on_cpu::copy_pieces(group.thread_rank(), group.size(), to, from, bytes);
    cuda_on_cpu::commit_copies();
}

// Of as many elements as both ends have.
template <typename Group, typename Value>
__forceinline__ void memcpy_async(const Group& group, Value* to, size_t room, const Value* from, size_t elements)
{
    memcpy_async(group, to, from, (room < elements ? room : elements) * sizeof(Value));
}

template <unsigned Batches, typename Group>
void wait_prior(const Group& group, size_t line = __builtin_LINE())
{
    cuda_on_cpu::wait_for_copies(Batches);
    group.sync(line);
}

template <typename Group>
void wait(const Group& group, size_t line = __builtin_LINE()) { wait_prior<0>(group, line); }

}  // namespace cooperative_groups
