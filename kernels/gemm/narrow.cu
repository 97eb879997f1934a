// C = A·B for a B of few columns: A is read once, at the rate of the memory.
//
// Words       slab         columns of A that a block has in registers at once, and those rows of B
//             share, part  as in streamed.cu; a tile is TILE_M rows and all columns of C
//
// Idea        As in thin.cu, the other way round: with n columns of B there are 2n operations for each element
//             of A, and what counts is that enough of A is under way. A warp has THREAD_M rows of A. Its
//             lanes share out a slab's columns, four each of every 128, so that a warp's load is 512 bytes
//             of a row. As soon as a thread has used its four columns of all rows, it loads those of the
//             next slab.
//
//                                      B  ┌───┐ ─┐            a warp has a slab's rows in lanes:
//                                         │   │  │ slab
//                                         ├───┤ ─┘            ┌────┬────┬────┬─   ─┬─────┐
//                                         │   │               │0000│1111│2222│ ... │31...│
//                    A     slab           └───┘               ├────┼────┼────┼─   ─┼─────┤
//                      ┌─────────┬──────  ┌───┐               │0000│1111│2222│ ... │31...│
//               warp 0 │░░░░░░░░░│        │ C │               └────┴────┴────┴─   ─┴─────┘
//               warp 1 │▒▒▒▒▒▒▒▒▒│        │   │
//                      └─────────┴──────  └───┘               then the lanes' sums are added up
//
//             A slab of B lies in shared memory, column by column: the four elements that go with a lane's
//             four of A lie side by side, and serve all of its rows. The next slab is copied meanwhile.
//
//             RESIDENT·MULTIPROCESSORS blocks get equal shares of all slabs of all tiles, as in thin.cu.
//
// Traffic     Global memory: A once, B once per tile. A block writes and reads a tile of sums at most once more.
// Removes     A tile's empty columns, and the way of A through shared memory.
// Limit       The memory's bandwidth.
#include "../async_copy.cuh"
#include "../stream_k.cuh"
#include "fours.cuh"

struct Tiling {
    static constexpr int tile_n = TILE_N;                      // columns of C
    static constexpr int thread_m = THREAD_M;                  // rows of C of a warp, and of each lane
    static constexpr int threads = THREADS;                    // of a block
    static constexpr int warps = threads / 32;                 // of a block
    static constexpr int tile_m = warps * thread_m;            // rows of C of a block
    static constexpr int steps = STEPS;                        // 128 columns of A each
    static constexpr int slab = 128 * steps;                   // columns of A of a slab
    static constexpr int sums = thread_m * tile_n;             // of a thread
    static constexpr int at_once = sums < 16 ? sums : 16;      // of those that lanes add up at once
    static constexpr int resident = RESIDENT;                  // blocks of a multiprocessor
    static constexpr int blocks = resident * MULTIPROCESSORS;  // blocks of the grid
};

using T = Tiling;

static_assert(T::threads % 32 == 0 && T::sums % T::at_once == 0, "a lane for each total");

struct Shares : EachBlock {
    static constexpr int blocks = T::blocks, threads = T::threads, least = LEAST;
    static constexpr int heavy_cost = 1, light_cost = 1;  // of a slab: all tiles are alike
};

using Stream = StreamK<Shares>;

union Shared {
    float b[2][T::tile_n][T::slab + 4];     // two slabs of B: one is copied, one is used
    float sums[T::warps][T::at_once][33];  // after the last slab; 33 banks apart, so that lanes meet in none
};

using ThreadSums = float[T::thread_m][T::tile_n];

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[T::blocks];
__device__ float partial_sums[T::blocks][T::tile_m * T::tile_n];

// Copy a slab of B, from row `start` on; what is not inside of B, or from row `end` on, is zeros. A lane has
// columns of A that are `apart` apart, and their rows of B lie side by side.
template <int apart>
__device__ __forceinline__ void copy_slab(const float* B, int n, unsigned start, unsigned end,
                                          float (*slab)[T::slab + 4])
{
    constexpr unsigned count = T::tile_n * T::slab;
#pragma unroll 4  // more would keep many addresses in registers
    for (unsigned done = 0; done < count; done += T::threads) {
        const unsigned e = done + threadIdx.x, j = e % T::tile_n, p = e / T::tile_n;
        const unsigned at = apart == 1 ? p : p / 128 * 128 + p % 32 * 4 + p % 128 / 32;
        if (count % T::threads == 0 || e < count)
            copy_async<4>(&slab[j][at], B + (size_t)(start + p) * n + j, j < (unsigned)n && start + p < end);
    }
    commit_copies();
}

