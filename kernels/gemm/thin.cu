// C = A·B for an A of few rows: B is read once, at the rate of the memory.
//
// Words       strip        TILE_N columns of B and C
//             slab         rows of B that a block has in registers at once, and those columns of A
//             group        threads that have a strip's columns, four columns each
//             share, part  as in streamed.cu, with strips for tiles
//
// Idea        With m rows of A there are 2m operations for each element of B, four bytes. While these are
//             few, no tile makes the product faster: what counts is that enough of B is under way at any
//             time. So B goes from memory to registers in loads of 16 bytes, past shared memory and L1. A
//             block's groups share out the rows of a slab. A thread has AHEAD rows of it; as soon as it has
//             used four, it loads the same four of the next slab.
//
//                        TILE_N columns                     four rows of B for a group, and so on;
//                      ┌────┬────┬────┐ ─┐                  then the groups' sums are added up
//               A      │████│████│████│  │ slab
//             ┌─┬─┬─┐  │░░░░│░░░░│░░░░│  │     █ group 0
//             └─┴─┴─┘  ├────┼────┼────┤ ─┘     ░ group 1
//              slabs   │████│████│████│
//                      │░░░░│░░░░│░░░░│
//                      └────┴────┴────┘
//
//             All threads of a group need the same elements of A. A slab of A lies in shared memory, and a
//             thread takes four of a row at once, for its four rows of B. The next slab is copied meanwhile.
//
//             Few strips are for few blocks, so RESIDENT·MULTIPROCESSORS blocks get equal shares of all
//             slabs of all strips, as in streamed.cu. A block that has a strip's last slab adds what others
//             have left of it, always in the same order. Its groups share out what is left, as they do B.
//
// Traffic     Global memory: B once, A once per strip. A block writes and reads TILE_M·TILE_N sums at most
//             once more.
// Removes     The way of B through shared memory, and blocks without work where C is small.
// Limit       The memory's bandwidth.
#include "../async_copy.cuh"
#include "../stream_k.cuh"
#include "fours.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;     // rows and columns of C of a strip
    static constexpr int threads = THREADS;                    // of a block
    static constexpr int fours = tile_n / 4;                   // threads of a group
    static constexpr int groups = threads / fours;             // of threads that share out the rows of B
    static constexpr int quads = AHEAD / 4;                    // of rows that a thread has under way
    static constexpr int slab = AHEAD * groups;                // rows of B of a slab
    static constexpr int rows = tile_m < 4 ? tile_m : 4;       // of C whose groups' sums are added at once
    static constexpr int resident = RESIDENT;                  // blocks of a multiprocessor
    static constexpr int blocks = resident * MULTIPROCESSORS;  // blocks of the grid
};

using T = Tiling;

static_assert(T::tile_n % 4 == 0 && T::threads % T::fours == 0, "threads cover a strip's rows");
static_assert(T::quads * 4 == AHEAD, "a thread takes four columns of A at once");
static_assert(T::tile_m % T::rows == 0 && T::rows * T::tile_n <= T::threads, "a thread for each total");

struct Shares : EachBlock {
    static constexpr int blocks = T::blocks, threads = T::threads, least = LEAST;
    static constexpr int heavy_cost = 1, light_cost = 1;  // of a slab: all strips are alike
};

using Stream = StreamK<Shares>;

union Shared {
    float a[2][T::tile_m][T::slab];              // two slabs of A: one is copied, one is used
    float sums[T::rows][T::groups][T::tile_n];  // after the last slab
};

using ThreadSums = float[T::tile_m][4];

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[T::blocks];
__device__ float partial_sums[T::blocks][T::tile_m * T::tile_n];

// Copy a slab of A, from column `start` on; what is not inside of A, or from column `end` on, is zeros.
__device__ __forceinline__ void copy_slab(const float* A, int m, int k, unsigned start, unsigned end,
                                          float (*slab)[T::slab])
{
    constexpr unsigned count = T::tile_m * T::slab;
#pragma unroll 4  // more would keep many addresses in registers
    for (unsigned done = 0; done < count; done += T::threads) {
        const unsigned e = done + threadIdx.x, i = e / T::slab, p = e % T::slab;
        if (count % T::threads == 0 || e < count)
            copy_async<4>(&slab[i][p], A + (size_t)i * k + start + p, i < (unsigned)m && start + p < end);
    }
    commit_copies();
}

