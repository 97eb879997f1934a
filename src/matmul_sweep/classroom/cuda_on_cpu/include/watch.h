// Watches every access of a kernel, for the build -DWATCH: the runtime behind gcc's instrumentation for
// ThreadSanitizer and for the undefined-behaviour sanitizer, in place of theirs.
//
// It knows the arrays, blocks, barriers and warps, and has each access by itself. So one build finds
// what the others find, always and not by the order of threads, and says more:
//   an access outside A, B, C or dynamic shared memory, before it happens: which element;
//   an index outside the dimension of an array;
//   two threads at one element of shared memory, or of C, with nothing between that orders them;
//   an element of shared memory, or of C, that is read before anything was written to it;
//   where a kernel was that crashed or did not end;
//   who wrote each element of C, and where;
//   how many elements of A and B all threads read.
//
// Two accesses are ordered if a barrier of the block lies between them, or for threads of a warp a
// meeting that both took part in, by vector clocks (Fidge 1988, Mattern 1989).
//
// It writes to the folder that WATCH_FOLDER names: findings, a line of JSON each; writers, a Writer for
// each element of C; loads, a number of elements; and again, what a second launch on the same matrices
// leaves in C, which finds a kernel that is right only once.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <sys/time.h>

namespace cuda_on_cpu {

using Place = const void*;  // in the code

// An access, of a thread in a phase of a block; block 0 is none.
struct Access {
    unsigned block, phase, clock;
    short thread;
    bool atomic;
    Place place;
};

// What was done to an element last: two reads, because one may be by the thread that writes next.
struct Cell {
    Access write, reads[2];
};

struct Writer {
    Place place;
    int block, thread;  // the linear index of each, or -1
};

inline int findings = -1;
inline size_t bytes_loaded;  // from the inputs
inline unsigned block_serial, clocks[1024][warp_threads];
inline uint3 block_seen;
inline Place last_place;
inline Cell *shared_cells, *c_cells;
inline Segment watched_shared;
inline char *dynamic_begin, *dynamic_end;  // of dynamic shared memory: what lies beyond, up to the
inline char* dynamic_limit;                // limit, is no block's

#define HERE __builtin_return_address(0)
#define HOOK extern "C" UNWATCHED __attribute__((used)) void

// A line of JSON about the running thread: a kind, where, and further fields, as printf has them.
UNWATCHED inline void tell(const char* kind, Place place, const char* format, ...)
{
    char text[512];
    int length = snprintf(
        text, sizeof text,
        "{\"kind\": \"%s\", \"places\": [%zu, %zu], \"block\": [%u, %u, %u], \"thread\": [%u, %u, %u]",
        kind, size_t(place), size_t(last_place), blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
        threadIdx.y, threadIdx.z);
    va_list values;
    va_start(values, format);
    length += vsnprintf(text + length, sizeof text - length, format, values);
    va_end(values);
    length += snprintf(text + length, sizeof text - length, "}\n");
    if (write(findings, text, length) < 0) _exit(Unusable);
}

// Whether a finding of this kind at these places is new.
UNWATCHED inline bool first_time(const char* kind, Place one, Place other)
{
    struct Known {
        const char* kind;
        Place one, other;
    };
    static Known known[64];
    for (Known& each : known) {
        if (each.kind == kind && each.one == one && each.other == other) return false;
        if (each.kind) continue;
        each = {kind, one, other};
        return true;
    }
    return false;
}

UNWATCHED inline void join_clocks(size_t first, unsigned mask)
{
    unsigned latest[warp_threads] = {};
    for (unsigned i = 0; i < warp_threads; ++i)
        for (unsigned j = 0; mask >> i & 1 && j < warp_threads; ++j)
            if (latest[j] < clocks[first + i][j]) latest[j] = clocks[first + i][j];
    for (unsigned i = 0; i < warp_threads; ++i) {
        if (!(mask >> i & 1)) continue;
        for (unsigned j = 0; j < warp_threads; ++j) clocks[first + i][j] = latest[j];
        ++clocks[first + i][i];
    }
}

UNWATCHED inline Access access_now(Place place, bool atomic)
{
    if (!block_serial || block_seen.x != blockIdx.x || block_seen.y != blockIdx.y ||
        block_seen.z != blockIdx.z) {
        block_seen = blockIdx;
        ++block_serial;
    }
    const size_t self = thread_number();
    return {block_serial, unsigned(current->block->meetings), clocks[self][self % warp_threads],
            short(self), atomic, place};
}

UNWATCHED inline bool ordered(const Access& before, const Access& now)
{
    if (!before.block || (before.atomic && now.atomic)) return true;
    if (before.block != now.block) return false;
    if (before.phase != now.phase || before.thread == now.thread) return true;
    return before.thread / warp_threads == now.thread / warp_threads &&
           before.clock <= clocks[now.thread][before.thread % warp_threads];
}

UNWATCHED inline void tell_race(const char* array, size_t element, const Access& before,
                                const Access& now, const char* what)
{
    if (first_time("race", before.place, now.place))
        tell("race", now.place,
             ", \"array\": \"%s\", \"element\": %zu, \"other\": %zu, \"other_thread\": %d, "
             "\"same_block\": %s, \"what\": \"%s\"",
             array, element, size_t(before.place), before.thread,
             before.block == now.block ? "true" : "false", what);
}

UNWATCHED inline void note(Cell& cell, const Access& now, bool writes, const char* array, size_t element)
{
    if (!ordered(cell.write, now))
        tell_race(array, element, cell.write, now, writes ? "write after write" : "read after write");
    if (!writes) {
        if (cell.reads[0].thread != now.thread || cell.reads[0].phase != now.phase)
            cell.reads[1] = cell.reads[0];
        cell.reads[0] = now;
        return;
    }
    for (const Access& read : cell.reads)
        if (!ordered(read, now)) tell_race(array, element, read, now, "write after read");
    cell.write = now;
}

// An access to shared memory, byte by byte. A block finds nothing of the one before it.
UNWATCHED inline void note_shared(const char* address, size_t bytes, bool writes, const Access& now)
{
    const size_t first = address - (const char*)watched_shared.begin;
    if (dynamic_end <= address && address < dynamic_limit) {
        tell("outside", now.place, ", \"array\": \"shared\", \"element\": %zd, \"writes\": %s",
             address - dynamic_begin, writes ? "true" : "false");
        _exit(Trapped);
    }
    for (size_t i = first; i < first + bytes; ++i) {
        Cell& cell = shared_cells[i];
        if (cell.write.block != now.block) cell.write = {};
        for (Access& read : cell.reads)
            if (read.block != now.block) read = {};
        if (!writes && !cell.write.block && first_time("unwritten", now.place, nullptr))
            tell("unwritten", now.place, ", \"array\": \"shared\", \"element\": %zu", i - first);
        note(cell, now, writes, "shared", first);
    }
}

UNWATCHED inline void note_c(size_t element, bool writes, const Access& now)
{
    Cell& cell = c_cells[element];
    if (!writes && !cell.write.block && !now.atomic && first_time("unwritten", now.place, nullptr))
        tell("unwritten", now.place, ", \"array\": \"C\", \"element\": %zu", element);
    note(cell, now, writes, "C", element);
}

// Ends the run if the access lies outside the array, but nearer to it than to anything else.
UNWATCHED inline bool note_array(const Array& array, const char* address, size_t bytes, bool writes,
                                 const Access& now)
{
    const char *begin = (const char*)array.data, *end = begin + array.bytes;
    if (address < begin - fence_bytes || address >= end + fence_bytes) return false;
    const ptrdiff_t size = array.element_bytes, offset = address - begin;
    const ptrdiff_t element = (offset - (offset < 0 ? size - 1 : 0)) / size;
    if (address < begin || address + bytes > end) {
        tell("outside", now.place, ", \"array\": \"%s\", \"element\": %zd, \"writes\": %s", array.name,
             address < begin ? element : ptrdiff_t((address + bytes - begin - 1) / size),
             writes ? "true" : "false");
        _exit(Trapped);
    }
    if (&array != &C) {
        if (!writes) bytes_loaded += bytes;
        if (writes && first_time("input", now.place, nullptr))
            tell("input", now.place, ", \"array\": \"%s\", \"element\": %zd", array.name, element);
        return true;
    }
    for (size_t i = 0; i < bytes; i += size) note_c(element + i / size, writes, now);
    return true;
}

UNWATCHED inline void watch(const void* where, size_t bytes, bool writes, Place place, bool atomic = false)
{
    if (!c_cells || !current) return;
    const char* address = static_cast<const char*>(where);
    const Access now = access_now(place, atomic);
    const auto shared = (const char*)watched_shared.begin;
    if (shared <= address && address < shared + watched_shared.bytes) {
        last_place = place;
        return note_shared(address, bytes, writes, now);
    }
    last_place = place;
    for (const Array& array : arrays)
        if (note_array(array, address, bytes, writes, now)) return;
}

UNWATCHED inline void watch_atomic(const void* address, size_t bytes, Place place)
{
    watch(address, bytes, false, place, true);
    watch(address, bytes, true, place, true);
}

UNWATCHED inline void stopped(int signal, siginfo_t*, void* context)
{
    const auto place = Place(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
    tell(signal == SIGPROF ? "endless" : signal == SIGFPE ? "division" : "crash", place, "");
    _exit(Trapped);
}

UNWATCHED inline FILE* created(const char* name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("WATCH_FOLDER"), name);
    return fopen(path, "wb");
}

// Called before the kernel runs.
UNWATCHED inline void start_watching()
{
    findings = fileno(created("findings"));
    setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash loses no line that the kernel printed
    watched_shared = shared_memory();
    shared_cells = static_cast<Cell*>(calloc(watched_shared.bytes + 1, sizeof(Cell)));
    for (size_t i = 0; i < 1024; ++i) clocks[i][i % warp_threads] = 1;
    static char stack[64 << 10];
    stack_t alternative = {};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = stopped;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF}) sigaction(signal, &action, nullptr);
    itimerval limit = {};  // of processor time, because other work on the machine is no loop
    limit.it_value.tv_sec = atoi(getenv("WATCH_SECONDS"));
    setitimer(ITIMER_PROF, &limit, nullptr);
    c_cells = static_cast<Cell*>(calloc(C.bytes / C.element_bytes + 1, sizeof(Cell)));
    corners_only = getenv("WATCH_CORNERS");
}

