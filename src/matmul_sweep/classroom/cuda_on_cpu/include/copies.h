// A thread's copies from global to shared memory (cp.async) on the CPU. Each takes effect as late as it
// may, when what it belongs to is waited for, or (but for WATCH, which sees a missing wait by itself) at a
// drawn earlier time. So a missing wait reads what was there before.
#pragma once

#include <stdlib.h>

namespace cuda_on_cpu {

struct Copy {
    char* to;
    const char* from;
    unsigned bytes, valid;  // zeros come behind the valid ones
    const void* event;      // a barrier, of whose phase it is a part; null: of a group of its thread
    size_t number;          // of the phase or the group
    Place place;            // where it was issued, and when by its thread's clock
    unsigned clock;
};

// Those of one thread that are under way, the oldest first.
struct Copies {
    static constexpr size_t most = 1024;
    Copy queue[most];
    size_t count, groups;
    size_t cluster;  // in which it ran; what that one has left is of no use any more
};

#if defined(WATCH)
void note_copy(const Copy& copy, const Fiber& thread, bool landed);
#else
inline void note_copy(const Copy&, const Fiber&, bool) {}
#endif

UNWATCHED inline Copies& own_copies()
{
    if (!current->copies) current->copies = static_cast<Copies*>(calloc(1, sizeof(Copies)));
    Copies& own = *current->copies;
    if (own.cluster != cluster_number) own.count = 0;
    own.cluster = cluster_number;
    return own;
}

// Does the copies of a thread that are due.
template <typename Due>
UNWATCHED void land(Fiber& thread, const Due& due)
{
    if (!thread.copies) return;
    Copies& own = *thread.copies;
    size_t left = 0;
    for (size_t i = 0; i < own.count; ++i) {
        const Copy each = own.queue[i];
        if (!due(each)) {
            own.queue[left++] = each;
            continue;
        }
        copy(reinterpret_cast<unsigned char*>(each.to),
             reinterpret_cast<const unsigned char*>(each.from), each.valid);
        for (size_t b = each.valid; b < each.bytes; ++b) each.to[b] = 0;
        note_copy(each, thread, true);
    }
    own.count = left;
}

// Does those that belong to a barrier's phases up to this one, of all threads of the block.
UNWATCHED inline void land_phase(const void* event, size_t number)
{
    const auto due = [=](const Copy& each) UNWATCHED { return each.event == event && each.number <= number; };
    for (size_t i = 0; i < thread_count; ++i) land(current->block->fibers[i], due);
}

// Returns when at most `groups` of this thread's groups are under way.
UNWATCHED inline void wait_for_copies(size_t groups)
{
    const size_t before = own_copies().groups;
    land(*current, [=](const Copy& each) UNWATCHED { return !each.event && each.number + groups < before; });
}

UNWATCHED inline void commit_copies()
{
    ++own_copies().groups;
#if !defined(WATCH)
    if (draw() >> 30 == 0) wait_for_copies(0);
#endif
}

// With an event, for the phase of this number.
UNWATCHED inline void begin_copy(void* to, const void* from, unsigned bytes, unsigned valid, Place place,
                                 const void* event = nullptr, size_t phase = 0)
{
    Copies& own = own_copies();
    if (own.count == Copies::most) land(*current, [](const Copy&) UNWATCHED { return true; });
    if (valid) watch(from, valid, false, place);
    Copy& issued = own.queue[own.count++];
    issued = {static_cast<char*>(to), static_cast<const char*>(from), bytes, valid, event,
              event ? phase : own.groups, place, own_clock()};
    note_copy(issued, *current, false);
}

// One instruction: of 4, 8 or 16 bytes, the last of which may be zeros.
UNWATCHED inline void copy_async(void* to, const void* from, unsigned bytes, unsigned valid,
                                 Place place = nullptr)
{
    if (!place) place = HERE;
    const bool aligned = reinterpret_cast<uintptr_t>(to) % bytes == 0 &&
                         (!valid || reinterpret_cast<uintptr_t>(from) % bytes == 0);
    if (!aligned) misaligned("asynchronous copy", bytes, place);
    begin_copy(to, from, bytes, valid < bytes ? valid : bytes, place);
}

// As the kernels here call it: zeros without `from`.
UNWATCHED inline void issue_copy(void* to, const void* from, unsigned bytes)
{
    copy_async(to, from, bytes, from ? bytes : 0, HERE);
}

// The part of thread `rank` of `threads` in copying `bytes` bytes: every so many pieces.
UNWATCHED inline void copy_pieces(size_t rank, size_t threads, void* to, const void* from, size_t bytes,
                                  const void* event = nullptr, size_t phase = 0)
{
    constexpr size_t piece = 16;
    for (size_t i = rank * piece; i < bytes; i += threads * piece)
        begin_copy(static_cast<char*>(to) + i, static_cast<const char*>(from) + i,
                   bytes - i < piece ? bytes - i : piece, bytes - i < piece ? bytes - i : piece, HERE, event,
                   phase);
}

}  // namespace cuda_on_cpu
