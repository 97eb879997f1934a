// What the kernels with asynchronous copies share: a block's tile of C as warp tiles, its slabs of A
// and B on their way in a ring of STAGES buffers, and the product of what has arrived.
//
//        ring of slabs        s-1      s        s+1      s+2        STAGES = 4
//                           ┌──────┬──────┬──────┬──────┐
//                           │ free │ read │ here │ under│
//                           │  ↑   │      │      │  way │
//                           └──┼───┴──────┴──────┴──────┘
//                              └ the copies of slab s+3 are issued while s is multiplied
//
// The includer defines the sizes: TILE_M, TILE_N, TILE_K of a block, WARP_M, WARP_N of a warp,
// THREAD_M, THREAD_N of a thread, STAGES, BAND and ALONG, and FRAGMENTS: 2 to load a step's operands into registers
// while the step before is multiplied, 1 to load them when they are needed.
#pragma once

#include "../async_copy.cuh"

constexpr int LANES_M = WARP_M / THREAD_M, LANES_N = WARP_N / THREAD_N;
constexpr int WARPS_M = TILE_M / WARP_M, WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int PITCH = TILE_M + 4;  // of the slab of A, transposed: its columns lie 4 banks apart
constexpr int CHUNKS_B = TILE_N / 4;
constexpr int WIDTH_A = 8;  // of a copy of A along k: 8 steps of 4 rows are 32 different banks
constexpr int ROWS_A = THREADS / WIDTH_A, COPIES_A = TILE_M / ROWS_A;
constexpr int COPIES_B = TILE_K * CHUNKS_B / THREADS;

static_assert(LANES_M * LANES_N == 32, "a warp's lanes cover its tile");
static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warps cover the block's tile");
static_assert(THREAD_M % 4 == 0 && THREAD_N % 4 == 0, "operands are loaded four words at a time");
static_assert(TILE_K % WIDTH_A == 0 && TILE_M % ROWS_A == 0, "threads cover the slab of A");
static_assert(TILE_K * CHUNKS_B % THREADS == 0, "threads cover the slab of B");
static_assert(STAGES >= 2 && TILE_K % 2 == 0, "");

struct alignas(16) Slab {
    float a[TILE_K][PITCH], b[TILE_K][TILE_N];
};

using Sums = float[THREAD_M][THREAD_N];

// The copies of a thread: of which elements of the operands, and to where in a slab. What lies
// outside of C's rows and columns is copied from the last one inside, and never stored; what lies
// behind the end of k is filled with zeros.
template <bool vectors>
struct Copies {
    const float *A, *B;  // where the next slabs begin
    int n, columns;      // of B; of B from the tile on
    int left;            // of k
    int from_a[COPIES_A], from_b[COPIES_B];

    __device__ __forceinline__ Copies(const float* A, const float* B, int m, int n, int k,
                                      int row, int col)
        : A(A + (size_t)row * k), B(B + col), n(n), columns(n - col), left(k)
    {
        const int t = threadIdx.x;
#pragma unroll
        for (int i = 0; i < COPIES_A; i++)
            from_a[i] = min(t / WIDTH_A + i * ROWS_A, m - 1 - row) * k + t % WIDTH_A;
#pragma unroll
        for (int i = 0; i < COPIES_B; i++) {
            const int p = (t + i * THREADS) / CHUNKS_B, c = (t + i * THREADS) % CHUNKS_B * 4;
            from_b[i] = p * n + (vectors ? min(c, columns - 4) : c);
        }
    }

    // Leave out the first `steps` of k, and all from `end` on.
    __device__ __forceinline__ void restrict_to(int steps, int end)
    {
        A += steps, B += (size_t)steps * n, left = min(left, end) - steps;
    }

    // Issue those of the next slab.
    __device__ __forceinline__ void issue(Slab& slab)
    {
        const int t = threadIdx.x;
#pragma unroll
        for (int i = 0; i < COPIES_A; i++)
#pragma unroll
            for (int p = 0; p < TILE_K; p += WIDTH_A)
                copy_async<4>(&slab.a[p + t % WIDTH_A][t / WIDTH_A + i * ROWS_A],
                              A + from_a[i] + p, p + t % WIDTH_A < left);
#pragma unroll
        for (int i = 0; i < COPIES_B; i++) {
            const int p = (t + i * THREADS) / CHUNKS_B, c = (t + i * THREADS) % CHUNKS_B * 4;
            if (vectors) {
                copy_async<16>(&slab.b[p][c], B + from_b[i], p < left);
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++)
                    copy_async<4>(&slab.b[p][c + j], B + from_b[i] + j, p < left && c + j < columns);
            }
        }
        A += TILE_K, B += (size_t)TILE_K * n, left -= TILE_K;
    }
};

