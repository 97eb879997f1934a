// Launches the kernels of a product on the CPU (see cuda_on_cpu.h) and writes C back.
//
//     driver LAUNCHES... PARTS... MAPS... ELEMENTS... DIMENSIONS... FILES... [ALPHA BETA FILE]
//
// A launch is GRID_X GRID_Y GRID_Z BLOCK_X BLOCK_Y BLOCK_Z SHARED_BYTES CLUSTER, one for each function.
// A part of the workspace has its bytes. A tensor map is POINTER ELEMENT_BYTES SWIZZLE RANK, then its
// extents, its strides in bytes and its box, the contiguous dimension last; pointers count through the
// matrices and then the parts. There is one of ELEMENTS and FILES for each matrix, the inputs first and
// C last.
// Kernels with an epilogue take ALPHA, BETA and the FILE of D; without these alpha is 1, beta 0, and D is C.
// The files hold raw little-endian elements in row-major order. C is read and then overwritten, so
// the caller decides the value of elements that the kernels do not write.
//
// Exit codes: 0 done, 2 unusable arguments, 3 a trapped access, 4 threads that wait for ever, 5 an
// instruction misused. For all but 0, a line on stderr says why.
//
// Compile with -include cuda_on_cpu.h -DKERNEL_SOURCE="\"/path/x.cu\"" (but with -DWATCH the kernels are an
// object of their own, which knows no name of what watches them) -DFUNCTIONS=split,multiply
// -DMATRICES={"A",4},{"B",4},{"C",4} -DDIMENSIONS=3 -DPARTS=0 -DMAPS=0
// -DPARAMETERS="const float* A, ..." -DARGUMENTS=arrays[0],... -DMOST_STATIC_SHARED=49152, and
// -DDYNAMIC_SHARED="\"name\"" where the kernels declare `extern __shared__ T name[]`.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

#include <initializer_list>
#include <vector>

#include "cuda.h"

// With this declaration before their definitions, the kernels compile with no other signature.
using Function = void(PARAMETERS);
extern "C" {
Function FUNCTIONS;
}

// Here, where a kernel may have a name that the runtime has too.
static Function* const functions[] = {FUNCTIONS};

namespace cuda_on_cpu {

// Address space on either side of an array that nobody may touch. It costs no memory.
constexpr size_t fence_bytes = 64 << 20;

struct Array {
    const char* name;
    size_t element_bytes;
    size_t bytes = 0;
    char* data = nullptr;

    void allocate(size_t elements);

    template <typename Element>
    operator Element*() const
    {
        return reinterpret_cast<Element*>(data);
    }
};

Array arrays[] = {MATRICES}, &C = arrays[sizeof arrays / sizeof *arrays - 1];
int dimensions[DIMENSIONS];
Array D;
Array parts[PARTS + 1];  // of the workspace, and D
CUtensorMap maps[MAPS + 1];
Function* launched;
// Factors of a product alpha·A·B + beta·C, for kernels that take them.
double alpha = 1, beta = 0;

double number_of(const char* variable, double unset)
{
    const char* text = getenv(variable);
    return text ? atof(text) : unset;
}

void call_kernel() { launched(ARGUMENTS); }

#if defined(WATCH)
}  // namespace cuda_on_cpu
#include "watch.h"
namespace cuda_on_cpu {
#endif

// `dynamic`: bytes of the array for all dynamic shared memory, if there is one.
void limit_static_shared(size_t dynamic)
{
    const size_t bytes = shared_memory().bytes - dynamic;
    if (bytes > MOST_STATIC_SHARED + 64)  // g++ puts guards beside arrays of a class, such as half
        (Line() << bytes << " bytes of static shared memory a block, over " << MOST_STATIC_SHARED
                << ": make its tiles smaller, or declare it extern __shared__").leave(Unusable);
}

#if defined(DYNAMIC_SHARED)
// The most that a block of compute capability 9.0 can have, under the name that the kernel uses.
alignas(1024) thread_local char dynamic_shared[227 << 10] __asm__(DYNAMIC_SHARED);

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
}
#else
void limit_shared(size_t) { limit_static_shared(0); }
#endif

