// Behind a kernel's source: runs the kernel on the CPU and leaves in C, instead of the product, who
// wrote each element: the number of the one block that did, from 1; 0 where none did; -1 where more
// than one did.
//
// C has to hold NaN, and the grid one layer more in z than the kernel's, which is z = 0: what a
// block wrote is noted when the next one begins, the last time in layer 1.
//
// Compile with -DELEMENT=float, the type of C, -DOBSERVED=function -DNAMES=A,B,C,m,n,k: the names of its parameters.
#include <string.h>

static ELEMENT* owners;
static size_t running = 0;  // the number of the block that runs

static void note()
{
    ELEMENT* c = cuda_on_cpu::C;
    const size_t elements = cuda_on_cpu::C.bytes / sizeof(ELEMENT);
    if (!owners) owners = static_cast<ELEMENT*>(calloc(elements, sizeof(ELEMENT)));
    for (size_t i = 0; i < elements; ++i) {
        if (isnan(c[i])) continue;
        owners[i] = owners[i] == 0 ? ELEMENT(running) : ELEMENT(-1);
        c[i] = ELEMENT(NAN);
    }
}

// The first thread of a block comes when all of the block before have gone.
static bool kernel_runs()
{
    const size_t last = size_t(gridDim.x) * gridDim.y;
    const size_t number = 1 + blockIdx.x + gridDim.x * blockIdx.y + last * blockIdx.z;
    if (number != running && running <= last) {
        note();
        running = number;
        if (number > last) memcpy(cuda_on_cpu::C.data, owners, cuda_on_cpu::C.bytes);
    }
    return number <= last;
}

extern "C" __global__ void owners_of_c(PARAMETERS)
{
    if (kernel_runs()) OBSERVED(NAMES);
}
