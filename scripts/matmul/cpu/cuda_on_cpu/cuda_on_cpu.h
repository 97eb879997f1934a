// Runs an unchanged CUDA kernel on the CPU, so that its bugs can be found without a GPU.
//
// Idea. g++ compiles the .cu file with this header included first (-include). Each thread of a
// block is a fiber with its own stack. It runs until it calls __syncthreads() and then lets the
// next thread run. When all have arrived, they all continue. Blocks run one after another.
//
// Three builds of the same source find different bugs:
//                                           plain          address, undefined   thread
//   access outside A, B or C                traps (*)      source line          unseen
//   index outside a static shared array     unseen         source line          unseen
//   access past the dynamic shared array    unseen         source line          unseen
//   missing barrier                         wrong result   wrong result         source line
//   barrier that not all threads reach      reported       reported             reported
//   shared memory read but never written    NaN            NaN                  NaN
//   too much static shared memory           reported       reported             reported
//   signed overflow, misaligned vector      unseen         source line          unseen
// (*) always past the end; before the start unless by less than a page.
// A fourth build, for verdicts on anyone's kernel, finds them all and says more: watch.h.
//
// A missing barrier gives a wrong result because no order of threads is certain: after each barrier
// the first thread and the direction are drawn at random. The draws are the same in each run, so a
// failure repeats.
//
// It cannot find races between blocks; bugs that depend on warps or on the GPU's memory model; an
// index that leaves a static shared array through a pointer that the compiler cannot follow; or the
// GPU's rounding (nvcc fuses a * b + c, this build does not). Inline PTX, cp.async and tensor cores
// are missing. A kernel that uses them needs an alternative for builds without __CUDA_ARCH__, and
// only the alternative is checked. What lies beside this file: warps.h (shuffles, votes), atomics.h,
// and CUDA's own headers, as far as they are here.
#pragma once

#include <assert.h>
#include <link.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <type_traits>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

// ---- The words of CUDA C++ ------------------------------------------------------------------

#define __global__
#define __device__
#define __host__
#define __constant__
#define __noinline__ __attribute__((noinline))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

// Unlike `static`, `thread_local` may follow `extern`, as dynamic shared memory needs. And it puts
// every shared array, and nothing else, into one segment of the executable (see poison_shared).
// Without `used`, gcc takes an array that is never written to for zeros.
#define __shared__ __attribute__((used)) thread_local

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x = 1, y = 1, z = 1; };
struct alignas(8) int2 { int x, y; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

template <typename Value>
inline Value __ldg(const Value* address) { return *address; }

// std::min wants two arguments of one type; CUDA's also takes min(16, m - blockIdx.y).
template <typename Left, typename Right, typename Both = std::common_type_t<Left, Right>>
inline Both min(Left a, Right b) { return Both(b) < Both(a) ? Both(b) : Both(a); }

template <typename Left, typename Right, typename Both = std::common_type_t<Left, Right>>
inline Both max(Left a, Right b) { return Both(a) < Both(b) ? Both(b) : Both(a); }

// ---- The runtime ----------------------------------------------------------------------------

namespace cuda_on_cpu {

// The sanitizers should watch the kernel; the runtime handles the state of all threads by design.
#define UNWATCHED __attribute__((noinline, no_sanitize("address", "thread", "undefined")))

enum ExitCode { Unusable = 2, Trapped = 3, Diverged = 4 };

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

// A fiber waits at the line of its __syncthreads(), or at this.
constexpr size_t next_block = 0;

// One thread of the current block; the scheduler itself is one more.
struct Fiber {
    uint3 index;
    size_t waits_for;
    bool entered;
    void* position[5];
    ucontext_t context;  // where it enters
    const void* stack;
    size_t stack_bytes;
    void* fake_stack;  // AddressSanitizer's
    void* twin;        // ThreadSanitizer's idea of this fiber
};

inline Fiber scheduler, *fibers, *current;
inline size_t fiber_count;
inline size_t phase;
inline char barriers[2];
inline void (*run_thread)();

[[noreturn]] UNWATCHED inline void jump(Fiber& to)
{
    if (to.entered) __builtin_longjmp(to.position, 1);
    to.entered = true;
    setcontext(&to.context);
    __builtin_unreachable();
}

// Suspends `from` and continues `to`. swapcontext would work too, but costs a system call; so would
// the C library's setjmp, if the sanitizers did not replace its longjmp.
UNWATCHED inline void switch_fibers(Fiber& from, Fiber& to)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack, to.stack_bytes);
#elif defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(to.twin, __tsan_switch_to_fiber_no_sync);
#endif
    if (__builtin_setjmp(from.position) == 0) jump(to);
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

// Returns when all threads of the block wait for the same. ThreadSanitizer is told that everything
// they did before happened before everything they do next. Two tags alternate: with one, a thread
// already at the next barrier would seem to come before a thread that has not left this one.
UNWATCHED inline void wait_for_block(size_t reason)
{
    Fiber& self = *current;
    self.waits_for = reason;
#if defined(__SANITIZE_THREAD__)
    char* barrier = &barriers[phase % 2];
    __tsan_release(barrier);
    switch_fibers(self, scheduler);
    __tsan_acquire(barrier);
#else
    switch_fibers(self, scheduler);
#endif
}

// A fiber runs one thread of each block in turn. The end of a block is a barrier too.
UNWATCHED inline void live()
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler.stack, &scheduler.stack_bytes);
#endif
    for (;;) {
        run_thread();
        wait_for_block(next_block);
    }
}

