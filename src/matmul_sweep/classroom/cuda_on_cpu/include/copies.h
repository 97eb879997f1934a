// A thread's copies from global to shared memory (cp.async) on the CPU. Each takes effect as late as it
// may, when its group is waited for, or at a drawn earlier time. So a missing wait reads what was there
// before.
#pragma once

namespace cuda_on_cpu {

// Of `bytes` bytes; zeros without `from`.
struct Copy {
    float* to;
    const float* from;
    int bytes;
    size_t group;
};

// Those of one thread that are under way, the oldest first.
struct Copies {
    static constexpr size_t most = 1024;
    Copy queue[most];
    size_t count, groups;
    size_t cluster;  // in which it ran; what that one has left is of no use any more
};

// The accesses themselves, which the sanitizers watch.
__attribute__((noinline)) inline void move(float* to, const float* from, int words)
{
    for (int i = 0; i < words; ++i) to[i] = from ? from[i] : 0;
}

UNWATCHED inline Copies& own_copies()
{
    if (!current->copies) current->copies = new Copies();
    Copies& own = *current->copies;
    if (own.cluster != cluster_number) own.count = 0;
    own.cluster = cluster_number;
    return own;
}

// Does the copies of all groups but the newest ones.
UNWATCHED inline void finish_copies(Copies& own, size_t groups)
{
    size_t done = 0;
    for (; done < own.count && own.queue[done].group + groups < own.groups; ++done) {
        const Copy& copy = own.queue[done];
        move(copy.to, copy.from, copy.bytes / 4);
    }
    for (size_t i = done; i < own.count; ++i) own.queue[i - done] = own.queue[i];
    own.count -= done;
}

UNWATCHED inline void issue_copy(void* to, const void* from, int bytes)
{
    Copies& own = own_copies();
    if (own.count == Copies::most) misuse("over 1024 copies of a thread are under way");
    own.queue[own.count++] = {static_cast<float*>(to), static_cast<const float*>(from), bytes, own.groups};
}

UNWATCHED inline void commit_copies()
{
    Copies& own = own_copies();
    ++own.groups;
    if (draw() >> 30 == 0) finish_copies(own, 0);
}

// Returns when at most `groups` of this thread's groups are under way.
UNWATCHED inline void wait_for_copies(size_t groups) { finish_copies(own_copies(), groups); }

}  // namespace cuda_on_cpu
