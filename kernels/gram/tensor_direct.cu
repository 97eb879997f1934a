// C = Aᵀ·A for a small C: the tensor cores' operands come straight from global memory, into registers.
//
// Words       m, n         rows of A, which are the terms of each sum; columns of A, rows and columns of C
//             tile         TILE×TILE elements of C, which a block computes
//             square       the part of a tile that a warp computes: all of it, or with SIDE = 2 a quarter
//             team         warps that together compute the whole tile, over their own rows of A
//             step         four rows of A, the depth of a product (mma.sync m16n8k4)
//             operand      what a lane holds of a step for one side of its square
//             split        one of the shares of A's rows, where several blocks have the same tile
//             group        neighbouring splits, whose sums one block adds up
//
// Idea        A product of 100×100 is all latency. In tensor_streamed.cu its terms go from global to shared
//             memory, past barriers and into registers, slab by slab, and few warps wait for them. Here
//             many teams share the rows of A, so that each has few steps. A lane loads its operands of AHEAD
//             steps at once, and those of a later step when a step is multiplied. There is no barrier until
//             all rows are done.
//
// What lies   Lane 4g + t has of row t of a step the columns g, g + 8, g + 16 ... The eight lanes of a row
// where       read 64 bytes together, and loads of eight bytes do at any alignment.
//
//                   columns of A of one side of a square
//                   0        8        16       24              registers of lane 4g + t
//                  ┌────────┬────────┬────────┬────────┐      ┌────┬────┬────┬────┐
//           row t  │ g      │ g      │ g      │ g      ├─────►│ x0 │ x1 │ x2 │ x3 │
//                  └────────┴────────┴────────┴────────┘      └────┴────┴────┴────┘
//
//             A product takes two of them from the left side, which are 16 rows of C, and one from the right
//             side, which is 8 columns of C. On the diagonal both sides are the same registers.
//
//             Shared memory has a tile of sums for each team, and one for the mirror image.
//
// Order       Block   1. Each warp multiplies its team's steps. Of T teams, team i has the steps i, i + T ...
//                     2. The warps store their sums to shared memory and meet at a barrier. Each thread adds
//                        the teams' sums of its elements.
//                     3. Where A is tall, the last split of each group adds what the others have left in
//                        partial_sums, and the last of all adds what the other groups' last ones have left.
//                     4. The last split stores the tile, and by way of shared memory its mirror image, so
//                        that both are stored by rows.
//             Sums are always added in the same order. A block waits only for blocks of lower index.
//
// Where       step 1   multiply_rows          step 3   add_left_sums, leave_sums; ../stream_k.cuh
//             step 2   multiply               step 4   store
//
// Traffic     Global memory: 2m/TILE · n²/2 reads of 8 bytes, from the L2 cache mostly. Where two warps of a
//             team need the same terms, one finds them in the L1. A split writes and reads a tile of sums.
// Removes     The ring, the schedule and the barriers, which take longer than a small product.
// Limit       Launch and latency; where n is some hundreds, the L2 cache's rate.
#include "../stream_k.cuh"
#include "product.cuh"

struct Tiling {
    static constexpr int tile = TILE;                          // rows and columns of C of a block
    static constexpr int side = SIDE;                          // warps' tiles along a side of it
    static constexpr int warps = WARPS;                        // of a block
    static constexpr int ahead = AHEAD;                        // steps whose operands are under way
    static constexpr int resident = RESIDENT;                  // blocks of a multiprocessor
    static constexpr int blocks = resident * MULTIPROCESSORS;  // blocks of the grid
    static constexpr int least = LEAST;                        // the fewest rows of A worth a block
};

using T = Tiling;

constexpr int step = 4;                      // rows of A of a product
constexpr int threads = 32 * T::warps;
constexpr int square = T::tile / T::side;    // rows and columns of C of a warp
constexpr int eights = square / 8;           // elements of an operand; products across a square
constexpr int all_squares = T::side * T::side, upper_squares = T::side * (T::side + 1) / 2;  // of a tile
constexpr int rows_per_pass = threads / T::tile;  // of a tile, if each thread takes one element
constexpr int elements = (T::tile + rows_per_pass - 1) / rows_per_pass;  // of a tile, for each thread
constexpr int batch = elements > 3 ? 24 / elements : 8;  // tiles of other blocks that are loaded at once
constexpr int least_group = 8;               // splits of a group

static_assert(square % 16 == 0 && square * T::side == T::tile, "products cover a square, squares the tile");
static_assert(T::warps % all_squares == 0 && T::warps % upper_squares == 0, "no warp is left over");
static_assert(rows_per_pass > 0 && batch > 0, "there are threads for a row, and registers for a batch");

using WarpSums = double[square / 16][eights][4];  // of a lane: four of each product
using ThreadSums = double[elements];              // of a thread, over all of the block's rows of A

// A tile of sums. From row to row it is half of the banks farther: two rows of a product fill all.
using TeamSums = double[T::tile][T::tile + 8];

