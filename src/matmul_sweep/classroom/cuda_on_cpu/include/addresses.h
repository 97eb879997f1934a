// Addresses in shared memory, as instructions take them, on the CPU.
#pragma once

namespace cuda_on_cpu {

// Bank and swizzle patterns repeat after 1024 bytes, so addresses count from a multiple of it.
UNWATCHED inline uintptr_t shared_base()
{
    return reinterpret_cast<uintptr_t>(shared_segment().begin) / 1024 * 1024;
}

UNWATCHED inline bool is_shared(const void* place, size_t bytes = 0)
{
    const Segment& shared = shared_segment();
    const auto from = reinterpret_cast<uintptr_t>(place), begin = reinterpret_cast<uintptr_t>(shared.begin);
    return begin <= from && from + bytes <= begin + shared.bytes;
}

// The address of something in shared memory: less than 2^18.
UNWATCHED inline size_t shared_address(const void* place, size_t bytes = 0)
{
    if (!is_shared(place, bytes)) misuse("an address outside of shared memory", HERE);
    return reinterpret_cast<uintptr_t>(place) - shared_base();
}

// What lies at an address of the running block.
UNWATCHED inline void* at_shared_address(size_t address, size_t bytes, Place place)
{
    auto* found = reinterpret_cast<void*>(address + shared_base());
    if (!is_shared(found, bytes)) misuse("an address outside of shared memory", place);
    return found;
}

}  // namespace cuda_on_cpu

inline size_t __cvta_generic_to_shared(const void* place) { return cuda_on_cpu::shared_address(place); }
inline size_t __cvta_generic_to_global(const void* place) { return size_t(place); }
inline bool __isShared(const void* place) { return cuda_on_cpu::is_shared(place, 1); }
inline bool __isGlobal(const void* place) { return !__isShared(place); }
