// C = A·B for a small product: operands go straight from the L2 to the threads that multiply them.
//
// Words       As in streamed.cu, and
//             quad         four neighbouring steps of k: a load of 16 bytes from each row of A
//             share        every TEAMSth quad: what a team multiplies
//
// Idea        The multiply-adds of 136³ take 0.3 µs on a third of the multiprocessors; streamed takes 7. But
//             for the launch the rest is waits, one after the other: for the schedule, for the ring's first
//             slabs, for each barrier. Here a thread waits for the L2 once or a few times, and for one
//             barrier. Teams of warps share out k. A thread loads its own operands, and issues the loads of
//             AHEAD quads before it uses the first, so that most of a block's operands are under way at once.
//
//                                                           ┌───────────────────┐
//                                         rows of a quad  4 │     ▓▓▓▓▓         │ B
//                                                           │                   │
//                                                           └───────────────────┘
//                     teams  0  1  2  3  0  1  2                   TILE_N
//                          ┌──┬──┬──┬──┬──┬──┬──┐           ┌───────────────────┐
//                          │  │  │  │  │  │  │  │           │                   │ C
//             TILE_M rows  │▓▓│  │  │  │  │  │  │ A         │     █████         │ █ THREAD_M×THREAD_N
//                          │  │  │  │  │  │  │  │           │                   │   results of a thread
//                          └──┴──┴──┴──┴──┴──┴──┘           └───────────────────┘   of team 0, ▓ what it
//                            quads of k                                             loads at a time
//
//             A warp's lanes are 4×8. Eight of them side by side load the same 16 bytes of A, and 128
//             neighbouring bytes of B.
//
// Order       1. Each thread multiplies its team's share, quad after quad; a quad that is used up makes room
//                for one to load.
//             2. Each team leaves its tile of sums in shared memory. After the barrier every thread adds some
//                elements of all teams, always in the same order so that the same product has the same bits,
//                and stores them: neighbouring threads neighbouring words, wherever rows begin.
//
// Edges       In place of rows below A's last one the last one is loaded; the results are never stored.
//             Columns behind the last one are not loaded, and what stays in their registers comes to
//             results that are never stored. In the last quad the steps behind k are not multiplied. A
//             matrix whose rows do not begin at 16 bytes is loaded word by word; A and B decide each on its
//             own.
//
// Traffic     From the L2: k(1/TILE_M + 1/TILE_N) reads of 4 bytes per element of C. A sector of 32 bytes of
//             A has two quads, of two teams; they load it at about the same time, and the L1 that they
//             share fetches it once. Shares of neighbouring quads would fetch as much, and be less equal.
//             From the L1: THREAD_M + THREAD_N loads of 16 bytes for 4·THREAD_M·THREAD_N multiply-adds.
// Removes     The schedule, the ring and its barriers, and the copies of A word by word.
// Limit       Latency while a multiprocessor has one block, then the L1: at 128 bytes a clock a warp's load
//             of 16 bytes takes 4 clocks, the time of 16 multiply-adds. So 4×4 results a thread allow half
//             of the peak, 4×8 two thirds, 8×8 all of it.
#include "../overlap.cuh"
#include "fours.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;          // rows and columns of C of a block
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // and of a thread, in columns of four
    static constexpr int teams = TEAMS;                             // teams of warps that share out k
    static constexpr int ahead = AHEAD;                             // quads of a thread that are under way
    static constexpr int resident = RESIDENT;                       // blocks of a multiprocessor, at least
    static constexpr int lanes_m = 4, lanes_n = 8;                  // lanes of a warp, down and across
    static constexpr int warp_m = lanes_m * thread_m, warp_n = lanes_n * thread_n;
    static constexpr int strip = 4 * lanes_n;                       // columns of B that a warp loads at once
    static constexpr int warps_n = tile_n / warp_n;
    static constexpr int team_threads = 32 * (tile_m / warp_m) * warps_n, threads = teams * team_threads;
};

using T = Tiling;

