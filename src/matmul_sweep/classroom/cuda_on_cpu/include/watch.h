// Watches every access of a kernel, for the build -DWATCH: the runtime behind gcc's instrumentation for
// ThreadSanitizer and for the undefined-behaviour sanitizer, in place of theirs.
//
// It knows the arrays, blocks, barriers and warps, and has each access by itself. So it finds mistakes
// always, and not by the order of threads:
//   an access outside A, B, C or dynamic shared memory, before it happens: which element;
//   an index outside the dimension of an array;
//   two threads at one element of shared memory, or of C, with nothing between that orders them, unless
//   both leave the same value in shared memory;
//   an access to shared memory that an asynchronous copy fills, which was not waited for;
//   an element of shared memory, or of C, that is read before anything was written to it;
//   where a kernel was that crashed or did not end;
//   who wrote each element of C, and where;
//   how many elements of A and B all threads read.
//
// Two accesses are ordered if a barrier of the block lies between them, or what clocks.h knows.
//
// It writes the findings, a line of JSON each, to the descriptor WATCH_FINDINGS, and into files that are
// there in the folder where it runs: writers, a Writer for each element of C; loads, a number of
// elements; and again, what a second launch on the same matrices leaves in C, which finds a kernel that is
// right only once. The last line of the findings is the secret that it read from its standard input: a run
// without it was ended by something else than the driver.
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <sys/time.h>

#include "clocks.h"
#include "copies.h"

namespace cuda_on_cpu {

// Landed, UnderWay: by an asynchronous copy that was waited for, or was not yet.
enum class How : char { Plain, Atomic, Landed, UnderWay };

// An access, of a thread in a phase of a block; block 0 is none.
struct Access {
    unsigned block, phase, clock;
    short thread;
    How how;
    Place place;
};

// What was done to an element last: two reads, because one may be by the thread that writes next.
struct Cell {
    Access write, reads[2];
};

// A byte of shared memory that a thread writes as another one did, with nothing between: a race, unless
// it leaves the value that it found, and never another one meanwhile, as a loop's counter does.
struct Rewrite {
    const char* address;
    char found;
    size_t element;
    Access before, now;
};

struct Writer {
    Place place;
    int block, thread;  // the linear index of each, or -1
};

// What no other object can name, and no access of a kernel may touch.
#define HIDDEN __attribute__((section("watcher"))) static

HIDDEN int findings = -1;
HIDDEN char secret[64] = {};
HIDDEN size_t bytes_loaded = 0;  // from the inputs
HIDDEN Place last_place = nullptr;
HIDDEN Cell *shared_cells = nullptr, *c_cells = nullptr;  // those of shared memory: of a cluster's blocks
HIDDEN Rewrite* rewrites = nullptr;  // of the running thread
HIDDEN size_t rewrite_count = 0;
HIDDEN constexpr size_t most_rewrites = 4096, most_bytes = 16;  // of one number or vector
HIDDEN Segment watched_shared = {};
HIDDEN char *dynamic_begin = nullptr, *dynamic_end = nullptr;  // of dynamic shared memory: what lies
HIDDEN char* dynamic_limit = nullptr;                          // beyond, up to the limit, is no block's
HIDDEN struct {
    const char* kind;
    Place one, other;
} known_findings[64] = {};
extern "C" const char __start_watcher[], __stop_watcher[];

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
    for (auto& each : known_findings) {
        if (each.kind == kind && each.one == one && each.other == other) return false;
        if (each.kind) continue;
        each = {kind, one, other};
        return true;
    }
    return false;
}

UNWATCHED inline Access access_of(const Fiber& thread, unsigned clock, Place place, How how)
{
    const Block& block = *thread.block;
    return {block.serial, unsigned(block.meetings), clock, short(&thread - block.fibers), how, place};
}

// Of a block of this cluster.
UNWATCHED inline size_t id_of(const Access& access)
{
    return (access.block - blocks[0].serial) * thread_count + access.thread;
}

UNWATCHED inline bool ordered(const Access& before, const Access& now)
{
    if (before.block < first_serial || (before.how == How::Atomic && now.how == How::Atomic)) return true;
    if (before.block == now.block && (before.phase != now.phase || before.thread == now.thread)) return true;
    return before.block >= blocks[0].serial && before.clock <= clocks_of(id_of(now))[id_of(before)];
}

// `before` and `now` are of one element, and nothing orders them; or before is a copy that has not landed.
UNWATCHED inline void tell_race(const char* array, size_t element, const Access& before,
                                const Access& now, const char* what)
{
    const bool copied = before.how == How::UnderWay ? ordered(before, now)
                                                    : before.how == How::Landed && what[0] == 'r';
    const char* kind = copied ? "unwaited" : "race";
    if (first_time(kind, before.place, now.place))
        tell(kind, now.place,
             ", \"array\": \"%s\", \"element\": %zu, \"other\": %zu, \"other_thread\": %d, "
             "\"blocks_ago\": %u, \"landed\": %s, \"what\": \"%s\"",
             array, element, size_t(before.place), before.thread, now.block - before.block,
             before.how == How::Landed ? "true" : "false", what);
}