// Multiply a part's slabs, columns of A from `end` on being zeros. A lane has four columns of every 128, from
// number `first` on and `apart` columns apart: where rows begin at 16 bytes neighbours, otherwise those of
// which a warp reads neighbouring words. `rows` of its rows and those after them exist.
template <int apart>
__device__ __forceinline__ void multiply(const float* A, const float* B, int n, int k, int rows,
                                         const Stream::Part& part, unsigned end, ThreadSums& sum,
                                         Shared& shared)
{
    const unsigned lane = threadIdx.x % 32, first = lane * (apart == 1 ? 4 : 1);
    float4 a[T::steps][T::thread_m];
    auto load = [&](int s, unsigned start) {
        const unsigned p = start + s * 128 + first;
#pragma unroll
        for (int r = 0; r < T::thread_m; r++)
            a[s][r] = load_once<apart>(A + (size_t)r * k + p, r < rows ? (int)(end - p) : 0);
    };
    auto add = [&](int s, const float(&slab)[T::tile_n][T::slab + 4]) {
#pragma unroll
        for (int j = 0; j < T::tile_n; j++) {
            const float4 b = *(const float4*)&slab[j][s * 128 + lane * 4];
#pragma unroll
            for (int r = 0; r < T::thread_m; r++)
                sum[r][j] += a[s][r].x * b.x, sum[r][j] += a[s][r].y * b.y,
                sum[r][j] += a[s][r].z * b.z, sum[r][j] += a[s][r].w * b.w;
        }
    };
    unsigned start = part.begin * T::slab;
#pragma unroll
    for (int s = 0; s < T::steps; s++) load(s, start);
    copy_slab<apart>(B, n, start, end, shared.b[part.begin % 2]);
    for (int slab = part.begin; slab < part.end; slab++) {
        wait_for_copies<0>();
        __syncthreads();  // the slab is there, and all threads are done with the one before
        start += T::slab;
        if (slab + 1 < part.end) copy_slab<apart>(B, n, start, end, shared.b[(slab + 1) % 2]);
#pragma unroll
        for (int s = 0; s < T::steps; s++) add(s, shared.b[slab % 2]), load(s, start);
    }
}

// Add to a thread's sums what earlier stretches have left of the tile. A lane takes every 32nd stretch.
__device__ __forceinline__ void add_left_sums(ThreadSums& sum, const Stream::Schedule& schedule,
                                              const Stream::Part& part)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int earliest = schedule.first_stretch(part);
    wait_for_sums<T::threads>(flags, earliest, schedule.stretch - 1);
    for (int stretch = earliest + lane; stretch < schedule.stretch; stretch += 32)
#pragma unroll
        for (int e = 0; e < T::sums; e++)
            sum[e / T::tile_n][e % T::tile_n] += partial_sums[stretch][warp * T::sums + e];
}

// Add up the sums of a warp's lanes, some at a time, and hand `take` each row of the tile, column and total.
template <class Take>
__device__ __forceinline__ void add_lanes(const ThreadSums& sum, Shared& shared, Take take)
{
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int from = 0; from < T::sums; from += T::at_once) {
        __syncthreads();  // all threads are done with the slabs of B, or with the sums before
#pragma unroll
        for (int e = 0; e < T::at_once; e++)
            shared.sums[warp][e][lane] = sum[(from + e) / T::tile_n][(from + e) % T::tile_n];
        __syncthreads();
        if (lane >= T::at_once) continue;
        float total = 0;
#pragma unroll 8
        for (int other = 0; other < 32; other++) total += shared.sums[warp][lane][other];
        take(warp * T::thread_m + (from + lane) / T::tile_n, (from + lane) % T::tile_n, total);
    }
}

// Compute a part of a tile. The part with the tile's last slab adds what earlier stretches have left, and is
// stored; any other part is left for another block.
template <int apart>
__device__ __forceinline__ void run(const float* A, const float* B, float* C, int m, int n, int k,
                                    const Stream::Schedule& schedule, const Stream::Part& part,
                                    Shared& shared)
{
    const int corner = part.tile * T::tile_m;
    const bool leaves = schedule.leaves(part);
    const int above = threadIdx.x / 32 * T::thread_m;  // rows of the tile above the warp's
    const unsigned end = leaves ? part.end * T::slab : k;
    ThreadSums sum = {};
    multiply<apart>(A + (size_t)(corner + (unsigned)above) * k, B, n, k, m - corner - above, part, end, sum,
                    shared);
    if (!leaves) add_left_sums(sum, schedule, part);
    add_lanes(sum, shared, [&](int row, int column, float total) {
        if (leaves)
            partial_sums[schedule.stretch][row * T::tile_n + column] = total;
        else if (row < m - corner && column < n)
            C[(size_t)(corner + row) * n + column] = total;
    });
    if (leaves) announce(&flags[schedule.stretch]);
}

extern "C" __global__ void __launch_bounds__(T::threads, T::resident)
narrow(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
       int m, int n, int k)
{
    __shared__ __align__(16) Shared shared;
    Stream::each_part((m - 1) / T::tile_m + 1, 0, (k - 1) / T::slab + 1,
                      [&](const Stream::Schedule& schedule, const Stream::Part& part) {
        if (rows_hold_fours(A, A, k))
            run<1>(A, B, C, m, n, k, schedule, part, shared);
        else
            run<32>(A, B, C, m, n, k, schedule, part, shared);
    });
}
