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
// THREAD_M, THREAD_N of a thread, STAGES; SLICES, teams of warps that share a tile, each with slabs and a
// ring of its own, whose sums are added; and what only changes the speed: ABREAST, threads that copy a
// row of B; PORTIONS, in which a slab's copies are issued; ORDER, of the multiply-adds of a step; GROUP,
// tile rows of a patch of C.
#pragma once

#include "../async_copy.cuh"
#include "fours.cuh"

constexpr int LANES_M = WARP_M / THREAD_M, LANES_N = WARP_N / THREAD_N;
constexpr int WARPS_M = TILE_M / WARP_M, WARPS_N = TILE_N / WARP_N;
constexpr int TEAM = 32 * WARPS_M * WARPS_N, THREADS = SLICES * TEAM;
constexpr int ROWS = THREAD_M / SLICES;  // of a thread's results, when teams have added theirs
constexpr int PITCH = TILE_M + 4;  // of the slab of A, transposed: its columns lie 4 banks apart
constexpr int WIDTH_A = 8;  // of a copy of A along k: 8 steps of 4 rows are 32 different banks
constexpr int ROWS_A = TEAM / WIDTH_A, PASSES_A = TILE_M / ROWS_A;
constexpr int APART = TILE_K / PORTIONS;  // steps from one portion of a slab's copies to the next

static_assert(LANES_M * LANES_N == 32, "a warp's lanes cover its tile");
static_assert(TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0, "warps cover the block's tile");
static_assert(THREAD_M % 4 == 0 && THREAD_N % 4 == 0, "operands are loaded four words at a time");
static_assert(TILE_K % WIDTH_A == 0 && TILE_M % ROWS_A == 0, "threads cover the slab of A");
static_assert(STAGES >= 2 && THREAD_M % SLICES == 0 && APART > 1, "");

struct alignas(16) Slab {
    float a[TILE_K][PITCH], b[TILE_K][TILE_N];
};

static_assert(SLICES == 1 || THREAD_M * THREAD_N * TEAM * 4 <= STAGES * sizeof(Slab),
              "the rings hold the teams' sums");

// Where the `at`th tile of C lies, in tiles: blocks that run together take a patch of GROUP tile rows, so
// that they share slabs in the L2.
__device__ __forceinline__ int2 place(int at, int tiles_m, int tiles_n)
{
    const int first = at / (GROUP * tiles_n) * GROUP, height = min(GROUP, tiles_m - first);
    const int within = at - first * tiles_n;
    return {first + within % height, within / height};
}

using Sums = float[THREAD_M][THREAD_N];
using Own = float[ROWS][THREAD_N];  // of all teams' sums those that are this thread's to store

__device__ __forceinline__ int team() { return SLICES == 1 ? 0 : threadIdx.x / TEAM; }

// Compiled for the CPU, warps meet as a block: all call it as often.
__device__ __forceinline__ void sync_warp()
{
#ifdef __CUDA_ARCH__
    __syncwarp();
#else
    __syncthreads();
#endif
}

__device__ __forceinline__ void sync_team()
{
#ifdef __CUDA_ARCH__
    if constexpr (SLICES > 1 && TEAM == 32) {
        __syncwarp();
        return;
    } else if constexpr (SLICES > 1) {
        asm volatile("bar.sync %0, %1;" :: "r"(team() + 1), "n"(TEAM) : "memory");
        return;
    }
#endif
    __syncthreads();
}

// How a team copies a slab of B: ACROSS threads take a row, WORDS words each at a time, and the next
// rows in the next pass. A thread's words of a row lie STRIDE apart: one address serves for all.
template <int WORDS>
struct Layout {
    // A single word's place in B is checked: of a row a thread takes four, with eight ptxas spills 2 KB.
    static constexpr int SINGLY = TILE_N > 128 ? TILE_N / 4 : 32, WANTED = WORDS > 1 ? ABREAST : SINGLY;
    static constexpr int WIDTH = TILE_N / WORDS, NEEDED = TEAM / TILE_K > WANTED ? TEAM / TILE_K : WANTED;
    static constexpr int ACROSS = NEEDED < WIDTH ? NEEDED : WIDTH, STRIDE = ACROSS * WORDS;
    static constexpr int AT_ONCE = TEAM / ACROSS, PASSES = TILE_K / AT_ONCE, EACH = WIDTH / ACROSS;