// Called after it: who wrote each element of C, and the loads.
UNWATCHED inline void stop_watching()
{
    FILE* file = created("writers");
    for (size_t i = 0; i < C.bytes / C.element_bytes; ++i) {
        const Access& last = c_cells[i].write;
        const Writer writer = {last.place, int(last.block) - 1, last.block ? last.thread : -1};
        fwrite(&writer, sizeof writer, 1, file);
    }
    fclose(file);
    fprintf(file = created("loads"), "%zu", bytes_loaded / arrays[0].element_bytes);
    fclose(file);
}

// Called before the second launch, which finds C as the first one did, and prints nothing.
UNWATCHED inline void begin_again(const char* before)
{
    fflush(stdout);
    close(STDOUT_FILENO);
    memset(c_cells, 0, (C.bytes / C.element_bytes + 1) * sizeof(Cell));
    memcpy(C.data, before, C.bytes);
}

}  // namespace cuda_on_cpu

// ---- What gcc calls for -fsanitize=thread -----------------------------------------------------

#define ACCESS(bytes)                                                                       \
    HOOK __tsan_read##bytes(void* where) { cuda_on_cpu::watch(where, bytes, false, HERE); } \
    HOOK __tsan_write##bytes(void* where) { cuda_on_cpu::watch(where, bytes, true, HERE); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#define UNALIGNED(bytes)                                                                              \
    HOOK __tsan_unaligned_read##bytes(void* where) { cuda_on_cpu::watch(where, bytes, false, HERE); } \
    HOOK __tsan_unaligned_write##bytes(void* where) { cuda_on_cpu::watch(where, bytes, true, HERE); }
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)
HOOK __tsan_read_range(void* where, size_t bytes) { cuda_on_cpu::watch(where, bytes, false, HERE); }
HOOK __tsan_write_range(void* where, size_t bytes) { cuda_on_cpu::watch(where, bytes, true, HERE); }
HOOK __tsan_vptr_update(void*, void*) {}
HOOK __tsan_vptr_read(void*) {}
HOOK __tsan_init() {}
HOOK __tsan_func_entry(void*) {}
HOOK __tsan_func_exit() {}