struct SharedMemory {
    TeamSums sums[T::warps / upper_squares];
    double mirror[T::tile][T::tile + 1];
};

__device__ __forceinline__ SharedMemory* shared_memory()
{
    extern __shared__ __align__(128) double2 memory[];
    return (SharedMemory*)memory;
}

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[T::blocks];
__device__ double partial_sums[T::blocks][elements][threads];

struct Position { int row, col; };

// The position of a square of the upper triangle, by its number: column by column.
__device__ __forceinline__ Position in_triangle(int number)
{
    auto before = [](int col) { return col * (col + 1) / 2; };  // squares before a column
    int col = (int)sqrtf(2.f * number + 1);                     // its own, or one more
    if (before(col) > number) col--;
    return {number - before(col), col};
}

// ---- Operands and products ----

using Operand = double[eights];

// Load an element, or zero where it lies outside of A. If C++ said so, nvcc would make a branch of it.
__device__ __forceinline__ double load_inside(const double* from, bool inside)
{
#ifdef __CUDA_ARCH__
    double x;
    asm volatile("{ .reg .pred inside; setp.ne.s32 inside, %2, 0; mov.f64 %0, 0d0000000000000000; "
                 "@inside ld.global.nc.f64 %0, [%1]; }" : "=d"(x) : "l"(from), "r"((int)inside));
    return x;
#else
    return inside ? *from : 0;
#endif
}

// Load an operand: `from` and each eighth element after it, zeros from `columns` on.
__device__ __forceinline__ void load(Operand& x, const double* from, int columns)
{
#ifdef __CUDA_ARCH__
    asm("" : "+l"(from));  // one address for all: else nvcc keeps a distance from step to step for each
#endif
#pragma unroll
    for (int j = 0; j < eights; j++) x[j] = load_inside(from + 8 * j, 8 * j < columns);
}

// Add a step's products to `sums`; on the diagonal only those that reach the triangle.
template <bool diagonal>
__device__ __forceinline__ void multiply_step(const Operand& left, const Operand& right, WarpSums& sums)
{
#ifdef __CUDA_ARCH__
#pragma unroll
    for (int i = 0; i < square / 16; i++)
#pragma unroll
        for (int j = diagonal ? 2 * i : 0; j < eights; j++)
            add_product<step>(sums[i][j], &left[2 * i], &right[j]);
#else  // on the CPU the lanes of a warp exchange their operands through memory that no GPU has
    static Operand lefts[threads], rights[threads];
    const int lane = threadIdx.x % 32, warp = threadIdx.x - lane, g = lane / 4, t = lane % 4;
    for (int j = 0; j < eights; j++) lefts[threadIdx.x][j] = left[j], rights[threadIdx.x][j] = right[j];
    __syncthreads();
    for (int i = 0; i < square / 16; i++)
        for (int j = diagonal ? 2 * i : 0; j < eights; j++)
            for (int e = 0; e < 4; e++)
                for (int p = 0; p < step; p++)
                    sums[i][j][e] += lefts[warp + 4 * g + p][2 * i + e / 2]
                                     * rights[warp + 4 * (2 * t + e % 2) + p][j];
    __syncthreads();
#endif
}

// Add to `sums` the products of the square at `at`, over the rows of A from `begin` to before `end`: of the
// steps there every `teams`th, from `team` on.
template <bool diagonal>
__device__ __forceinline__ void multiply_rows(const double* A, int n, Position at, int begin, int end,
                                              int team, int teams, WarpSums& sums)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, apart = teams * step;
    const double* left = A + (size_t)(begin + team * step + t) * n + at.row + g;
    const double* right = left + (at.col - at.row);
    const int columns = n - at.col - g;
    int remaining_rows = at.col < n ? end - begin - team * step - t : 0;  // none for a square outside of C

    Operand lefts[T::ahead], rights[T::ahead];
    auto load_step = [&](int u) {
        const bool valid = remaining_rows > 0;
        // Off the diagonal the left columns lie before the right ones, so all of them are in A.
        load(lefts[u], left, !valid ? 0 : diagonal ? columns : square);
        if (!diagonal) load(rights[u], right, valid ? columns : 0);
        left += (size_t)apart * n, right += (size_t)apart * n, remaining_rows -= apart;
    };
#pragma unroll
    for (int u = 0; u < T::ahead; u++) load_step(u);
    const int steps = (end - begin + apart - 1) / apart;  // of each team
    for (int s = 0; s < steps; s += T::ahead)
#pragma unroll
        for (int u = 0; u < T::ahead; u++) {
            if (s + u >= steps) break;
            multiply_step<diagonal>(lefts[u], diagonal ? lefts[u] : rights[u], sums);
            load_step(u);
        }
}

// ---- The block's tile ----

// Call `run` for each of a thread's elements of a tile: its number, row and column. Neighbouring threads
// have neighbouring elements of a row.
template <class Run>
__device__ __forceinline__ void each_element(Run run)
{
    constexpr bool even = threads % T::tile == 0 && T::tile % rows_per_pass == 0;
    const int first = threadIdx.x / T::tile, col = threadIdx.x % T::tile;
#pragma unroll
    for (int i = 0; i < elements; i++) {
        const int row = i * rows_per_pass + first;
        if (even || (first < rows_per_pass && row < T::tile)) run(i, row, col);
    }
}