    static_assert(WIDTH % ACROSS == 0 && TEAM % ACROSS == 0 && TILE_K % AT_ONCE == 0,
                  "threads cover the slab of B");

    // Where a thread's first words lie.
    static __device__ __forceinline__ int row() { return threadIdx.x % TEAM / ACROSS; }
    static __device__ __forceinline__ int col() { return threadIdx.x % TEAM % ACROSS * WORDS; }
};

// The copies of a thread: from where in the operands, and to where in a slab. Rows below the last one of A
// are copied from there, and never stored; what lies outside of B is filled with zeros. `vectors`: four
// words of B are one copy, which takes a tile inside of C and rows of B and C that begin at 16 bytes.
template <bool vectors>
struct Copies {
    using Rows = Layout<vectors ? 4 : 1>;

    static constexpr bool VECTORS = vectors;
    static constexpr int OF_A = PASSES_A * (TILE_K / WIDTH_A), OF_B = Rows::PASSES * Rows::EACH;

    // A thread's first elements of the next slab, and how far from there those of a pass are: without a
    // sign, half the registers of an address.
    const float *A, *B;
    unsigned from_a[PASSES_A], from_b[Rows::PASSES];
    int to_a, to_b;      // where in a slab the first ones go
    int left_a, left_b;  // of k, from the first ones on
    int n, columns;      // of B; of B from the first one on

    // Of the tile at (row, col), for the steps of k from `begin` to before `end`.
    __device__ __forceinline__ Copies(const float* A, const float* B, int m, int n, int k,
                                      int row, int col, int begin, int end)
        : n(n), columns(n - col - Rows::col())
    {
        const int t = threadIdx.x % TEAM, p = t % WIDTH_A, first = t / WIDTH_A, last = m - 1 - row;
        begin += team() * TILE_K, end = min(k, end);
        this->A = A + (size_t)(row + min(first, last)) * k + begin + p;
        this->B = B + (size_t)(begin + Rows::row()) * n + col + Rows::col();
        left_a = end - begin - p, left_b = end - begin - Rows::row();
        to_a = p * PITCH + first, to_b = TILE_K * PITCH + Rows::row() * TILE_N + Rows::col();
#pragma unroll
        for (int i = 0; i < PASSES_A; i++)
            from_a[i] = (min(first + i * ROWS_A, last) - min(first, last)) * k;
#pragma unroll
        for (int i = 0; i < Rows::PASSES; i++) from_b[i] = i * Rows::AT_ONCE * n;
    }

    // Issue a portion of those of the next slab, or of the first `count` of them, into a stage of the
    // ring: all at once they would have to queue up.
    template <int count = OF_A + OF_B>
    __device__ __forceinline__ void issue(Slab* ring, int stage, int portion)
    {
        constexpr int PORTION = (count + PORTIONS - 1) / PORTIONS;
        issue_some(ring[stage], portion * PORTION, min((portion + 1) * PORTION, count));
        if (portion < PORTIONS - 1) return;
        commit_copies();
        A += SLICES * TILE_K, left_a -= SLICES * TILE_K;
        B += (size_t)SLICES * TILE_K * n, left_b -= SLICES * TILE_K;
    }

    // Those from the `first` one to before the one `behind` of a slab, of which A's come first.
    __device__ __forceinline__ void issue_some(Slab& slab, int first, int behind)
    {
        float* to = (float*)&slab;
#pragma unroll
        for (int e = first; e < behind; e++) {
            if (e < OF_A) {
                const int i = e / (TILE_K / WIDTH_A), p = e % (TILE_K / WIDTH_A) * WIDTH_A;
                copy_async<4>(to + to_a + p * PITCH + i * ROWS_A, A + from_a[i] + p, p < left_a);
            } else {
                const int i = (e - OF_A) / Rows::EACH, p = i * Rows::AT_ONCE;
                const int c = (e - OF_A) % Rows::EACH * Rows::STRIDE;
                copy_async<vectors ? 16 : 4>(to + to_b + p * TILE_N + c, B + from_b[i] + c,
                                             p < left_b && (vectors || c < columns));
            }
        }
    }

