// Launches one kernel over one grid on the CPU (see cuda_on_cpu.h) and writes its C back.
//
//     driver GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z SHARED_BYTES ELEMENTS... DIMENSIONS... FILES...
//
// There is one of ELEMENTS and FILES for each array, the inputs first and C last. -DARRAYS and
// -DDIMENSIONS say how many of each the kernel takes.
// The files hold raw little-endian ELEMENTs in row-major order. C is read and then overwritten, so
// the caller decides the value of elements that the kernel does not write.
//
// Exit codes: 0 done, 2 unusable arguments, 3 a trapped access, 4 a divergent barrier, or that of a
// sanitizer. For all but 0, a line on stderr says why.
//
// Compile with -include cuda_on_cpu.h -DKERNEL_SOURCE="\"/path/x.cu\"" -DKERNEL=function
// -DELEMENT=float -DARRAYS=3 -DDIMENSIONS=3 -DMOST_STATIC_SHARED=49152, and
// -DDYNAMIC_SHARED="\"name\"" where the kernel declares `extern __shared__ T name[]`.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <initializer_list>

// With this declaration before its definition, the kernel compiles with no other signature.
#if ARRAYS == 3 && DIMENSIONS == 3
extern "C" void KERNEL(const ELEMENT* A, const ELEMENT* B, ELEMENT* C, int m, int n, int k);
#elif ARRAYS == 2 && DIMENSIONS == 2
extern "C" void KERNEL(const ELEMENT* A, ELEMENT* C, int m, int n);
#else
#error "a kernel takes three matrices and three dimensions, or two of each"
#endif

namespace cuda_on_cpu {

// Address space on either side of an array that nobody may touch. It costs no memory.
constexpr size_t fence_bytes = 64 << 20;

struct Array {
    const char* name;
    size_t bytes = 0;
    ELEMENT* data = nullptr;