// Where in the block's tile the results of this thread begin.
__device__ __forceinline__ int first_row()
{
    return threadIdx.x / 32 / WARPS_N * WARP_M + threadIdx.x % 32 / LANES_N * 4;
}

__device__ __forceinline__ int first_col()
{
    return threadIdx.x / 32 % WARPS_N * WARP_N + threadIdx.x % 32 % LANES_N * 4;
}

// A step's operands of this thread.
struct Fragments {
    float a[THREAD_M], b[THREAD_N];

    __device__ __forceinline__ void load(const Slab& slab, int p)
    {
#pragma unroll
        for (int i = 0; i < THREAD_M; i += 4)
            *(float4*)&a[i] = *(const float4*)&slab.a[p][first_row() + i * LANES_M];
#pragma unroll
        for (int j = 0; j < THREAD_N; j += 4)
            *(float4*)&b[j] = *(const float4*)&slab.b[p][first_col() + j * LANES_N];
    }

    // The order decides which operands stay in the register file's small cache from one
    // multiply-add to the next, and how many find all three of theirs in one bank: bands of BAND
    // rows (of columns, where ALONG is 2) are walked to and fro.
    __device__ __forceinline__ void multiply(Sums& sums) const
    {
        constexpr bool rows = ALONG == 1;
        constexpr int LENGTH = rows ? THREAD_N : THREAD_M;
#pragma unroll
        for (int e = 0; e < THREAD_M * THREAD_N; e++) {
            const int band = e / (BAND * LENGTH), step = e / BAND % LENGTH, in = e % BAND;
            const int x = band % 2 ? LENGTH - 1 - step : step;
            const int y = band * BAND + (step % 2 ? BAND - 1 - in : in);
            const int i = rows ? y : x, j = rows ? x : y;
            sums[i][j] += a[i] * b[j];
        }
    }
};

// Add the products of `slabs` slabs to `sums`.
template <bool vectors>
__device__ __forceinline__ void multiply(Copies<vectors>& copies, int slabs, Slab* ring, Sums& sums)
{
    Fragments fragments[FRAGMENTS];
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < slabs) copies.issue(ring[s]);
        commit_copies();
    }
    wait_for_copies<STAGES - 2>();
    __syncthreads();
    if (FRAGMENTS == 2) fragments[0].load(ring[0], 0);

    int stage = 0, free = STAGES - 1;
    for (int s = 0; s < slabs; s++) {
        const int following = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
        for (int p = 0; p < TILE_K; p++) {
            Fragments& now = fragments[p % FRAGMENTS];
            if (FRAGMENTS == 1) now.load(ring[stage], p);
            if (p == TILE_K - 1) {  // the slab is read; the next one has to be there
                wait_for_copies<STAGES - 2>();
                __syncthreads();
            }
            if (FRAGMENTS == 2)
                fragments[(p + 1) % 2].load(ring[p < TILE_K - 1 ? stage : following], (p + 1) % TILE_K);
            if (p == 0) {
                if (s + STAGES - 1 < slabs) copies.issue(ring[free]);
                commit_copies();
            }
            now.multiply(sums);
        }
        free = stage, stage = following;
    }
}

// Store a thread's results into the tile of C at (row, col).
template <bool vectors>
__device__ __forceinline__ void store(const Sums& sums, float* C, int m, int n, int row, int col)
{
    row += first_row(), col += first_col();
#pragma unroll
    for (int i = 0; i < THREAD_M; i++) {
        const int r = row + i / 4 * 4 * LANES_M + i % 4;
        if (r >= m) continue;
#pragma unroll
        for (int j = 0; j < THREAD_N; j += 4) {
            const int c = col + j * LANES_N;
            if (vectors) {
                if (c < n) *(float4*)&C[(size_t)r * n + c] = *(const float4*)&sums[i][j];
            } else {
                for (int e = 0; e < 4; e++)
                    if (c + e < n) C[(size_t)r * n + c + e] = sums[i][j + e];
            }
        }
    }
}

// Whether rows of B and of C begin at 16 bytes, so that four words of them are one access.
__device__ __forceinline__ bool in_fours(const float* B, const float* C, int n)
{
    return n % 4 == 0 && (((size_t)B | (size_t)C) & 15) == 0;
}
