// What the kernels on fp64 tensor cores share: a block's tile of C = Aᵀ·A as warp tiles of 16×8
// products of STEP rows of A, the slabs of A on their way in a ring of STAGES pairs of buffers, and
// the stores of the tile and of its mirror image.
//
// The includer defines TILE, TILE_K of a block, WARP_M, WARP_N of a warp, STEP of a product, STAGES,
// and PORTIONS of a slab's copies.
#pragma once

#include "../async_copy.cuh"

constexpr int WARPS_M = TILE / WARP_M, WARPS_N = TILE / WARP_N;
constexpr int THREADS = 32 * WARPS_M * WARPS_N;
constexpr int PITCH = TILE + 4;   // doubles: the four rows that a quarter of a warp reads, 8 banks apart
constexpr int CHUNKS = TILE / 2;  // of 16 bytes, in a row of a slab
constexpr int COPIES = TILE_K * CHUNKS / THREADS, APART = THREADS / CHUNKS;  // rows of a slab
constexpr int MMAS_M = WARP_M / 16, MMAS_N = WARP_N / 8;

static_assert(TILE % WARP_M == 0 && TILE % WARP_N == 0, "warps cover the block's tile");
static_assert(WARP_M % 16 == 0 && WARP_N % 8 == 0, "products cover a warp's tile");
static_assert(STEP == 8 || STEP == 16, "the products that there are");
static_assert(TILE_K / STEP % 2 == 0, "operands are loaded by turns to two places");
static_assert(THREADS % CHUNKS == 0 && TILE_K % APART == 0, "threads cover a slab");

// On the diagonal only the rows of products that reach the triangle are wanted, more of them the
// farther right a strip of WARP_N columns lies. They are shared out anew among the warps of the block:
//
//        ┌────┬────┬────┬────┐
//        │ 0  │ 1  │ 3  │ 5  │    TILE = 128, strips of 32 columns: 2, 4, 6 and 8 rows of products
//        └────┼────┤    │    │    by 1, 2, 2 and 3 warps of two or three each, where off the diagonal
//             │ 2  ├────┼────┤    a warp has four. Four schedulers have warps 0 and 4, 1 and 5, 2 and
//             └────┤ 4  │ 6  │    6, 3 and 7: five rows each.
//                  └────┼────┤
//                       │ 7  │
//                       └────┘
__host__ __device__ constexpr int wanted(int strip) { return ((strip + 1) * WARP_N + 15) / 16; }

// The most rows of a warp on the diagonal: the fewest with which the block's warps are enough.
constexpr int most_rows()
{
    for (int most = 1;; most++) {
        int warps = 0;
        for (int strip = 0; strip < WARPS_N; strip++) warps += (wanted(strip) + most - 1) / most;
        if (warps <= WARPS_M * WARPS_N) return most;
    }
}

// Of a warp: the most rows, and the fewest that it computes.
template <bool diagonal> constexpr int ROWS = diagonal ? most_rows() : MMAS_M;
template <bool diagonal> constexpr int FEWEST = diagonal && ROWS<true> > 1 ? ROWS<true> - 1 : ROWS<diagonal>;

// Of this warp in the tile: its first element, and the rows that it stores.
struct Place { int row, col, rows; };

template <bool diagonal>
__device__ __forceinline__ Place place_of_warp()
{
    int warp = threadIdx.x / 32;
    if (!diagonal) return {warp / WARPS_N * WARP_M, warp % WARPS_N * WARP_N, MMAS_M};
#pragma unroll
    for (int strip = 0; strip < WARPS_N; strip++) {
        const int rows = wanted(strip), warps = (rows + ROWS<true> - 1) / ROWS<true>;
        if (warp < warps) {
            const int first = (warp * rows + warps - 1) / warps;
            return {first * 16, strip * WARP_N, ((warp + 1) * rows + warps - 1) / warps - first};
        }
        warp -= warps;
    }
    return {0, 0, 0};
}