UNWATCHED inline void create_fibers()
{
    constexpr size_t stack_bytes = 256 << 10, guard_bytes = 64 << 10;  // an overflow traps
    fiber_count = size_t(blockDim.x) * blockDim.y * blockDim.z;
    if (fiber_count < 1 || fiber_count > 1024)
        (Line() << "a block has 1 to 1024 threads, not " << fiber_count).leave(Unusable);
    fibers = new Fiber[fiber_count]();
    char* memory = static_cast<char*>(mmap(nullptr, fiber_count * (guard_bytes + stack_bytes),
                                           PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                           -1, 0));
    for (size_t i = 0; i < fiber_count; ++i) {
        Fiber& fiber = fibers[i];
        fiber.index = {unsigned(i % blockDim.x), unsigned(i / blockDim.x % blockDim.y),
                       unsigned(i / blockDim.x / blockDim.y)};
        memory += guard_bytes;
        if (mprotect(memory, stack_bytes, PROT_READ | PROT_WRITE) != 0)
            (Line() << "no memory for the stacks of " << fiber_count << " threads").leave(Unusable);
        getcontext(&fiber.context);
        fiber.stack = fiber.context.uc_stack.ss_sp = memory;
        fiber.stack_bytes = fiber.context.uc_stack.ss_size = stack_bytes;
        makecontext(&fiber.context, live, 0);
#if defined(__SANITIZE_THREAD__)
        fiber.twin = __tsan_create_fiber(0);
#endif
        memory += stack_bytes;
    }
    scheduler.entered = true;
#if defined(__SANITIZE_THREAD__)
    scheduler.twin = __tsan_get_current_fiber();
#endif
}

struct Segment {
    volatile unsigned char* begin = nullptr;
    size_t bytes = 0;
};

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

// Fills all shared memory with NaN.
UNWATCHED inline void poison_shared()
{
    static const Segment shared = shared_memory();
    // volatile keeps this loop from becoming a call of memset, which the sanitizers watch.
    for (size_t i = 0; i < shared.bytes; ++i) shared.begin[i] = 0xFF;
}

void finish_warps();

// Lets every thread run up to its next barrier.
UNWATCHED inline void run_phase()
{
    static uint32_t random = 1;
    random = random * 1664525 + 1013904223;
    const bool backwards = random >> 31;
    const size_t first = (random >> 8) % fiber_count;
    ++phase;
    for (size_t i = 0; i < fiber_count; ++i) {
        current = &fibers[(first + (backwards ? fiber_count - i : i)) % fiber_count];
        threadIdx = current->index;
        switch_fibers(scheduler, *current);
    }
    finish_warps();
}

inline Line& operator<<(Line& line, const Fiber& fiber)
{
    line << "thread " << fiber.index;
    if (fiber.waits_for == next_block) return line << " has returned";
    return line << " waits at line " << fiber.waits_for;
}

UNWATCHED inline void run_block()
{
    poison_shared();
    do {
        run_phase();
        for (size_t i = 1; i < fiber_count; ++i)
            if (fibers[i].waits_for != fibers[0].waits_for)
                (Line() << "divergent __syncthreads in block " << blockIdx << ": " << fibers[0]
                        << ", " << fibers[i]).leave(Diverged);
    } while (fibers[0].waits_for != next_block);
}

// Calls `thread` once for each thread of the grid.
UNWATCHED inline void launch(dim3 grid, dim3 block, void (*thread)())
{
    gridDim = grid;
    blockDim = block;
    run_thread = thread;
    create_fibers();
    for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(&barriers[phase % 2]);  // the caller reads what the threads wrote
#endif
}

}  // namespace cuda_on_cpu

// The line of the caller.
inline void __syncthreads(size_t line = __builtin_LINE()) { cuda_on_cpu::wait_for_block(line); }

#include "atomics.h"
#include "cuda_bf16.h"
#include "intrinsics.h"
#include "warps.h"
