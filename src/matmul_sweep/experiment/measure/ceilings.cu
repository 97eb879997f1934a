// The highest rates of a card, one kernel per ceiling: multiply-adds on the vector units and on the
// tensor cores, and a memory copy. No product can be faster than its units multiply or than memory
// delivers its matrices. Which of the two limits it depends on its arithmetic intensity, operations
// per byte (the roofline).
//
// A multiply-add waits several cycles for the one before it in its chain. So each thread keeps CHAINS
// separate chains, and the 16 warps of a multiprocessor fill the remaining gaps. Everything stays in
// registers. The operands are ones, so each multiply-add adds 1 to a sum, and in the end a thread has
// the number of its multiply-adds. The host adds these up, so it counts the work that was computed,
// not the work that was intended. Ones also draw little power, so this is the ceiling of the units;
// with full mantissas the power limit may be lower.
constexpr int THREADS = 256, RESIDENT = 2;  // threads per block, blocks per multiprocessor
constexpr int CHAINS = 8;

template <typename Element>
__device__ __forceinline__ void multiply_add(Element* sums, int steps, Element one)
{
    // Each chain starts at a different value: equal values in a thread would be computed only once,
    // and equal values in a warp on other units, if there are any.
    Element chain[CHAINS];
    const int start = threadIdx.x;
    for (int i = 0; i < CHAINS; i++) chain[i] = -(start + i);
#pragma unroll 32
    for (int step = 0; step < steps; step++)
#pragma unroll
        for (int i = 0; i < CHAINS; i++) chain[i] = chain[i] * one + one;
    Element sum = 0;
    for (int i = 0; i < CHAINS; i++) sum += chain[i] + (start + i);
    sums[blockIdx.x * THREADS + threadIdx.x] = sum;
}

// `one` is an argument, so that the compiler cannot know the result.
extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
multiply_add_float32(float* sums, int steps, float one)
{
    multiply_add(sums, steps, one);
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
multiply_add_float64(double* sums, int steps, double one)
{
    multiply_add(sums, steps, one);
}

#if __CUDA_ARCH__ >= 900
// D += A·B by a warp, 16×16 times 16×8, all of A and B `one`: a lane holds four elements of D. The
// tensor cores of compute capability 9.0 reach their rate with this shape, not with 8.0's.
constexpr int HELD = 4, TENSOR_CHAINS = 4;
__device__ __forceinline__ void mma(double (&d)[HELD], double one)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
                 "{%4,%4,%4,%4,%4,%4,%4,%4}, {%4,%4,%4,%4}, {%0,%1,%2,%3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3]) : "d"(one));
}
#elif __CUDA_ARCH__ >= 800
// 8×4 times 4×8: two elements of D.
constexpr int HELD = 2, TENSOR_CHAINS = 8;
__device__ __forceinline__ void mma(double (&d)[HELD], double one)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%2}, {%0,%1};"
                 : "+d"(d[0]), "+d"(d[1]) : "d"(one));
}
#else
// Tensor cores that do not multiply in float64: the sums stay zero, which tells the host.
constexpr int HELD = 1, TENSOR_CHAINS = 1;
__device__ __forceinline__ void mma(double (&)[HELD], double) {}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
tensor_float64(double* sums, int steps, double one)
{
    double chain[TENSOR_CHAINS][HELD] = {};
#pragma unroll 4
    for (int step = 0; step < steps; step++)
#pragma unroll
        for (int i = 0; i < TENSOR_CHAINS; i++) mma(chain[i], one);
    double sum = 0;
    for (int i = 0; i < TENSOR_CHAINS; i++)
        for (int e = 0; e < HELD; e++) sum += chain[i][e];
    sums[blockIdx.x * THREADS + threadIdx.x] = sum;
}

// 16 bytes at a time, by neighbouring threads. Four loads are in flight before the first store,
// because memory answers after hundreds of cycles.
extern "C" __global__ void copy(const uint4* from, uint4* to, unsigned long long count)
{
    constexpr int AHEAD = 4;
    const unsigned long long threads = (unsigned long long)gridDim.x * blockDim.x;
    unsigned long long i = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    for (; i + (AHEAD - 1) * threads < count; i += AHEAD * threads) {
        uint4 held[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) held[j] = from[i + j * threads];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) to[i + j * threads] = held[j];
    }
    for (; i < count; i += threads) to[i] = from[i];
}
