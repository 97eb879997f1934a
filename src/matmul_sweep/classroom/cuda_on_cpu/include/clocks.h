// Which threads of a cluster know what of each other, for the build WATCH: vector clocks (Fidge
// 1988, Mattern 1989). A barrier of a block alone is not in them, but counted (Block::meetings),
// because it orders all that lies before and after it.
#pragma once

namespace cuda_on_cpu {

inline unsigned*
    clocks;  // a row for each thread: up to which time it knows what each thread has done
inline size_t clock_count;   // threads of a cluster
inline unsigned
    first_serial;            // of the blocks of this launch, which comes behind all of the last one
inline bool beyond_warps;    // whether any threads have met but those of a warp or of a whole block

UNWATCHED void start_clocks(const dim3& block, size_t cluster)
{
    clock_count = size_t(block.x) * block.y * block.z * cluster;
    free(clocks);
    clocks = static_cast<unsigned*>(calloc(clock_count * clock_count, sizeof *clocks));
    for (size_t i = 0; i < clock_count; ++i) clocks[i * clock_count + i] = 1;
    beyond_warps = cluster > 1;
    first_serial = block_serial + 1;
}

UNWATCHED unsigned* clocks_of(size_t id) { return clocks + id * clock_count; }
UNWATCHED size_t own_id() { return current->block->rank * thread_count + thread_number(); }
UNWATCHED unsigned own_clock() { return clocks_of(own_id())[own_id()]; }
UNWATCHED void tick() { ++clocks_of(own_id())[own_id()]; }

UNWATCHED void learn(unsigned* own, const unsigned* other, size_t from, size_t to)
{
    for (size_t j = from; j < to; ++j)
        if (own[j] < other[j]) own[j] = other[j];
}

// What the threads of these ids that `meets` names know, each of them knows afterwards.
template <typename Meets>
UNWATCHED void join(size_t first, size_t last, size_t from, size_t to, const Meets& meets)
{
    static unsigned latest[16 * 1024];
    for (size_t j = from; j < to; ++j) latest[j] = 0;
    for (size_t i = first; i < last; ++i)
        if (meets(i - first)) learn(latest, clocks_of(i), from, to);
    for (size_t i = first; i < last; ++i) {
        if (!meets(i - first)) continue;
        for (size_t j = from; j < to; ++j) clocks_of(i)[j] = latest[j];
        ++clocks_of(i)[i];
    }
}

UNWATCHED void join_clocks(size_t first, unsigned mask)
{
    first += current->block->rank * thread_count;
    const size_t here = thread_count - first % thread_count;
    const size_t last = first + (here < warp_threads ? here : warp_threads);
    const auto meets = [=](size_t lane) UNWATCHED { return bool(mask >> lane & 1); };
    if (beyond_warps) join(first, last, 0, clock_count, meets);
    else join(first, last, first, last, meets);
}

// Blocks of a cluster may learn of each other from one thread.
UNWATCHED void join_block(const Block& block)
{
    if (cluster_size == 1) return;
    const size_t first = block.rank * thread_count;
    join(first, first + thread_count, 0, clock_count, [](size_t) UNWATCHED { return true; });
}

// The clocks of a tag. One in shared memory is known by its block, which may not be in its place.
UNWATCHED unsigned* clocks_of_tag(const void* tag)
{
    struct Known {
        uintptr_t name;
        unsigned* clocks;
    };
    static Known known[4096];
    auto name = reinterpret_cast<uintptr_t>(tag);
    const auto place = reinterpret_cast<uintptr_t>(shared_segment().begin);
    for (const Block& block : blocks) {
        const auto begin = &block == resident ? place : reinterpret_cast<uintptr_t>(block.shared);
        if (begin && begin <= name && name < begin + shared_segment().bytes) {
            name = (block.rank + 1ul) << 48 | (name - begin);
            break;
        }
    }
    for (Known& each : known) {
        if (each.name && each.name != name) continue;
        each.name = name;
        if (!each.clocks) each.clocks = static_cast<unsigned*>(calloc(16 * 1024, sizeof *clocks));
        return each.clocks;
    }
    misuse("over 4096 barriers");
}

UNWATCHED void released(const void* tag)
{
    unsigned* own = clocks_of(own_id());
    learn(clocks_of_tag(tag), own, 0, clock_count);
    tick();
    beyond_warps = true;
}

UNWATCHED void released_by(const Fiber& thread, unsigned clock, const void* tag)
{
    unsigned& known =
        clocks_of_tag(tag)[thread.block->rank * thread_count + (&thread - thread.block->fibers)];
    if (known < clock) known = clock;
}

UNWATCHED void acquired(const void* tag)
{
    learn(clocks_of(own_id()), clocks_of_tag(tag), 0, clock_count);
}

}  // namespace cuda_on_cpu