// Multiply slabs `begin` to before `end_slab` of a strip, rows of B from `end` on being zeros. A thread has
// four columns, from number `first` of the strip on and `apart` columns apart: where rows begin at 16 bytes
// neighbours, otherwise those of which a group reads neighbouring words.
template <int apart>
__device__ __forceinline__ void multiply(const float* A, const float* B, int m, int n, int k, int left,
                                         int group, const Stream::Part& part, unsigned end,
                                         ThreadSums& sum, Shared& shared)
{
    float4 b[T::quads][4];
    auto load = [&](int q, unsigned start) {
#pragma unroll
        for (int u = 0; u < 4; u++) {
            const unsigned p = (q * T::groups + group) * 4 + u;
            b[q][u] = load_once<apart>(B + (size_t)(start + p) * n, start + p < end ? left : 0);
        }
    };
    auto add = [&](int q, const float(&slab)[T::tile_m][T::slab]) {
#pragma unroll
        for (int i = 0; i < T::tile_m; i++) {
            const float4 four = *(const float4*)&slab[i][(q * T::groups + group) * 4];
            const float a[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
            for (int u = 0; u < 4; u++) {
                sum[i][0] += a[u] * b[q][u].x, sum[i][1] += a[u] * b[q][u].y;
                sum[i][2] += a[u] * b[q][u].z, sum[i][3] += a[u] * b[q][u].w;
            }
        }
    };
    unsigned start = part.begin * T::slab;
#pragma unroll
    for (int q = 0; q < T::quads; q++) load(q, start);
    copy_slab(A, m, k, start, end, shared.a[part.begin % 2]);
    for (int slab = part.begin; slab < part.end; slab++) {
        wait_for_copies<0>();
        __syncthreads();  // the slab is there, and all threads are done with the one before
        start += T::slab;
        if (slab + 1 < part.end) copy_slab(A, m, k, start, end, shared.a[(slab + 1) % 2]);
#pragma unroll
        for (int q = 0; q < T::quads; q++) add(q, shared.a[slab % 2]), load(q, start);
    }
}

// Add to a thread's sums what earlier stretches have left of the strip. A group takes every GROUPSth stretch.
template <int apart>
__device__ __forceinline__ void add_left_sums(ThreadSums& sum, int group, int first,
                                              const Stream::Schedule& schedule, const Stream::Part& part)
{
    const int earliest = schedule.first_stretch(part);
    wait_for_sums<T::threads>(flags, earliest, schedule.stretch - 1);
    for (int stretch = earliest + group; stretch < schedule.stretch; stretch += T::groups)
#pragma unroll
        for (int e = 0; e < T::tile_m * 4; e++)
            sum[e / 4][e % 4] += partial_sums[stretch][e / 4 * T::tile_n + first + e % 4 * apart];
}

// Add up the sums of all groups, some rows of C at a time, and hand `take` each row, column and total.
template <int apart, class Take>
__device__ __forceinline__ void add_groups(const ThreadSums& sum, int group, int first, Shared& shared,
                                           Take take)
{
#pragma unroll
    for (int top = 0; top < T::tile_m; top += T::rows) {
        __syncthreads();  // all threads are done with the slabs of A, or with the rows before
#pragma unroll
        for (int e = 0; e < T::rows * 4; e++)
            shared.sums[e / 4][group][first + e % 4 * apart] = sum[top + e / 4][e % 4];
        __syncthreads();
        const int row = threadIdx.x / T::tile_n, column = threadIdx.x % T::tile_n;
        if (row >= T::rows) continue;
        float total = 0;
#pragma unroll 8
        for (int g = 0; g < T::groups; g++) total += shared.sums[row][g][column];
        take(top + row, column, total);
    }
}

// Compute a part of a strip. The part with the strip's last slab adds what earlier stretches have left, and
// is stored; any other part is left for another block.
template <int apart>
__device__ __forceinline__ void run(const float* A, const float* B, float* C, int m, int n, int k,
                                    const Stream::Schedule& schedule, const Stream::Part& part,
                                    Shared& shared)
{
    const int group = threadIdx.x / T::fours, first = threadIdx.x % T::fours * (apart == 1 ? 4 : 1);
    const int corner = part.tile * T::tile_n;
    const bool leaves = schedule.leaves(part);
    const unsigned end = leaves ? part.end * T::slab : k;
    ThreadSums sum = {};
    multiply<apart>(A, B + corner + first, m, n, k, n - corner - first, group, part, end, sum, shared);
    if (!leaves) add_left_sums<apart>(sum, group, first, schedule, part);
    add_groups<apart>(sum, group, first, shared, [&](int row, int column, float total) {
        if (leaves)
            partial_sums[schedule.stretch][row * T::tile_n + column] = total;
        else if (row < m && column < n - corner)
            C[(size_t)row * n + corner + column] = total;
    });
    if (leaves) announce(&flags[schedule.stretch]);
}

extern "C" __global__ void __launch_bounds__(T::threads, T::resident)
thin(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     int m, int n, int k)
{
    __shared__ __align__(16) Shared shared;
    Stream::each_part((n - 1) / T::tile_n + 1, 0, (k - 1) / T::slab + 1,
                      [&](const Stream::Schedule& schedule, const Stream::Part& part) {
        if (rows_hold_fours(B, B, n))
            run<1>(A, B, C, m, n, k, schedule, part, shared);
        else
            run<T::fours>(A, B, C, m, n, k, schedule, part, shared);
    });
}