// What a slab costs off the diagonal and on it: it takes as long as the warps with the most rows.
constexpr int HEAVY = ROWS<false>, LIGHT = ROWS<true>;

// On the diagonal there are half as many copies, and half as many portions of them.
template <bool diagonal> constexpr int PARTS = diagonal && PORTIONS > 1 ? PORTIONS / 2 : PORTIONS;

// A slab's copies are under way before its last step, which waits for the slab behind, or only after:
// groups of copies behind the slab that is waited for.
template <bool diagonal> constexpr int BEHIND =
    PARTS<diagonal> <= (TILE_K / STEP - 1) * FEWEST<diagonal> ? STAGES - 2 : STAGES - 3;

static_assert(COPIES % PORTIONS == 0 && COPIES % PARTS<true> == 0, "portions cover a slab's copies");
static_assert(PORTIONS <= TILE_K / STEP * MMAS_M && PARTS<true> <= TILE_K / STEP * FEWEST<true>,
              "there is a row of products for each portion");
static_assert(BEHIND<false> >= 0 && BEHIND<true> >= 0, "a slab is copied before it is read");
// ptxas 13.0 lets a single product begin the next slab before its own sum is there.
static_assert(FEWEST<true> * MMAS_N > 1, "a warp has two products or more");

struct alignas(16) Slab { double x[TILE_K][PITCH]; };

struct Pair { Slab left, right; };  // on the diagonal one slab is both

// A barrier of the block that warps may meet in different loops, as __syncthreads() may not be.
__device__ __forceinline__ void sync_block()
{
#ifdef __CUDA_ARCH__
    asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
#else
    __syncthreads();
#endif
}

template <bool diagonal> using Sums = double[ROWS<diagonal>][MMAS_N][4];

// D += A·B, 16×STEP times STEP×8, by a warp. Lane 4g + t holds A[g + 8·(e % 2)][t + 4·(e / 2)] for e
// below STEP / 2, B[t + 4e][g] for e below STEP / 4, and D[g + 8·(e / 2)][2t + e % 2] for e below 4.
#ifdef __CUDA_ARCH__
__device__ __forceinline__ void mma(double (&d)[4], const double (&a)[STEP / 2],
                                    const double (&b)[STEP / 4])
{
    if constexpr (STEP == 8)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
    else
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
                     : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                     : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),
                       "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}
#endif

// A thread's copies of one side of a pair, row after row.
template <bool pairs>
struct Side {
    const double* from;
    int across;  // columns of A from the thread's first on

    __device__ __forceinline__ Side(const double* A, int n, int row, int col)
    {
        const int c = threadIdx.x % CHUNKS * 2;
        across = n - col - c;
        from = A + (size_t)row * n + col + (pairs ? min(c, n - 2 - col) : c);
    }

    __device__ __forceinline__ void copy(double* to, bool valid, int n)
    {
        if (pairs) {
            copy_async<16>(to, from, valid);
        } else {
            copy_async<8>(to, from, valid && across > 0);
            copy_async<8>(to + 1, from + 1, valid && across > 1);
        }
        from += (size_t)APART * n;
    }
};

// A thread's copies of the slabs `from` to `to` of the tile at (row, col), and zeros behind them. On
// the diagonal the left side is both.
template <bool pairs, bool diagonal>
struct Copies {
    Side<pairs> left, right;
    int n, rows;  // rows of A from the next copy's on

    __device__ __forceinline__ Copies(const double* A, int m, int n, int row, int col, int from, int to)
        : left(A, n, from * TILE_K + threadIdx.x / CHUNKS, row),
          right(A, n, from * TILE_K + threadIdx.x / CHUNKS, col), n(n)
    {
        rows = min(m, to * TILE_K) - from * TILE_K - (int)threadIdx.x / CHUNKS;
    }