    // Wait until the slab in a stage, issued STAGES - 1 slabs ago, is there.
    __device__ __forceinline__ void wait(int) { wait_for_copies<STAGES - 2>(); }
};

// A lane's place in its warp. The lanes of each eight and of each sixteen need few different words of
// both operands, which is what shared memory joins to one access: neighbours 0 and 1 share a column,
// 0 and 2 a row.
__device__ __forceinline__ int lane_row()
{
    const int lane = threadIdx.x % 32;
    return LANES_M == 1 ? 0 : lane % 2 + lane / (2 * LANES_N) * 2;
}

__device__ __forceinline__ int lane_col()
{
    const int lane = threadIdx.x % 32;
    return LANES_M == 1 ? lane : lane / 2 % LANES_N;
}

// Where in the block's tile the results of this thread begin.
__device__ __forceinline__ int first_row()
{
    return threadIdx.x % TEAM / 32 / WARPS_N * WARP_M + lane_row() * 4;
}

__device__ __forceinline__ int first_col()
{
    return threadIdx.x / 32 % WARPS_N * WARP_N + lane_col() * 4;
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

    // The order decides how many operands are still in the register file's cache from the multiply-add
    // before, and how many multiply-adds find two of theirs in one bank. By its digits: rows are walked
    // along or columns; in bands of 1, 2 or 4; to and fro, in every other step the other way round or
    // not; neighbours by turns or not.
    __device__ __forceinline__ void multiply(Sums& sums, int step) const
    {
        constexpr int DIGITS = ORDER - 1;
        constexpr bool ALONG = DIGITS % 2 == 0;
        constexpr int BAND = 1 << DIGITS / 2 % 3, TURN = DIGITS / 6 % 2;
        constexpr int SWAP_M = DIGITS / 12 % 4, SWAP_N = DIGITS / 48 % 4;
        constexpr int LENGTH = ALONG ? THREAD_N : THREAD_M;
#pragma unroll
        for (int e = 0; e < THREAD_M * THREAD_N; e++) {
            const int band = e / (BAND * LENGTH), at = e / BAND % LENGTH, in = e % BAND;
            const int x = (band + TURN * step) % 2 ? LENGTH - 1 - at : at;
            const int y = band * BAND + (at % 2 ? BAND - 1 - in : in);
            const int i = (ALONG ? y : x) ^ SWAP_M, j = (ALONG ? x : y) ^ SWAP_N;
            sums[i][j] += a[i] * b[j];
        }
    }
};

// A team's slabs on their way through its ring, and the operands of the next step of k.
template <class Copies>
struct Pipeline {
    Copies& copies;
    Slab* ring;
    Fragments fragments[2];  // one is loaded while the other is multiplied
    int stage = 0, free = STAGES - 1;

    __device__ __forceinline__ Pipeline(Copies& copies, Slab* rings)
        : copies(copies), ring(rings + team() * STAGES)
    {
#pragma unroll
        for (int s = 0; s < STAGES - 1; s++)
#pragma unroll
            for (int portion = 0; portion < PORTIONS; portion++) copies.issue(ring, s, portion);
        copies.wait(0);
        sync_team();
        fragments[0].load(ring[0], 0);
    }

    // Add the products of the next `slabs` slabs to the team's sums.
    __device__ __forceinline__ void multiply(int slabs, Sums& sums)
    {
        for (int s = 0; s < slabs; s++) {
            const int following = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
            for (int p = 0; p < TILE_K; p++) {
                if (p == TILE_K - 1) {  // the slab is read; the next one has to be there
                    copies.wait(following);
                    sync_team();
                }
                fragments[(p + 1) % 2].load(ring[p < TILE_K - 1 ? stage : following], (p + 1) % TILE_K);
                if (p % APART == 0) copies.issue(ring, free, p / APART);
                fragments[p % 2].multiply(sums, p);
            }
            free = stage, stage = following;
        }
    }

    // The ring is free for another use: what is still under way are zeros, behind the end.
    __device__ __forceinline__ void end() { wait_for_copies<0>(); }
};