    void allocate(size_t elements);
};

#if ARRAYS == 3
Array A{"A"}, B{"B"}, C{"C"}, *const arrays[] = {&A, &B, &C};
int m, n, k, *const dimensions[] = {&m, &n, &k};

void call_kernel() { KERNEL(A.data, B.data, C.data, m, n, k); }
#else
Array A{"A"}, C{"C"}, *const arrays[] = {&A, &C};
int m, n, *const dimensions[] = {&m, &n};

void call_kernel() { KERNEL(A.data, C.data, m, n); }
#endif

#if defined(WATCH)
}  // namespace cuda_on_cpu
#include "alone.h"
#include "watch.h"
namespace cuda_on_cpu {
#endif

// `dynamic`: bytes of the array for all dynamic shared memory, if there is one.
void limit_static_shared(size_t dynamic)
{
    const size_t bytes = shared_memory().bytes - dynamic;
    if (bytes > MOST_STATIC_SHARED)
        (Line() << bytes << " bytes of static shared memory a block, over " << MOST_STATIC_SHARED
                << ": make its tiles smaller, or declare it extern __shared__").leave(Unusable);
}

#if defined(DYNAMIC_SHARED)
// The most that a block of compute capability 9.0 can have, under the name that the kernel uses.
alignas(128) thread_local char dynamic_shared[227 << 10] __asm__(DYNAMIC_SHARED);

void limit_shared(size_t bytes)
{
    if (bytes > sizeof dynamic_shared)
        (Line() << "a block has no " << bytes << " bytes of shared memory").leave(Unusable);
    limit_static_shared(sizeof dynamic_shared);
#if defined(WATCH)
    dynamic_begin = dynamic_shared;
    dynamic_end = dynamic_shared + bytes;
    dynamic_limit = dynamic_shared + sizeof dynamic_shared;
#endif
#if defined(__SANITIZE_ADDRESS__)
    ASAN_POISON_MEMORY_REGION(dynamic_shared + bytes, sizeof dynamic_shared - bytes);
#endif
}
#else
void limit_shared(size_t) { limit_static_shared(0); }
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
void Array::allocate(size_t elements)
{
    bytes = elements * sizeof(ELEMENT);
    data = static_cast<ELEMENT*>(malloc(bytes));
}

void catch_traps() {}  // they are the sanitizer's
#else
// The last byte of the array touches a fence; the first byte does only if the array fills its pages.
void Array::allocate(size_t elements)
{
    const size_t page_bytes = sysconf(_SC_PAGESIZE);
    bytes = elements * sizeof(ELEMENT);
    const size_t room = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    void* fence = mmap(nullptr, fence_bytes + room + fence_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char* begin = static_cast<char*>(fence) + fence_bytes;
    if (fence == MAP_FAILED || mprotect(begin, room, PROT_READ | PROT_WRITE) != 0)
        (Line() << "no memory for " << name).leave(Unusable);
    data = reinterpret_cast<ELEMENT*>(begin + room - bytes);
}

void report_trap(int, siginfo_t* signal, void*)
{
    Line line;
    line << "invalid access in block " << blockIdx << ", thread " << threadIdx << ": ";
    const auto address = reinterpret_cast<uintptr_t>(signal->si_addr);
    for (const Array* array : arrays) {
        const auto begin = reinterpret_cast<uintptr_t>(array->data), end = begin + array->bytes;
        if (end <= address && address < end + fence_bytes)
            (line << address - end << " bytes past the end of " << array->name).leave(Trapped);
        if (begin - fence_bytes <= address && address < begin)
            (line << begin - address << " bytes before " << array->name).leave(Trapped);
    }
    (line << "near no array, or a misaligned vector").leave(Trapped);
}

void catch_traps()
{
    static char stack[64 << 10];  // the thread's own stack may have overflowed
    stack_t alternative = {};
    alternative.ss_sp = stack;
    alternative.ss_size = sizeof stack;
    sigaltstack(&alternative, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = report_trap;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
}
#endif

void read_array(const Array& array, const char* path)
{
    FILE* file = fopen(path, "rb");
    if (!file) (Line() << "cannot open " << path).leave(Unusable);
    if (fread(array.data, 1, array.bytes, file) != array.bytes || fgetc(file) != EOF)
        (Line() << path << " does not hold the " << array.bytes << " bytes of " << array.name)
            .leave(Unusable);
    fclose(file);
}

void write_array(const Array& array, const char* path)
{
    FILE* file = fopen(path, "r+b");  // reuses the file's room, so that the disk cannot be full
    if (!file || fwrite(array.data, 1, array.bytes, file) != array.bytes || fclose(file) != 0)
        (Line() << "cannot write " << path).leave(Unusable);
}

void run(int count, char** arguments)
{
    constexpr int expected = 1 + 7 + DIMENSIONS + 2 * ARRAYS;
    if (count != expected)
        (Line() << "expected " << expected - 1 << " arguments: the grid's 3 extents, the block's 3,"
                << " bytes of shared memory, elements, dimensions, files").leave(Unusable);
    char** next = arguments + 1;
    const auto number = [&next] { return strtoul(*next++, nullptr, 10); };
    dim3 grid, block;
    for (dim3* extents : {&grid, &block})
        for (unsigned* extent : {&extents->x, &extents->y, &extents->z}) *extent = number();
    limit_shared(number());
    for (Array* array : arrays) array->allocate(number());
    for (int* dimension : dimensions) *dimension = number();
    for (const Array* array : arrays) read_array(*array, *next++);
#if defined(WATCH)
    start_watching();
    stay_alone();
    launch(grid, block, call_kernel);
    stop_watching();
#else
    catch_traps();
    launch(grid, block, call_kernel);
#endif
    write_array(C, arguments[count - 1]);
}

}  // namespace cuda_on_cpu

#if defined(__SANITIZE_ADDRESS__)
extern "C" const char* __asan_default_options() { return "detect_leaks=0:redzone=2048"; }
#elif defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "halt_on_error=1:atexit_sleep_ms=0"; }
#endif

int main(int count, char** arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for a kernel whose launcher is gone
    cuda_on_cpu::run(count, arguments);
}

#include KERNEL_SOURCE