    // Issue a portion of the next slab's copies.
    __device__ __forceinline__ void issue(Pair& pair, int portion)
    {
        constexpr int EACH = COPIES / PARTS<diagonal>;
        const int c = threadIdx.x % CHUNKS * 2, first = threadIdx.x / CHUNKS;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            const int p = first + (portion * EACH + i) * APART;
            left.copy(&pair.left.x[p][c], rows > 0, n);
            if (!diagonal) right.copy(&pair.right.x[p][c], rows > 0, n);
            rows -= APART;
        }
    }
};

// A step's operands of a lane.
//
// A product's rows may be any 16 of the tile's: lane 4g + t takes columns 2g and 2g + 1 of a slab in one
// load, for rows g and g + 8 of a product. For its columns that would save loads too, but the tensor
// core wants what it is given in registers side by side, and the copies cost more.
template <int rows>
struct Fragments {
    double a[rows][STEP / 2], b[MMAS_N][STEP / 4];

    // Those of a step from row p of the slabs on.
    __device__ __forceinline__ void load(const Slab& left, const Slab& right, int p, const Place& warp)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const double* row = left.x[p + t] + warp.row + 2 * g;
        const double* col = right.x[p + t] + warp.col + g;
#pragma unroll
        for (int e = 0; e < STEP / 4; e++) {
#pragma unroll
            for (int i = 0; i < rows; i++) {
                const double2 two = *(const double2*)(row + 4 * e * PITCH + 16 * i);
                a[i][2 * e] = two.x, a[i][2 * e + 1] = two.y;
            }
#pragma unroll
            for (int j = 0; j < MMAS_N; j++) b[j][e] = col[4 * e * PITCH + 8 * j];
        }
    }
};

// Add a step's products to `sums`, and call `before` each row of them.
template <int rows, class Before>
__device__ __forceinline__ void multiply(const Fragments<rows>& fragments, double (*sums)[MMAS_N][4],
                                         Before before)
{
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int i = 0; i < rows; i++) {
        before(i);
#pragma unroll
        for (int j = 0; j < MMAS_N; j++) mma(sums[i][j], fragments.a[i], fragments.b[j]);
    }
#else  // on the CPU the lanes of a warp exchange their operands through memory
    for (int i = 0; i < rows; i++) before(i);
    __shared__ Fragments<rows> lanes[THREADS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x - lane, g = lane / 4, t = lane % 4;
    lanes[threadIdx.x] = fragments;
    sync_block();
    for (int e = 0; e < 4; e++)
        for (int p = 0; p < STEP; p++) {
            const Fragments<rows>& left = lanes[warp + 4 * g + p % 4];
            const Fragments<rows>& right = lanes[warp + 4 * (2 * t + e % 2) + p % 4];
            for (int i = 0; i < rows; i++)
                for (int j = 0; j < MMAS_N; j++)
                    sums[i][j][e] += left.a[i][p / 4 * 2 + e / 2] * right.b[j][p / 4];
        }
    sync_block();
#endif
}

// Add to `sums` the products of slabs `from` to `to` of the tile at (row, col), of which this warp has
// `rows` rows.
template <bool pairs, bool diagonal, int rows>
__device__ __forceinline__ void multiply(const double* A, int m, int n, int row, int col, int from,
                                         int to, Pair* ring, const Place& warp,
                                         double (*sums)[MMAS_N][4])
{
    Copies<pairs, diagonal> copies(A, m, n, row, col, from, to);
    Fragments<rows> fragments[2];  // one is loaded while the other is multiplied
    auto load = [&](Fragments<rows>& fragment, const Pair& pair, int p) {
        fragment.load(pair.left, diagonal ? pair.left : pair.right, p, warp);
    };
    for (int s = 0; s < STAGES - 1; s++) {
#pragma unroll
        for (int portion = 0; portion < PARTS<diagonal>; portion++) copies.issue(ring[s], portion);
        commit_copies();
    }
    wait_for_copies<STAGES - 2>();
    sync_block();
    load(fragments[0], ring[0], 0);

    int stage = 0, free = STAGES - 1;
    for (int s = from; s < to; s++) {
        const int following = stage + 1 < STAGES ? stage + 1 : 0;
#pragma unroll
        for (int p = 0; p < TILE_K; p += STEP) {
            const bool last = p == TILE_K - STEP;
            if (last) {  // the slab is read; the next one has to be there
                wait_for_copies<BEHIND<diagonal>>();
                sync_block();
            }
            load(fragments[(p / STEP + 1) % 2], ring[last ? following : stage], (p + STEP) % TILE_K);
            multiply<rows>(fragments[p / STEP % 2], sums, [&](int i) {
                const int portion = p / STEP * rows + i;
                if (portion < PARTS<diagonal>) copies.issue(ring[free], portion);
                if (portion == PARTS<diagonal> - 1) commit_copies();
            });
        }
        free = stage, stage = following;
    }
    wait_for_copies<0>();  // zeros, before the ring is filled anew
}

