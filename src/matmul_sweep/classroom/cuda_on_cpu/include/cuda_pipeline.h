// CUDA's primitives of asynchronous copies, on the CPU.
#pragma once

#include "copies.h"

__forceinline__ void __pipeline_memcpy_async(void* to, const void* from, size_t bytes, size_t zeros = 0)
{
    cuda_on_cpu::copy_async(to, from, unsigned(bytes), unsigned(bytes - zeros));
}
inline void __pipeline_commit() { cuda_on_cpu::commit_copies(); }
inline void __pipeline_wait_prior(size_t groups) { cuda_on_cpu::wait_for_copies(groups); }
