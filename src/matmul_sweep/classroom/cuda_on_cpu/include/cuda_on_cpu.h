// Runs an unchanged CUDA kernel on the CPU, so that its bugs can be found without a GPU.
//
// Idea. g++ compiles the .cu file with this header included first (-include). Each thread of a
// block is a fiber with its own stack. It runs until it has to wait, for __syncthreads() or for
// something else, and then lets the next thread run. When all have arrived, they all continue. Blocks
// run one after another; those of a cluster run together.
//
// Two builds of the same source find different bugs. The second one, WATCH, also says more: see watch.h.
//                                           plain          WATCH
//   access outside A, B or C                traps (*)      source line
//   index outside a static shared array     unseen         source line
//   access past the dynamic shared array    unseen         source line
//   missing barrier                         wrong result   source line
//   barrier that not all threads reach      reported       reported
//   wait for what never comes               reported       reported
//   missing wait for a copy                 wrong result   source line
//   missing wait for a product of wgmma     wrong result   wrong result
//   shared memory read but never written    NaN            source line
//   too much static shared memory           reported       reported
//   signed overflow, misaligned vector      unseen         source line
// (*) always past the end; before the start unless by less than a page.
//
// A missing barrier gives a wrong result because no order of threads is certain: after each barrier
// the first thread and the direction are drawn at random. The draws are the same in each run, so a
// failure repeats.
//
// The same holds for threads that wait for different things: each round goes through all that can go
// on, from a drawn one. What is asynchronous is in copies.h and asynchronous.h.
//
// It cannot find races between blocks; bugs that depend on warps or on the GPU's memory model; an
// index that leaves a static shared array through a pointer that the compiler cannot follow; or the
// GPU's rounding (nvcc fuses a * b + c, this build does not). Of inline PTX it runs what ptx.h has. A
// kernel that uses more needs an alternative for builds without __CUDA_ARCH__, and only the alternative is
// checked; the headers in kernels/ have one for each instruction that they wrap. What lies beside this
// file: warps.h (shuffles, votes), atomics.h, and CUDA's own headers, as far as they are here.
#pragma once

#include <assert.h>
#include <link.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <type_traits>

// ---- The words of CUDA C++ ------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __grid_constant__
#define __maxnreg__(...)
#define __block_size__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// Unlike `static`, `thread_local` may follow `extern`, as dynamic shared memory needs. And it puts
// every shared array, and nothing else, into one segment of the executable (see poison_shared).
// Without `used`, gcc takes an array that is never written to for zeros. nvcc's arrays begin at 16 bytes too,
// which kernels rely on.
#define __shared__ __attribute__((used, aligned(16))) thread_local

#include "vectors.h"

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

// std::min wants two arguments of one type; CUDA's also takes min(16, m - blockIdx.y).
template <typename Left, typename Right, typename Both = std::common_type_t<Left, Right>>
inline Both min(Left a, Right b) { return Both(b) < Both(a) ? Both(b) : Both(a); }

template <typename Left, typename Right, typename Both = std::common_type_t<Left, Right>>
inline Both max(Left a, Right b) { return Both(a) < Both(b) ? Both(b) : Both(a); }

// ---- The runtime ----------------------------------------------------------------------------

namespace cuda_on_cpu {

// The watcher should see the kernel; the runtime handles the state of all threads by design. In the watcher's own
// object there is nothing to see, and each access of the kernel comes through it, so it has to be fast.
#if defined(WATCHER)
#define UNWATCHED
#else
#define UNWATCHED __attribute__((noinline, no_sanitize("thread", "undefined")))
#endif

enum ExitCode { Unusable = 2, Trapped = 3, Stuck = 4, Misused = 5 };

// One line on stderr, composed without malloc or stdio, so that a signal handler may do it.
class Line {
public:
    Line& operator<<(const char* words)
    {
        while (*words && length < sizeof text - 1) text[length++] = *words++;
        return *this;
    }

    Line& operator<<(size_t number)
    {
        char digits[24], *first = digits + sizeof digits;
        *--first = '\0';
        do *--first = char('0' + number % 10);
        while (number /= 10);
        return *this << first;
    }

    Line& operator<<(const uint3& index)
    {
        return *this << "(" << index.x << "," << index.y << "," << index.z << ")";
    }