// Add the teams' sums: each keeps those of its rows. The rings' memory is free for it.
__device__ __forceinline__ void gather(const Sums& sums, Own& own, float* memory)
{
    if constexpr (SLICES > 1) {
        __syncthreads();
#pragma unroll
        for (int e = 0; e < THREAD_M * THREAD_N; e++)
            memory[e * THREADS + threadIdx.x] = sums[e / THREAD_N][e % THREAD_N];
        __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < ROWS * THREAD_N; e++) {
        float& sum = own[e / THREAD_N][e % THREAD_N];
        sum = sums[e / THREAD_N][e % THREAD_N];
        if constexpr (SLICES > 1) {
            const int at = (team() * ROWS * THREAD_N + e) * THREADS + threadIdx.x % TEAM;
            sum = 0;
#pragma unroll
            for (int s = 0; s < SLICES; s++) sum += memory[at + s * TEAM];
        }
    }
}

// A sum in a register of its own choice: −0 changes no value, and a store of four words wants four
// registers side by side. If they were the sums themselves, each would lie in the register bank of its
// operand of B, and the loop would wait for it (WORKLOG.md).
__device__ __forceinline__ float untied(float sum)
{
#ifdef __CUDA_ARCH__
    asm("add.f32 %0, %0, 0f80000000;" : "+f"(sum));
#endif
    return sum;
}

// Which row of its tile is the `i`th of a thread's own, from its first row on.
__device__ __forceinline__ int row_of(int i)
{
    const int of_all = team() * ROWS + i;
    return of_all / 4 * 4 * LANES_M + of_all % 4;
}

// Store a thread's results into the tile of C at (row, col), where four words are one store.
__device__ __forceinline__ void store_fours(const Own& own, float* C, int m, int n, int row, int col)
{
    row += first_row(), col += first_col();
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
        const int r = row + row_of(i);
        if (r >= m) continue;
#pragma unroll
        for (int j = 0; j < THREAD_N; j += 4)
            *(float4*)(C + (size_t)r * n + col + j * LANES_N) =
                {untied(own[i][j]), untied(own[i][j + 1]), untied(own[i][j + 2]), untied(own[i][j + 3])};
    }
}

// The same word by word: by way of the rings' memory, which is free, so that the lanes of a warp store
// words beside each other. From the registers each would fill 8 bytes of a sector of 32.
__device__ __forceinline__ void store_words(const Own& own, float* C, int m, int n, int row, int col,
                                            float* memory)
{
    constexpr int LENGTH = WARP_N + 1, EACH = LANES_M * LENGTH;  // neighbouring rows lie a bank apart
    static_assert(THREADS / 32 * EACH * 4 <= STAGES * SLICES * sizeof(Slab), "the rings hold them");
    const int lane = threadIdx.x % 32;
    float* rows = memory + threadIdx.x / 32 * EACH;
    row += first_row() - lane_row() * 4, col += first_col() - lane_col() * 4;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ROWS; i++) {
#pragma unroll
        for (int j = 0; j < THREAD_N; j++)
            rows[lane_row() * LENGTH + lane_col() * 4 + j / 4 * 4 * LANES_N + j % 4] = own[i][j];
        sync_warp();
#pragma unroll
        for (int e = lane; e < LANES_M * WARP_N; e += 32) {
            const int r = row + e / WARP_N * 4 + row_of(i), c = col + e % WARP_N;
            if (r < m && c < n) C[(size_t)r * n + c] = rows[e / WARP_N * LENGTH + e % WARP_N];
        }
        sync_warp();
    }
}

template <bool vectors>
__device__ __forceinline__ void store(const Own& own, float* C, int m, int n, int row, int col,
                                      float* memory)
{
    if constexpr (vectors)
        store_fours(own, C, m, n, row, col);
    else
        store_words(own, C, m, n, row, col, memory);
}

// Compute the tile of C at (row, col), by one team of warps.
template <class Copies>
__device__ __forceinline__ void tile(const float* A, const float* B, float* C, int m, int n, int k,
                                     int row, int col, Slab* ring)
{
    Copies copies(A, B, m, n, k, row, col, 0, k);
    Sums sums = {};
    Pipeline<Copies> pipeline(copies, ring);
    pipeline.multiply((k + TILE_K - 1) / TILE_K, sums);
    pipeline.end();
    store<Copies::VECTORS>(sums, C, m, n, row, col, (float*)ring);
}
