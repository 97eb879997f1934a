// Warps on the CPU: shuffles, votes and __syncwarp(), for 32 neighbouring threads of a block.
//
// A lane that calls one of them waits until all lanes of the mask have. Then each sees what all gave.
// A mask that names a lane which has returned, or waits elsewhere, is reported like a divergent
// barrier: on a GPU that is undefined.
#pragma once

namespace cuda_on_cpu {

constexpr unsigned warp_threads = 32;

struct Lane {
    unsigned mask;                // of the lanes that it waits for; 0 once they have met
    unsigned active;              // those that asked with it which are active; 0 until that is known
    uint64_t given;               // to the other lanes
    uint64_t seen[warp_threads];  // what all lanes gave when they last met
};

inline Lane lanes[16][1024];  // of each block of a cluster

UNWATCHED inline size_t thread_number() { return current - current->block->fibers; }
UNWATCHED inline unsigned lane_number() { return thread_number() % warp_threads; }

// Releases the lanes of this mask, of the warp that begins with `warp`, if all of them wait.
UNWATCHED inline void meet(Lane* warp, unsigned mask)
{
    for (unsigned i = 0; i < warp_threads; ++i)
        if (mask >> i & 1 && warp[i].mask != mask) return;
    for (unsigned i = 0; i < warp_threads; ++i) {
        if (!(mask >> i & 1)) continue;
        for (unsigned j = 0; j < warp_threads; ++j) warp[i].seen[j] = warp[j].given;
        warp[i].mask = 0;
    }
    join_clocks(thread_number() / warp_threads * warp_threads, mask);
}

UNWATCHED inline bool lanes_met(const void* lane, size_t) { return !static_cast<const Lane*>(lane)->mask; }

// Waits for the lanes of the mask; what each of them gave.
UNWATCHED inline const uint64_t* exchange(unsigned mask, uint64_t given, size_t line)
{
    const size_t self = thread_number(), first = self - self % warp_threads;
    const size_t here = thread_count - first;
    if (here < warp_threads) mask &= (1u << here) - 1;
    if (!(mask >> self % warp_threads & 1))
        (Line() << "divergent warp in block " << blockIdx << ": the mask at line " << line
                << " leaves out its own thread " << threadIdx).leave(Stuck);
    Lane* block = lanes[current->block->rank];
    Lane& lane = block[self];
    lane.mask = mask;
    lane.given = given;
    meet(block + first, mask);
    if (lane.mask) wait_for({line, "the other lanes of its mask", lanes_met, &lane, 0});
    return lane.seen;
}

// Ends the program if a thread waits for lanes that do not come, and none for anything but threads.
UNWATCHED inline void report_divergent_warp(const Block& block)
{
    const Fiber* stuck = nullptr;
    for (size_t i = 0; i < thread_count; ++i) {
        const Fiber& fiber = block.fibers[i];
        if (fiber.wait.over == lanes_met || fiber.wait.words == its_warp) stuck = &fiber;
        else if (fiber.wait.over != with_the_block) return;
    }
    if (stuck)
        (Line() << "divergent warp in block " << block.index << ": thread " << stuck->index
                << " waits at line " << stuck->wait.line
                << " for lanes that do not come there").leave(Stuck);
}

// Whether it is known which lanes are active with this one: all others of its warp wait too, or have returned. Those
// that do so for the same line are active.
UNWATCHED inline bool active_known(const void* own, size_t line)
{
    auto* const self = const_cast<Fiber*>(static_cast<const Fiber*>(own));
    const size_t number = self - self->block->fibers, first = number / warp_threads * warp_threads;
    Lane* warp = lanes[self->block->rank] + first;
    if (warp[number - first].active) return true;
    const size_t last = first + warp_threads < thread_count ? first + warp_threads : thread_count;
    unsigned mask = 0;
    for (size_t i = first; i < last; ++i) {
        const Wait& wait = self->block->fibers[i].wait;
        if (!wait.over) return false;
        if (wait.over == active_known && wait.line == line) mask |= 1u << (i - first);
    }
    for (size_t i = first; i < last; ++i)
        if (mask >> (i - first) & 1) warp[i - first].active = mask;
    return true;
}

UNWATCHED inline unsigned active_lanes(size_t line)
{
    Lane& own = lanes[current->block->rank][thread_number()];
    own.active = 0;
    wait_for({line, "its warp to run as one", active_known, current, line});
    return own.active;
}

template <typename Value>
UNWATCHED inline uint64_t packed(Value value)
{
    static_assert(sizeof(Value) <= 8, "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    return bits;
}

// The value of lane `from`, or one's own if that lies outside the segment of `width` lanes.
template <typename Value>
UNWATCHED inline Value shuffled(unsigned mask, Value own, int from, bool inside, size_t line)
{
    const uint64_t* seen = exchange(mask, packed(own), line);
    if (!inside) return own;
    Value value;
    __builtin_memcpy(&value, &seen[from], sizeof value);
    return value;
}

UNWATCHED inline unsigned voted(unsigned mask, bool vote, size_t line)
{
    const uint64_t* seen = exchange(mask, vote, line);
    unsigned votes = 0;
    for (unsigned i = 0; i < warp_threads; ++i)
        if (mask >> i & 1 && seen[i]) votes |= 1u << i;
    return votes;
}

}  // namespace cuda_on_cpu

// ---- Shuffles -------------------------------------------------------------------------------

constexpr int warpSize = 32;
#define CALLER size_t line = __builtin_LINE()

template <typename Value>
inline Value __shfl_sync(unsigned mask, Value own, int lane, int width = 32, CALLER)
{
    const int self = cuda_on_cpu::lane_number();
    return cuda_on_cpu::shuffled(mask, own, self / width * width + (lane & (width - 1)), true, line);
}

template <typename Value>
inline Value __shfl_up_sync(unsigned mask, Value own, unsigned delta, int width = 32, CALLER)
{
    const int self = cuda_on_cpu::lane_number(), from = self - int(delta);
    return cuda_on_cpu::shuffled(mask, own, from, from >= self / width * width, line);
}

template <typename Value>
inline Value __shfl_down_sync(unsigned mask, Value own, unsigned delta, int width = 32, CALLER)
{
    const int self = cuda_on_cpu::lane_number(), from = self + int(delta);
    return cuda_on_cpu::shuffled(mask, own, from, from < (self / width + 1) * width, line);
}

// A lane may read one of an earlier segment, but none of a later one.
template <typename Value>
inline Value __shfl_xor_sync(unsigned mask, Value own, int bits, int width = 32, CALLER)
{
    const int self = cuda_on_cpu::lane_number(), from = self ^ bits;
    return cuda_on_cpu::shuffled(mask, own, from, from < (self / width + 1) * width, line);
}

// ---- Votes and barriers ---------------------------------------------------------------------

inline unsigned __activemask(CALLER) { return cuda_on_cpu::active_lanes(line); }
inline void __syncwarp(unsigned mask = ~0u, CALLER) { cuda_on_cpu::exchange(mask, 0, line); }
inline unsigned __ballot_sync(unsigned mask, int vote, CALLER)
{
    return cuda_on_cpu::voted(mask, vote, line);
}
inline int __any_sync(unsigned mask, int vote, CALLER)
{
    return cuda_on_cpu::voted(mask, vote, line) != 0;
}
inline int __all_sync(unsigned mask, int vote, CALLER)
{
    return cuda_on_cpu::voted(mask, !vote, line) == 0;
}

#define REDUCE(name, sum)                                                         \
    template <typename Value>                                                     \
    inline Value __reduce_##name##_sync(unsigned mask, Value own, CALLER)         \
    {                                                                             \
        const uint64_t* seen = cuda_on_cpu::exchange(mask, cuda_on_cpu::packed(own), line); \
        Value a = own;                                                            \
        for (unsigned i = 0; i < 32; ++i) {                                       \
            const Value b = Value(seen[i]);                                       \
            if (mask >> i & 1 && i != cuda_on_cpu::lane_number()) a = sum;        \
        }                                                                         \
        return a;                                                                 \
    }
REDUCE(add, a + b)
REDUCE(min, b < a ? b : a)
REDUCE(max, a < b ? b : a)
REDUCE(and, a & b)
REDUCE(or, a | b)
REDUCE(xor, a ^ b)
#undef REDUCE

namespace cuda_on_cpu {

// How many threads of the block vote yes, at a barrier of the block.
UNWATCHED inline int count_votes(bool vote, size_t line)
{
    static int votes[16][2];  // of alternate barriers, so that a fast thread's next vote does not count
    static size_t counted[16][2];
    const Block& block = *current->block;
    const size_t turn = block.meetings % 2;
    int& sum = votes[block.rank][turn];
    if (counted[block.rank][turn] != block.meetings + 1) counted[block.rank][turn] = block.meetings + 1, sum = 0;
    sum += vote;
    wait_for_block(line);
    return sum;
}

}  // namespace cuda_on_cpu

inline int __syncthreads_count(int vote, CALLER) { return cuda_on_cpu::count_votes(vote, line); }
inline int __syncthreads_or(int vote, CALLER) { return cuda_on_cpu::count_votes(vote, line) > 0; }
inline int __syncthreads_and(int vote, CALLER) { return !cuda_on_cpu::count_votes(!vote, line); }
#undef CALLER