static_assert(T::tile_m % T::warp_m == 0 && T::tile_n % T::warp_n == 0, "warps cover the block's tile");
static_assert(T::thread_n % 4 == 0, "columns are loaded four at a time");

using Sums = float[T::thread_m][T::thread_n];

// Where in the block's tile a thread's results begin. Its rows are neighbours; of its columns each four lie in
// a strip of their own.
__device__ __forceinline__ int thread_row()
{
    const int warp = threadIdx.x % T::team_threads / 32;
    return warp / T::warps_n * T::warp_m + threadIdx.x % 32 / T::lanes_n * T::thread_m;
}
__device__ __forceinline__ int thread_col()
{
    return threadIdx.x / 32 % T::warps_n * T::warp_n + threadIdx.x % T::lanes_n * 4;
}

// Load one word, or four, if they exist; if not, `to` stays as it is. For a condition in C++ the compiler
// puts branches between the loads.
__device__ __forceinline__ void load_if(bool exists, float& to, const float* from)
{
#ifdef __CUDA_ARCH__
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; @p ld.global.nc.f32 %0, [%1]; }"
                 : "+f"(to) : "l"(from), "r"((int)exists));
#else
    if (exists) to = *from;
#endif
}
__device__ __forceinline__ void load_if(bool exists, float4& to, const float4* from)
{
#ifdef __CUDA_ARCH__
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %5, 0; @p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4]; }"
                 : "+f"(to.x), "+f"(to.y), "+f"(to.z), "+f"(to.w) : "l"(from), "r"((int)exists));
#else
    if (exists) to = *from;
#endif
}

// Load those of four neighbouring elements that exist.
template <bool fours>
__device__ __forceinline__ void load_existing(float (&to)[4], const float* from, int inside)
{
    if (fours)
        load_if(inside > 0, *(float4*)to, (const float4*)from);
    else
#pragma unroll
        for (int i = 0; i < 4; i++) load_if(i < inside, to[i], from + i);
}

// A thread's operands of a quad: of its rows of A four steps, and of four rows of B its columns. They are
// not set before they are loaded.
struct alignas(16) Quad {
    float a[T::thread_m][4], b[4][T::thread_n / 4][4];
};

// A thread's part of its team's share. `fours_of_a`, `fours_of_b`: each row begins at 16 bytes.
template <bool fours_of_a, bool fours_of_b>
struct Share {
    static constexpr int stride = 4 * T::teams;  // steps from a quad of the share to the next one

    const int n, columns_inside;  // of B: all, and those from the thread's first on
    const unsigned k;
    unsigned to_load, to_multiply;             // the next quads' first steps
    const float *rows[T::thread_m], *columns;  // the thread's first elements of the next quad to load

    __device__ __forceinline__ Share(const float* A, const float* B, int m, int n, int k, int row, int col)
        : n(n), columns_inside(n - col), k(k)
    {
        to_load = to_multiply = threadIdx.x / T::team_threads * 4;
#pragma unroll
        for (int i = 0; i < T::thread_m; i++) rows[i] = A + (size_t)min(row + i, m - 1) * k + to_load;
        columns = B + (size_t)to_load * n + col;
    }

    // Whether k has step s of the quad that begins at step p. Where A's rows hold fours, no quad lacks some.
    __device__ __forceinline__ bool has(unsigned p, int s) const { return p + s < k || (fours_of_a && s > 0); }

    // Load the next quad, if there is one.
    __device__ __forceinline__ void load(Quad& quad)
    {
        if (has(to_load, 0)) {
#pragma unroll
            for (int i = 0; i < T::thread_m; i++)
                load_existing<fours_of_a>(quad.a[i], rows[i], fours_of_a ? 4 : k - to_load);
            const float* from = columns;
#pragma unroll
            for (int s = 0; s < 4; s++) {
#pragma unroll
                for (int j = 0; j < T::thread_n / 4; j++)
                    load_existing<fours_of_b>(quad.b[s][j], from + j * T::strip, columns_inside - j * T::strip);
                if (has(to_load, s + 1)) from += n;  // below B's last row that row again
            }
        }
#pragma unroll
        for (int i = 0; i < T::thread_m; i++) rows[i] += stride;
        columns += (size_t)stride * n, to_load += stride;
    }