// The same with a loop for each number of rows: with a choice inside of one ptxas would order the
// instructions of all loops in another way, and the tensor cores would wait.
template <bool pairs, bool diagonal>
__device__ __forceinline__ void multiply(const double* A, int m, int n, int row, int col, int from,
                                         int to, Pair* ring, Sums<diagonal>& sums)
{
    const Place warp = place_of_warp<diagonal>();
    if constexpr (FEWEST<diagonal> < ROWS<diagonal>)
        if (warp.rows < ROWS<diagonal>) {
            multiply<pairs, diagonal, FEWEST<diagonal>>(A, m, n, row, col, from, to, ring, warp, sums);
            return;
        }
    multiply<pairs, diagonal, ROWS<diagonal>>(A, m, n, row, col, from, to, ring, warp, sums);
}

// Store a tile at (row, col) and its mirror image. A lane has 2×2 neighbouring results of each
// product: those of a row lie beside those of three other lanes, those of a column beside those of
// seven, so that both stores fill whole sectors.
template <bool pairs, bool diagonal>
__device__ __forceinline__ void store(const Sums<diagonal>& sums, double* C, int n, int row, int col)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const Place warp = place_of_warp<diagonal>();
    row += warp.row + 2 * g, col += warp.col + 2 * t;
#pragma unroll
    for (int i = 0; i < ROWS<diagonal>; i++)
#pragma unroll
        for (int j = 0; j < MMAS_N; j++) {
            if (i >= warp.rows) continue;
            const int r = row + 16 * i, c = col + 8 * j;
            const double(&own)[4] = sums[i][j];
            if (pairs && r + 1 <= c && c < n) {
                *(double2*)&C[(size_t)r * n + c] = {own[0], own[1]};
                *(double2*)&C[(size_t)(r + 1) * n + c] = {own[2], own[3]};
                *(double2*)&C[(size_t)c * n + r] = {own[0], own[2]};
                *(double2*)&C[(size_t)(c + 1) * n + r] = {own[1], own[3]};
                continue;
            }
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int y = r + e / 2, x = c + e % 2;
                if (y > x || x >= n) continue;
                C[(size_t)y * n + x] = own[e];
                if (y < x) C[(size_t)x * n + y] = own[e];
            }
        }
}

// Whether rows of A and C begin at 16 bytes, so that two elements are one access.
__device__ __forceinline__ bool in_pairs(const double* A, const double* C, int n)
{
    return n % 2 == 0 && (((size_t)A | (size_t)C) & 15) == 0;
}

template <bool value> struct Constant { static constexpr bool is = value; };

// Call `run` with both as constants, for a loop of its own in each of the four cases.
template <class Run>
__device__ __forceinline__ void choose(bool pairs, bool diagonal, Run run)
{
    if (pairs)
        diagonal ? run(Constant<true>(), Constant<true>()) : run(Constant<true>(), Constant<false>());
    else
        diagonal ? run(Constant<false>(), Constant<true>()) : run(Constant<false>(), Constant<false>());
}