// The last byte of the array touches a fence; the first byte does only if the array fills its pages.
void Array::allocate(size_t elements)
{
    const size_t page_bytes = sysconf(_SC_PAGESIZE);
    bytes = elements * element_bytes;
    const size_t room = (bytes + page_bytes - 1) / page_bytes * page_bytes;
    void* fence = mmap(nullptr, fence_bytes + room + fence_bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char* begin = static_cast<char*>(fence) + fence_bytes;
    if (fence == MAP_FAILED || mprotect(begin, room, PROT_READ | PROT_WRITE) != 0)
        (Line() << "no memory for " << name).leave(Unusable);
    data = begin + room - bytes;
}

void report_if_near(Line& line, uintptr_t address, const Array& memory)
{
    const auto begin = reinterpret_cast<uintptr_t>(memory.data), end = begin + memory.bytes;
    if (end <= address && address < end + fence_bytes)
        (line << address - end << " bytes past the end of " << memory.name).leave(Trapped);
    if (begin - fence_bytes <= address && address < begin)
        (line << begin - address << " bytes before " << memory.name).leave(Trapped);
}

void report_trap(int, siginfo_t* signal, void*)
{
    Line line;
    line << "invalid access in block " << blockIdx << ", thread " << threadIdx << ": ";
    const auto address = reinterpret_cast<uintptr_t>(signal->si_addr);
    for (const Array& array : arrays) report_if_near(line, address, array);
    for (size_t i = 0; i < PARTS; ++i) report_if_near(line, address, parts[i]);
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

// The numbers of the command line, one after the other, and then the files.
struct Arguments {
    char **next, **end;

    char* text()
    {
        if (next == end) (Line() << "expected more arguments: see the top of driver.cpp").leave(Unusable);
        return *next++;
    }

    size_t number() { return strtoul(text(), nullptr, 10); }
};

struct Launch {
    dim3 grid, block;
    size_t shared_bytes, cluster;

    explicit Launch(Arguments& given)
    {
        for (dim3* extents : {&grid, &block})
            for (unsigned* extent : {&extents->x, &extents->y, &extents->z}) *extent = given.number();
        shared_bytes = given.number();
        cluster = given.number();
    }
};

// A tensor map with the contiguous dimension first, and in place of its pointer that one's number.
CUtensorMap read_map(Arguments& given)
{
    CUtensorMap map = {};
    map.data = reinterpret_cast<char*>(given.number());
    map.element_bytes = given.number();
    map.swizzle = given.number();
    map.rank = given.number();
    for (size_t d = map.rank; d-- > 0;) map.extents[d] = given.number();
    for (size_t d = map.rank; d-- > 1;) map.strides[d] = given.number();
    for (size_t d = map.rank; d-- > 0;) map.box[d] = given.number();
    return map;
}

void point(CUtensorMap& map)
{
    constexpr size_t matrices = sizeof arrays / sizeof *arrays;
    const auto which = reinterpret_cast<size_t>(map.data);
    map.data = which < matrices ? arrays[which].data : parts[which - matrices].data;
    if (reinterpret_cast<uintptr_t>(map.data) % 16)
        (Line() << "a tensor map wants memory at a multiple of 16 bytes").leave(Unusable);
}

#if defined(WATCH)
void start() { start_watching(); }
#else
void start() { catch_traps(); }
#endif

void run(Arguments given)
{
    Launch* launches[sizeof functions / sizeof *functions];
    for (Launch*& each : launches) each = new Launch(given);
    for (size_t i = 0; i < PARTS; ++i) {
        parts[i] = {"the workspace", 1};
        parts[i].allocate((given.number() + 15) / 16 * 16);
        memset(parts[i].data, 0xFF, parts[i].bytes);  // NaN, until a launch writes it
    }
    for (size_t i = 0; i < MAPS; ++i) maps[i] = read_map(given);
    for (Array& array : arrays) array.allocate(given.number());
    for (int& dimension : dimensions) dimension = given.number();
    const char* file = nullptr;
    for (const Array& array : arrays) read_array(array, file = given.text());
    alpha = number_of("ALPHA", 1);
    beta = number_of("BETA", 0);
    D = C;
    if (given.next != given.end) {
        alpha = strtod(given.text(), nullptr), beta = strtod(given.text(), nullptr);
        D = {"D", C.element_bytes};
        D.allocate(C.bytes / C.element_bytes);
        read_array(D, given.text());
    }
    parts[PARTS] = D;
    for (size_t i = 0; i < MAPS; ++i) point(maps[i]);
    start();
    const auto launch_all = [&] {
        for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
            limit_shared(launches[i]->shared_bytes);
            launched = functions[i];
#if defined(WATCH)
            start_clocks(launches[i]->block, launches[i]->cluster);
#endif
            launch(launches[i]->grid, launches[i]->block, launches[i]->cluster, call_kernel);
        }
    };
#if defined(WATCH)
    const std::vector<char> before(C.data, C.data + C.bytes);
    launch_all();
    stop_watching();
    write_array(C, file);
    if (getenv("WATCH_ONCE")) return tell_end();
    FILE* again = fopen("again", "wb");
    begin_again(before.data());
    launch_all();
    if (fwrite(C.data, 1, C.bytes, again) != C.bytes || fclose(again) != 0) _exit(Unusable);
    tell_end();
#else
    launch_all();
    write_array(C, file);
#endif
}

}  // namespace cuda_on_cpu

int main(int count, char** arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody waits for a kernel whose launcher is gone
    cuda_on_cpu::run({arguments + 1, arguments + count});
}

#if !defined(WATCH)
#include KERNEL_SOURCE
#endif