    // Add the next quad's products, in rows to and fro, so that the next one has an operand of the last one.
    // Returns false at the end of the share.
    __device__ __forceinline__ bool multiply(const Quad& quad, Sums& sums)
    {
#pragma unroll
        for (int s = 0; s < 4; s++) {
            if (!has(to_multiply, s)) return false;
#pragma unroll
            for (int e = 0; e < T::thread_m * T::thread_n; e++) {
                const int i = e / T::thread_n, within = e % T::thread_n;
                const int j = i % 2 ? T::thread_n - 1 - within : within;
                sums[i][j] += quad.a[i][s] * quad.b[s][j / 4][j % 4];
            }
        }
        to_multiply += stride;
        return true;
    }

    // Multiply the whole share.
    __device__ __forceinline__ void run(Sums& sums)
    {
        Quad quads[T::ahead];
#pragma unroll
        for (int u = 0; u < T::ahead; u++) load(quads[u]);
        while (true) {
#pragma unroll
            for (int u = 0; u < T::ahead; u++) {
                if (!multiply(quads[u], sums)) return;
                load(quads[u]);
            }
        }
    }
};

// Add up the teams' tiles in shared memory, and store the sums to C.
__device__ __forceinline__ void store(const Sums& sums, float* C, int m, int n)
{
    constexpr int rows = T::threads / T::tile_n, passes = T::tile_m / rows;  // rows that a pass covers
    static_assert(T::threads % T::tile_n == 0 && T::tile_m % rows == 0, "threads cover the tile");

    __shared__ __align__(16) float tiles[T::teams][T::tile_m * T::tile_n];
    float* own = tiles[threadIdx.x / T::team_threads] + thread_row() * T::tile_n + thread_col();
#pragma unroll
    for (int i = 0; i < T::thread_m; i++)
#pragma unroll
        for (int j = 0; j < T::thread_n; j += 4)
            *(float4*)(own + i * T::tile_n + j / 4 * T::strip) = in_own_registers(&sums[i][j]);
    __syncthreads();

    float results[passes];
#pragma unroll
    for (int i = 0; i < passes; i++) {
        results[i] = tiles[0][i * T::threads + threadIdx.x];
#pragma unroll
        for (int team = 1; team < T::teams; team++) results[i] += tiles[team][i * T::threads + threadIdx.x];
    }

    const int r = blockIdx.y * T::tile_m + threadIdx.x / T::tile_n;
    const int c = blockIdx.x * T::tile_n + threadIdx.x % T::tile_n;
    if (c >= n) return;
    float* to = C + (size_t)r * n + c;
#pragma unroll
    for (int i = 0; i < passes; i++) {
        if (r + i * rows < m) *to = results[i];
        to += (size_t)rows * n;
    }
}

extern "C" __global__ void __launch_bounds__(T::threads, T::resident)
direct(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
       int m, int n, int k)
{
    const int row = blockIdx.y * T::tile_m + thread_row(), col = blockIdx.x * T::tile_n + thread_col();
    const bool fours_of_a = rows_hold_fours(A, A, k), fours_of_b = rows_hold_fours(B, B, n);
    Sums sums = {};
    wait_for_last_launch();
    if (__builtin_expect(fours_of_a, true)) {
        if (__builtin_expect(fours_of_b, true))
            Share<true, true>(A, B, m, n, k, row, col).run(sums);
        else
            Share<true, false>(A, B, m, n, k, row, col).run(sums);
    } else if (fours_of_b) {
        Share<false, true>(A, B, m, n, k, row, col).run(sums);
    } else {
        Share<false, false>(A, B, m, n, k, row, col).run(sums);
    }
    store(sums, C, m, n);
}