UNWATCHED inline void tell_rewrite(const Rewrite& one)
{
    if (*one.address != one.found)
        tell_race("shared", one.element, one.before, one.now, "write after write");
}

// address: of a byte in shared memory.
UNWATCHED inline void note(Cell& cell, const Access& now, bool writes, const char* array, size_t element,
                           const char* address = nullptr)
{
    const Access& before = cell.write;
    if (address && writes)
        for (size_t i = rewrite_count; i && i + most_bytes > rewrite_count; --i)
            if (rewrites[i - 1].address == address) tell_rewrite(rewrites[i - 1]);
    if (before.how == How::UnderWay || !ordered(before, now)) {
        const bool plain = before.how == How::Plain && now.how == How::Plain;
        if (address && writes && plain && rewrite_count < most_rewrites)
            rewrites[rewrite_count++] = {address, *address, element, before, now};
        else
            tell_race(array, element, before, now, writes ? "write after write" : "read after write");
    }
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

// Called when the running thread has written all that it has noted.
UNWATCHED inline void tell_rewrites()
{
    for (; rewrite_count; --rewrite_count) tell_rewrite(rewrites[rewrite_count - 1]);
}

// The cells from this one on, of the shared memory of a block of the cluster, without what is left of an
// earlier block; null if the address lies in none. Ends the run beyond the end of dynamic shared memory.
UNWATCHED inline Cell* cells_at(const char* address, size_t bytes, bool writes, Place place)
{
    const auto begin = (const char*)watched_shared.begin;
    for (size_t rank = 0; rank < cluster_size; ++rank) {
        const bool there = &blocks[rank] == resident;
        const char* memory = there ? begin : (const char*)blocks[rank].shared;
        if (!memory || address < memory || address >= memory + watched_shared.bytes) continue;
        const char* local = begin + (address - memory);
        if (dynamic_end < local + bytes && local < dynamic_limit && local >= dynamic_begin) {
            tell("outside", place, ", \"array\": \"shared\", \"element\": %zd, \"writes\": %s",
                 (local < dynamic_end ? local + bytes - 1 : local) - dynamic_begin,
                 writes ? "true" : "false");
            _exit(Trapped);
        }
        Cell* cells = shared_cells + rank * watched_shared.bytes + (address - memory);
        for (size_t i = 0; i < bytes; ++i)
            for (Access* each : {&cells[i].write, &cells[i].reads[0], &cells[i].reads[1]})
                if (each->block < blocks[0].serial) *each = {};
        return cells;
    }
    return nullptr;
}

// An access to shared memory, byte by byte. A read of a single byte is perhaps one of the guard that gcc
// gives an array of a class, which nobody writes.
UNWATCHED inline void note_shared(Cell* cells, const char* address, size_t bytes, bool writes,
                                  const Access& now)
{
    const size_t first = size_t(cells - shared_cells) % watched_shared.bytes;
    for (size_t i = 0; i < bytes; ++i) {
        if (!writes && bytes > 1 && !cells[i].write.block && first_time("unwritten", now.place, nullptr))
            tell("unwritten", now.place, ", \"array\": \"shared\", \"element\": %zu", i);
        note(cells[i], now, writes, "shared", first, address + i);
    }
}

// A copy that is issued has perhaps written at once. When it has landed, it is a write of its thread.
UNWATCHED void note_copy(const Copy& copy, const Fiber& thread, bool landed)
{
    Cell* cells = cells_at(copy.to, copy.bytes, true, copy.place);
    if (!cells) return watch(copy.to, copy.bytes, true, copy.place);
    if (!landed)
        return note_shared(cells, copy.to, copy.bytes, true,
                           access_of(thread, copy.clock, copy.place, How::UnderWay));
    const unsigned clock = copy.event ? copy.clock : own_clock();
    const Access write = access_of(thread, clock, copy.place, How::Landed);
    for (size_t i = 0; i < copy.bytes; ++i) cells[i].write = write;
}

UNWATCHED inline void note_c(size_t element, bool writes, const Access& now)
{
    Cell& cell = c_cells[element];
    if (!writes && !cell.write.block && now.how != How::Atomic && first_time("unwritten", now.place, nullptr))
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

// Whether an access is to the watcher's own memory, which only a kernel finds that looks for it. The
// runtime's inline functions read `current` within the kernel.
UNWATCHED inline bool is_own(const char* address, bool writes)
{
    const auto within = [address](const void* begin, size_t bytes) UNWATCHED {
        return size_t(address - static_cast<const char*>(begin)) < bytes;
    };
    return within(__start_watcher, __stop_watcher - __start_watcher) ||
           (writes && within(&current, sizeof current)) ||
           within(rewrites, most_rewrites * sizeof(Rewrite)) ||
           within(shared_cells, 16 * watched_shared.bytes * sizeof(Cell)) ||
           within(c_cells, C.bytes / C.element_bytes * sizeof(Cell));
}

UNWATCHED void watch(const void* where, size_t bytes, bool writes, Place place, bool atomic)
{
    if (!c_cells || !current) return;
    const char* address = static_cast<const char*>(where);
    if (size_t(address - (const char*)stacks.begin) < stacks.bytes) return;  // a variable of a thread
    if (is_own(address, writes)) {
        tell("crash", place, "");
        _exit(Trapped);
    }
    const Access now = access_of(*current, own_clock(), place, atomic ? How::Atomic : How::Plain);
    last_place = place;
    if (Cell* cells = cells_at(address, bytes, writes, place)) return note_shared(cells, address, bytes, writes, now);
    for (const Array& array : arrays)
        if (note_array(array, address, bytes, writes, now)) return;
}

// Of a copy that a thread issued earlier.
UNWATCHED void note_write(const void* where, size_t bytes, const Fiber& thread, unsigned clock, Place place)
{
    const Access now = access_of(thread, clock, place, How::Plain);
    for (const Array& array : arrays)
        if (note_array(array, static_cast<const char*>(where), bytes, true, now)) return;
}

[[noreturn]] UNWATCHED void tell_misuse(const char* words, Place place)
{
    tell("misuse", place, ", \"words\": \"%s\"", words);
    _exit(Trapped);
}

[[noreturn]] UNWATCHED void tell_misaligned(const char* type, unsigned bytes, Place place)
{
    tell("misaligned", place, ", \"type\": \"%s\", \"bytes\": %u", type, bytes);
    _exit(Trapped);
}

UNWATCHED void watch_atomic(const void* address, size_t bytes, Place place)
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

// Before anything of the kernel's object can run, if only a constructor.
UNWATCHED inline void take_secret()
{
    if (read(STDIN_FILENO, secret, sizeof secret - 1) < 0) _exit(Unusable);
}

__attribute__((section(".preinit_array"), used)) static void (*const first)() = take_secret;

// Called before the kernel runs.
UNWATCHED inline void start_watching()
{
    findings = atoi(getenv("WATCH_FINDINGS"));
    setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash loses no line that the kernel printed
    watched_shared = shared_memory();
    shared_cells = static_cast<Cell*>(calloc(16 * watched_shared.bytes + 1, sizeof(Cell)));
    rewrites = static_cast<Rewrite*>(calloc(most_rewrites, sizeof(Rewrite)));
    look_back = tell_rewrites;
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
    FILE* file = fopen("writers", "wb");
    for (size_t i = 0; i < C.bytes / C.element_bytes; ++i) {
        const Access& last = c_cells[i].write;
        const Writer writer = {last.place, int(last.block) - 1, last.block ? last.thread : -1};
        fwrite(&writer, sizeof writer, 1, file);
    }
    fclose(file);
    fprintf(file = fopen("loads", "wb"), "%zu", bytes_loaded / arrays[0].element_bytes);
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

// Called when all is written: nothing of the kernel's object runs after it.
UNWATCHED inline void tell_end()
{
    tell("end", nullptr, ", \"secret\": \"%s\"", secret);
    _exit(0);
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
    unsigned char log_alignment;
};

}  // namespace cuda_on_cpu

HOOK __ubsan_handle_out_of_bounds_abort(cuda_on_cpu::OutOfBounds* data, long index)
{
    cuda_on_cpu::tell("index", HERE, ", \"index\": %d, \"type\": \"%s\", \"column\": %u", int(index),
                      data->array->name, data->location.column);
    _exit(cuda_on_cpu::Trapped);
}

HOOK __ubsan_handle_type_mismatch_v1_abort(cuda_on_cpu::Mistyped* data, void*)
{
    cuda_on_cpu::tell_misaligned(data->type->name, 1u << data->log_alignment, HERE);
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

// ---- What emulation.py has the kernel call in place of the C library -----------------------------


#define COPY(name)                                                                                  \
    extern "C" UNWATCHED __attribute__((used)) void* watched_##name(void* to, const void* from, size_t bytes) \
    {                                                                                               \
        if (bytes) cuda_on_cpu::watch(from, bytes, false, HERE);                                                      \
        if (bytes) cuda_on_cpu::watch(to, bytes, true, HERE);                                                         \
        return name(to, from, bytes);                                                               \
    }
COPY(memcpy)
COPY(memmove)

extern "C" UNWATCHED __attribute__((used)) void* watched_memset(void* to, int value, size_t bytes)
{
    if (bytes) cuda_on_cpu::watch(to, bytes, true, HERE);
    return memset(to, value, bytes);
}