// ---- What gcc calls for -fsanitize=bounds,alignment,signed-integer-overflow ------------------------

namespace cuda_on_cpu {

struct SourceLocation {
    const char* file;
    unsigned line, column;
};

struct TypeDescriptor {
    unsigned short kind, info;
    char name[1];
};

struct OutOfBounds {
    SourceLocation location;
    const TypeDescriptor *array, *index;
};

struct Mistyped {
    SourceLocation location;
    const TypeDescriptor* type;
};

}  // namespace cuda_on_cpu

HOOK __ubsan_handle_out_of_bounds_abort(cuda_on_cpu::OutOfBounds* data, long index)
{
    cuda_on_cpu::tell("index", HERE, ", \"index\": %d, \"type\": \"%s\"", int(index),
                      data->array->name);
    _exit(cuda_on_cpu::Trapped);
}

HOOK __ubsan_handle_type_mismatch_v1_abort(cuda_on_cpu::Mistyped* data, void*)
{
    cuda_on_cpu::tell("misaligned", HERE, ", \"type\": \"%s\"", data->type->name);
    _exit(cuda_on_cpu::Trapped);
}

#define OVERFLOW(name)                                                        \
    HOOK __ubsan_handle_##name##_overflow_abort(void*, long, long)            \
    {                                                                         \
        cuda_on_cpu::tell("overflow", HERE, "");                              \
        _exit(cuda_on_cpu::Trapped);                                          \
    }
OVERFLOW(add)
OVERFLOW(sub)
OVERFLOW(mul)
OVERFLOW(negate)
OVERFLOW(divrem)