// Store a warp's sums to its team's tile, where its square begins at `at`.
__device__ __forceinline__ void store_warp(const WarpSums& sums, TeamSums& to, Position at)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < square / 16; i++)
#pragma unroll
        for (int j = 0; j < eights; j++) {
            const int row = at.row + 16 * i + g, col = at.col + 8 * j + 2 * t;
            *(double2*)&to[row][col] = {sums[i][j][0], sums[i][j][1]};
            *(double2*)&to[row + 8][col] = {sums[i][j][2], sums[i][j][3]};
        }
}

// Compute the tile at `at`, over the rows of A from `begin` to before `end`. Elements below the diagonal of C
// have any value.
__device__ __forceinline__ void multiply(const double* A, int n, Position at, int begin, int end,
                                         ThreadSums& sums)
{
    const bool upper = at.row == at.col;
    const int squares = upper ? upper_squares : all_squares, teams = T::warps / squares;
    const int warp = threadIdx.x / 32, team = warp / squares, number = warp % squares;
    Position own = upper ? in_triangle(number) : Position{number / T::side, number % T::side};
    own.row *= square, own.col *= square;
    const Position corner = {at.row + own.row, at.col + own.col};

    WarpSums warp_sums = {};
    if (corner.row == corner.col)
        multiply_rows<true>(A, n, corner, begin, end, team, teams, warp_sums);
    else
        multiply_rows<false>(A, n, corner, begin, end, team, teams, warp_sums);
    store_warp(warp_sums, shared_memory()->sums[team], own);
    __syncthreads();
    each_element([&](int i, int row, int col) {
        for (int k = 0; k < teams; k++) sums[i] += shared_memory()->sums[k][row][col];
    });
}

// Store the tile at `at`, and its mirror image by way of shared memory, so that both are stored by rows.
__device__ __forceinline__ void store(const ThreadSums& sums, double* C, int n, Position at)
{
    each_element([&](int i, int row, int col) {
        shared_memory()->mirror[col][row] = sums[i];
        const int y = at.row + row, x = at.col + col;
        if (y <= x && x < n) C[(size_t)y * n + x] = sums[i];
    });
    __syncthreads();
    each_element([&](int, int row, int col) {
        const int y = at.col + row, x = at.row + col;
        if (y > x && y < n) C[(size_t)y * n + x] = shared_memory()->mirror[row][col];
    });
}

// ---- Sums of other blocks ----

// Leave a block's sums for another one.
__device__ __forceinline__ void leave_sums(const ThreadSums& sums)
{
#pragma unroll
    for (int i = 0; i < elements; i++) partial_sums[blockIdx.x][i][threadIdx.x] = sums[i];
    announce(&flags[blockIdx.x]);
}

// Add what the blocks `first`, `first` + `apart` ... up to `last` have left, in this order.
__device__ __forceinline__ void add_left_sums(ThreadSums& sums, int first, int last, int apart)
{
    wait_for_sums<threads>(flags, first, last, apart);
    for (; first <= last; first += batch * apart) {
        double left[batch][elements];
#pragma unroll
        for (int k = 0; k < batch; k++)
#pragma unroll
            for (int i = 0; i < elements; i++)
                left[k][i] = partial_sums[min(first + k * apart, last)][i][threadIdx.x];
#pragma unroll
        for (int k = 0; k < batch; k++)
#pragma unroll
            for (int i = 0; i < elements; i++) sums[i] += first + k * apart <= last ? left[k][i] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(threads, T::resident)
gram_tensor_direct(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    const int along = (n + T::tile - 1) / T::tile, tiles = along * (along + 1) / 2;
    wait_for_last_launch();

    int tile = blockIdx.x, split = 0, splits = 1, rows = m;
    if (2 * tiles <= T::blocks && m >= 2 * T::least) {  // else no division delays the first load
        splits = min(T::blocks / tiles, m / T::least), rows = (m + splits - 1) / splits;
        split = tile / tiles, tile %= tiles;
        if (split >= splits) return;
    }
    const int begin = min(split * rows, m), end = min(begin + rows, m);

    for (; tile < tiles; tile += T::blocks) {
        Position at = in_triangle(tile);
        at.row *= T::tile, at.col *= T::tile;
        ThreadSums sums = {};
        multiply(A, n, at, begin, end, sums);

        int group = least_group;  // and no fewer splits than there are groups
        while (group * group < splits) group++;
        const int first = split / group * group;
        if (split == splits - 1 || split == first + group - 1)
            add_left_sums(sums, first * tiles + tile, (split - 1) * tiles + tile, tiles);
        if (split < splits - 1) {
            leave_sums(sums);
            return;
        }
        add_left_sums(sums, (group - 1) * tiles + tile, (first - 1) * tiles + tile, group * tiles);
        store(sums, C, n, at);
    }
}