    [[noreturn]] void leave(ExitCode code)
    {
        text[length++] = '\n';
        if (write(STDERR_FILENO, text, length) < 0) _exit(Unusable);
        _exit(code);
    }

private:
    char text[512];
    size_t length = 0;
};

struct Block;
struct Fiber;
using Place = const void*;  // in the code
#define HERE __builtin_return_address(0)

#if defined(WATCH)
// What watch.h is told of the runtime's own accesses. What threads did before they release a tag happened
// before what threads do after they acquire it.
void watch(const void* where, size_t bytes, bool writes, Place place, bool atomic = false);
void released(const void* tag);
void acquired(const void* tag);
void released_by(const Fiber& thread, unsigned clock, const void* tag);  // by what it did at that time
unsigned own_clock();
void tick();
void note_write(const void* where, size_t bytes, const Fiber& thread, unsigned clock, Place place);
void join_clocks(size_t first, unsigned mask);  // of the lanes that meet, in the warp of this thread
void join_block(const Block& block);   // whose threads have met, in a cluster
[[noreturn]] void tell_misuse(const char* words, Place place);
[[noreturn]] void tell_misaligned(const char* type, unsigned bytes, Place place);
#else
inline void watch(const void*, size_t, bool, Place) {}
inline void released(const void*) {}
inline void acquired(const void*) {}
inline void released_by(const Fiber&, unsigned, const void*) {}
inline unsigned own_clock() { return 0; }
inline void tick() {}
inline void note_write(const void*, size_t, const Fiber&, unsigned, Place) {}
inline void join_clocks(size_t, unsigned) {}
inline void join_block(const Block&) {}
#endif

// Ends the run, because of an instruction of the running thread.
[[noreturn]] UNWATCHED inline void misuse(const char* words, [[maybe_unused]] Place place = nullptr)
{
#if defined(WATCH)
    tell_misuse(words, place);
#else
    (Line() << "block " << blockIdx << ", thread " << threadIdx << ": " << words).leave(Misused);
#endif
}

// The same, because of an access of this type that is to begin at a multiple of so many bytes.
[[noreturn]] UNWATCHED inline void misaligned(const char* type, [[maybe_unused]] unsigned bytes,
                                              [[maybe_unused]] Place place)
{
#if defined(WATCH)
    tell_misaligned(type, bytes, place);
#else
    (Line() << "block " << blockIdx << ", thread " << threadIdx << ": a misaligned " << type).leave(Misused);
#endif
}

// What a fiber waits for.
struct Wait {
    size_t line;        // of the kernel, or next_block
    const char* words;  // for a report; none for __syncthreads()
    bool (*over)(const void* event, size_t number);
    const void* event;
    size_t number;
};

// A fiber that has returned waits for the next block.
constexpr size_t next_block = 0;

// It is the whole block that goes on after __syncthreads() or at its end.
inline bool with_the_block(const void*, size_t) { return false; }

struct Products;
struct Copies;

// One thread of a current block; the scheduler itself is one more.
struct Fiber {
    uint3 index;
    Block* block;
    Wait wait;  // `over` is null while it may go on
    bool entered;
    void* position[5];
    ucontext_t context;  // where it enters
    size_t cluster_phase;         // the meeting of the cluster to which it has come
    size_t stores, store_groups;  // of tiles: those under way, and committed groups
    Products* products;           // wgmma, see asynchronous.h
    Copies* copies;               // cp.async, see copies.h
};

// The lanes of a warp, which meet to exchange values.
struct Meeting {
    size_t arrived, number;  // threads that are there; meetings that have been
    size_t line;
    char brought[2][32][64];  // by each lane, to this meeting and to the last one
};

// A barrier of some warps, or of a cluster.
struct Barrier {
    size_t arrived, expected, number;  // number: of times that all have arrived
};

struct Block {
    uint3 index;
    unsigned rank;   // in its cluster
    unsigned delay;  // rounds until it begins, because the blocks of a cluster do not begin at once
    Fiber* fibers;
    size_t meetings;  // __syncthreads() so far
    unsigned serial;  // counts the blocks that have begun, from 1 on
    Meeting warps[32];
    Barrier named[16], tiles[16];  // tiles: of more than a warp
    unsigned char* shared;  // its shared memory while another block of the cluster runs
    // The shared memory that tensor cores and tile copies see, see asynchronous.h.
    unsigned char* seen;
    bool sees, fenced;
    bool waited;  // for the last launch
};

inline Fiber scheduler, *current;
inline Block blocks[16], *resident;  // of a cluster; the one whose shared memory is in its place
inline size_t cluster_size, thread_count;  // blocks of a cluster, threads of a block
inline size_t cluster_number;              // of those that have run
inline unsigned block_serial;
inline Barrier cluster_barrier;
inline void (*run_thread)();

UNWATCHED inline uint32_t draw()
{
    static uint32_t random = 1;
    return random = random * 1664525 + 1013904223;
}

[[noreturn]] UNWATCHED inline void jump(Fiber& to)
{
    if (to.entered) __builtin_longjmp(to.position, 1);
    to.entered = true;
    setcontext(&to.context);
    __builtin_unreachable();
}

// Suspends `from` and continues `to`. swapcontext would work too, but costs a system call; so would
// the C library's setjmp, if the sanitizers did not replace its longjmp.
__attribute__((noinline)) UNWATCHED inline void switch_fibers(Fiber& from, Fiber& to)
{
    if (__builtin_setjmp(from.position) == 0) jump(to);
}

// Lets other fibers run.
UNWATCHED inline void wait_for(const Wait& wait)
{
    current->wait = wait;
    switch_fibers(*current, scheduler);
}

// Returns when all threads of the block wait for the same.
UNWATCHED inline void wait_for_block(size_t line)
{
    wait_for({line, nullptr, with_the_block, nullptr, 0});
}

UNWATCHED inline bool counted(const void* counter, size_t number)
{
    return *static_cast<const size_t*>(counter) != number;
}

inline constexpr char its_warp[] = "its warp";

// Brings a value to the lanes of its warp, and returns what each brought when all are there. The
// next meeting but one takes its place.
UNWATCHED inline const char (*meet_warp(const void* value, size_t bytes, size_t line))[64]
{
    const size_t thread = current - current->block->fibers, first = thread / 32 * 32;
    const size_t lanes = thread_count - first < 32 ? thread_count - first : 32;
    Meeting& warp = current->block->warps[thread / 32];
    const size_t number = warp.number;
    auto& brought = warp.brought[number % 2];
    if (warp.arrived && warp.line != line)
        (Line() << "divergent warp in block " << blockIdx << ": threads of the warp of thread " << threadIdx
                << " wait at line " << min(line, warp.line) << " and at line " << max(line, warp.line)).leave(Stuck);
    warp.line = line;
    for (size_t i = 0; i < bytes; ++i) brought[thread % 32][i] = static_cast<const char*>(value)[i];
    if (++warp.arrived == lanes) {
        warp.arrived = 0;
        ++warp.number;
        join_clocks(first, ~0u >> (32 - lanes));
    } else {
        wait_for({line, its_warp, counted, &warp.number, number});
    }
    return brought;
}

inline void (*look_back)();  // of watch.h: at what a thread has written until it waits

// Of asynchronous.h, which has to be included for them: refuses a thread that returns while something
// of it is under way; does something that is under way, perhaps (`early`) or surely, and returns
// whether it did; looks at a block that has ended.
struct Asynchronous {
    void (*check_return)();
    bool (*progress)(bool early);
    void (*check_end)(const Block& block);
};
inline Asynchronous asynchronous;

// A fiber runs one thread of each block in turn. The end of a block is a barrier too.
UNWATCHED inline void live()
{
    for (;;) {
        run_thread();
        if (asynchronous.check_return) asynchronous.check_return();
        wait_for_block(next_block);
    }
}

UNWATCHED inline void create_fiber(Fiber& fiber, char* stack, size_t stack_bytes)
{
    if (mprotect(stack, stack_bytes, PROT_READ | PROT_WRITE) != 0)
        (Line() << "no memory for the stacks of " << thread_count << " threads").leave(Unusable);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = stack_bytes;
    makecontext(&fiber.context, live, 0);
}

struct Segment {
    volatile unsigned char* begin = nullptr;
    size_t bytes = 0;
};

inline Segment stacks;

// The blocks of a cluster and their fibers.
UNWATCHED inline void create_blocks()
{
    constexpr size_t stack_bytes = 256 << 10, guard_bytes = 64 << 10;  // an overflow traps
    thread_count = size_t(blockDim.x) * blockDim.y * blockDim.z;
    if (thread_count < 1 || thread_count > 1024)
        (Line() << "a block has 1 to 1024 threads, not " << thread_count).leave(Unusable);
    if (cluster_size < 1 || cluster_size > 16 || gridDim.x % cluster_size)
        (Line() << "a grid of " << gridDim.x << " blocks in x has no clusters of " << cluster_size)
            .leave(Unusable);
    const size_t count = cluster_size * thread_count;
    static Segment stacks;  // of the last launch
    munmap(const_cast<unsigned char*>(stacks.begin), stacks.bytes);
    Fiber* fibers = new Fiber[count]();
    char* memory = static_cast<char*>(mmap(nullptr, count * (guard_bytes + stack_bytes), PROT_NONE,
                                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    stacks = {reinterpret_cast<unsigned char*>(memory), count * (guard_bytes + stack_bytes)};
    for (size_t i = 0; i < count; ++i, memory += guard_bytes + stack_bytes) {
        Fiber& fiber = fibers[i];
        const unsigned thread = i % thread_count;
        fiber.index = {thread % blockDim.x, thread / blockDim.x % blockDim.y,
                       thread / blockDim.x / blockDim.y};
        fiber.block = &blocks[i / thread_count];
        create_fiber(fiber, memory + guard_bytes, stack_bytes);
    }
    for (unsigned rank = 0; rank < cluster_size; ++rank) {
        blocks[rank].rank = rank;
        blocks[rank].fibers = fibers + rank * thread_count;
    }
    scheduler.entered = true;
}

// All shared memory of a block: the thread-local segment of the executable, which is the first
// object that dl_iterate_phdr visits and, because the visit returns 1, the last.
UNWATCHED inline Segment shared_memory()
{
    Segment segment;
    const auto visit = [](dl_phdr_info* executable, size_t, void* found) UNWATCHED {
        for (int i = 0; i < executable->dlpi_phnum; ++i)
            if (executable->dlpi_phdr[i].p_type == PT_TLS)
                *static_cast<Segment*>(found) = {
                    static_cast<volatile unsigned char*>(executable->dlpi_tls_data),
                    executable->dlpi_phdr[i].p_memsz};
        return 1;
    };
    dl_iterate_phdr(visit, &segment);
    return segment;
}

UNWATCHED inline const Segment& shared_segment()
{
    static const Segment shared = shared_memory();
    return shared;
}

// Neither becomes a call of memset or memcpy, which would be watched: that is what volatile does.
UNWATCHED inline void poison(volatile unsigned char* memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; ++i) memory[i] = 0xFF;
}

UNWATCHED inline void copy(volatile unsigned char* to, const volatile unsigned char* from, size_t bytes)
{
    const size_t words = reinterpret_cast<uintptr_t>(to) % 8 == reinterpret_cast<uintptr_t>(from) % 8
                             ? bytes / 8 : 0;
    auto* wide = reinterpret_cast<volatile uint64_t*>(to);
    for (size_t i = 0; i < words; ++i) wide[i] = reinterpret_cast<const volatile uint64_t*>(from)[i];
    for (size_t i = 8 * words; i < bytes; ++i) to[i] = from[i];
}

// A block's shared memory: in its place, or kept while another block of the cluster is there.
UNWATCHED inline unsigned char* memory_of(const Block& block)
{
    return &block == resident ? const_cast<unsigned char*>(shared_segment().begin) : block.shared;
}

// Gives the shared memory's place to a block, and blockIdx its index.
UNWATCHED inline void enter(Block& block)
{
    blockIdx = block.index;
    if (&block == resident) return;
    const Segment& shared = shared_segment();
    copy(resident->shared, shared.begin, shared.bytes);
    copy(shared.begin, block.shared, shared.bytes);
    resident = &block;
}

// Fills all shared memory with NaN.
UNWATCHED inline void start(Block& block)
{
    const size_t bytes = shared_segment().bytes;
    if (cluster_size > 1 && !block.shared) block.shared = new unsigned char[bytes];
    poison(memory_of(block), bytes);
    block.serial = ++block_serial;
    block.sees = block.fenced = block.waited = false;
    block.delay = cluster_size > 1 ? draw() >> 29 : 0;
}

// Lets every thread that can go on run until it waits again. Returns whether there was one.
UNWATCHED inline bool run_round()
{
    const uint32_t drawn = draw();
    const bool backwards = drawn >> 31;
    const size_t first = (drawn >> 8) % thread_count;
    bool any = false;
    for (size_t b = 0; b < cluster_size; ++b) {
        Block& block = blocks[(drawn + b) % cluster_size];
        if (block.delay) {
            --block.delay;
            any = true;
            continue;
        }
        enter(block);
        for (size_t i = 0; i < thread_count; ++i) {
            Fiber& fiber = block.fibers[(first + (backwards ? thread_count - i : i)) % thread_count];
            if (fiber.wait.over && !fiber.wait.over(fiber.wait.event, fiber.wait.number)) continue;
            any = true;
            fiber.wait.over = nullptr;
            current = &fiber;
            threadIdx = fiber.index;
            switch_fibers(scheduler, fiber);
            if (look_back) look_back();
        }
    }
    return any;
}

inline Line& operator<<(Line& line, const Fiber& fiber)
{
    line << "thread " << fiber.index;
    if (fiber.wait.line == next_block) return line << " has returned";
    line << " waits at line " << fiber.wait.line;
    return fiber.wait.words ? line << " for " << fiber.wait.words : line;
}

// Whether all threads of a block are at one __syncthreads(), or at their end.
UNWATCHED inline bool has_met(const Block& block)
{
    for (size_t i = 0; i < thread_count; ++i) {
        const Wait& wait = block.fibers[i].wait;
        if (wait.over != with_the_block || wait.line != block.fibers[0].wait.line) return false;
    }
    return true;
}

void report_divergent_warp(const Block& block);

[[noreturn]] UNWATCHED inline void report_stuck()
{
    const Block* stuck = blocks;  // the first block with a thread that waits
    while (has_met(*stuck)) ++stuck;
    report_divergent_warp(*stuck);
    bool barriers = true;
    const Fiber *first = nullptr, *other = nullptr;  // one that waits, and one that does so elsewhere
    for (size_t i = 0; i < thread_count; ++i) {
        const Fiber& fiber = stuck->fibers[i];
        barriers &= fiber.wait.over == with_the_block;
        if (!first) first = &fiber;
        else if (!other && fiber.wait.line != first->wait.line) other = &fiber;
    }
    Line line;
    line << (barriers ? "divergent __syncthreads" : "no thread can go on") << " in block "
         << stuck->index << ": " << *first;
    if (other) line << ", " << *other;
    line.leave(Stuck);
}

// Runs the blocks of a cluster until all their threads have returned.
UNWATCHED inline void run_cluster()
{
    ++cluster_number;
    for (size_t rank = 0; rank < cluster_size; ++rank) start(blocks[rank]);
    for (size_t ended = 0; ended < cluster_size;) {
        bool any = run_round();
        ended = 0;
        for (size_t rank = 0; rank < cluster_size; ++rank) {
            Block& block = blocks[rank];
            if (!has_met(block)) continue;
            if (block.fibers[0].wait.line == next_block) {
                ++ended;
                continue;
            }
            any = true;
            ++block.meetings;
            join_block(block);
            for (size_t i = 0; i < thread_count; ++i) block.fibers[i].wait.over = nullptr;
        }
        const bool done = asynchronous.progress && asynchronous.progress(any);
        if (!done && !any && ended < cluster_size) report_stuck();
    }
    for (size_t rank = 0; rank < cluster_size; ++rank) {
        if (asynchronous.check_end) asynchronous.check_end(blocks[rank]);
        ++blocks[rank].meetings;
        for (size_t i = 0; i < thread_count; ++i) blocks[rank].fibers[i].wait.over = nullptr;
    }
}

// Whether only blocks at the corners of the grid and in its middle run, to save time.
inline bool corners_only;

UNWATCHED inline bool runs(unsigned index, unsigned extent)
{
    return !corners_only || index == 0 || index == extent / 2 || index == extent - 1;
}

// Calls `thread` once for each thread of the grid.
UNWATCHED inline void launch(dim3 grid, dim3 block, size_t cluster, void (*thread)())
{
    gridDim = grid;
    blockDim = block;
    cluster_size = cluster;
    run_thread = thread;
    resident = blocks;
    create_blocks();
    uint3 index;
    for (index.z = 0; index.z < grid.z; ++index.z)
        for (index.y = 0; index.y < grid.y; ++index.y)
            for (index.x = 0; index.x < grid.x; index.x += cluster) {
                if (!runs(index.x, grid.x) || !runs(index.y, grid.y)) continue;
                for (unsigned rank = 0; rank < cluster; ++rank)
                    blocks[rank].index = {index.x + rank, index.y, index.z};
                run_cluster();
            }
    current = nullptr;
}

}  // namespace cuda_on_cpu

// The line of the caller.
inline void __syncthreads(size_t line = __builtin_LINE()) { cuda_on_cpu::wait_for_block(line); }

#include "addresses.h"
#include "atomics.h"
#include "cuda_bf16.h"
#include "intrinsics.h"
#include "warps.h"
