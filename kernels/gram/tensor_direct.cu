#include "../flags.cuh"
#include "product.cuh"

struct Tiling {
    static constexpr int tile = TILE;                          // rows and columns of C of a block
    static constexpr int part = PART;                          // rows and columns of C of a warp
    static constexpr int warps = WARPS;                        // of a block
    static constexpr int ahead = AHEAD;                        // steps whose operands are under way
    static constexpr int resident = RESIDENT;                  // blocks of a multiprocessor
    static constexpr int blocks = resident * MULTIPROCESSORS;  // blocks of the grid
    static constexpr int least = LEAST;                        // the fewest rows of A worth a block
};

using T = Tiling;

constexpr int step = 4;                         // rows of A of a product
constexpr int threads = 32 * T::warps;
constexpr int eights = T::part / 8;             // groups of eight columns of a part: products across
constexpr int side = T::tile / T::part;         // parts along a side of the tile
constexpr int most_teams = T::warps / (side * (side + 1) / 2);
constexpr int elements = (T::tile * T::tile + threads - 1) / threads;  // of the tile, for each thread
constexpr int batch = 24 / elements;             // partial tiles of which a thread loads elements at once
constexpr int least_group = 8;                  // blocks whose sums one block adds, at the least

static_assert(T::tile % T::part == 0 && T::part % 16 == 0, "parts cover the tile, products a part");
static_assert(T::warps % (side * side) == 0 && T::warps % (side * (side + 1) / 2) == 0,
              "no warp is left over, on the diagonal or off it");

using WarpSums = double[T::part / 16][eights][4];   // of a lane: four of each product
using ThreadSums = double[elements];                // of a thread, once the teams' sums are added

struct SharedMemory {
    double sums[most_teams][T::tile][T::tile + 8];  // a row of 8 mod 16: two rows of a product, all banks
    double mirror[T::tile][T::tile + 1];
};

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[T::blocks];
__device__ double partial_sums[T::blocks][T::tile * T::tile];

struct Position { int row, col; };

// The position of a square of the upper triangle, column by column.
__device__ __forceinline__ Position in_triangle(int number)
{
    int col = 0;
    for (; number > col; col++) number -= col + 1;
    return {number, col};
}

// ---- A warp's part of the tile ----

// What a lane holds of the operands of a step: of each eight columns one element.
using Operand = double[eights];

// Load an element, or zero where it lies outside of A. One instruction: nvcc makes a branch, and an address of
// its own, of each guarded load.
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

// Load a lane's elements, `from` and each eighth after it, zeros from `columns` on.
__device__ __forceinline__ void load(Operand& x, const double* from, int columns)
{
#ifdef __CUDA_ARCH__
    asm("" : "+l"(from));
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
    for (int i = 0; i < T::part / 16; i++)
#pragma unroll
        for (int j = diagonal ? 2 * i : 0; j < eights; j++)
            add_product<step>(sums[i][j], &left[2 * i], &right[j]);
#else  // on the CPU the lanes of a warp exchange their operands through memory that no GPU has
    static Operand lefts[threads], rights[threads];
    const int lane = threadIdx.x % 32, warp = threadIdx.x - lane, g = lane / 4, t = lane % 4;
    for (int j = 0; j < eights; j++) lefts[threadIdx.x][j] = left[j], rights[threadIdx.x][j] = right[j];
    __syncthreads();
    for (int i = 0; i < T::part / 16; i++)
        for (int j = diagonal ? 2 * i : 0; j < eights; j++)
            for (int e = 0; e < 4; e++)
                for (int p = 0; p < step; p++)
                    sums[i][j][e] += lefts[warp + 4 * g + p][2 * i + e / 2]
                                     * rights[warp + 4 * (2 * t + e % 2) + p][j];
    __syncthreads();
#endif
}

// Multiply a team's rows of A, from `begin` to before `end` those of every `teams`th step from `team` on.
template <bool diagonal>
__device__ __forceinline__ void multiply_rows(const double* A, int n, Position at, int begin, int end,
                                              int team, int teams, WarpSums& sums)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, rows_apart = teams * step;
    const double* left = A + (size_t)(begin + team * step + t) * n + at.row + g;
    const double* right = left + (at.col - at.row);
    const int columns = n - at.col - g;
    int remaining_rows = at.col < n ? end - begin - team * step - t : 0;  // none for a part outside of C

    Operand lefts[T::ahead], rights[T::ahead];
    auto load_step = [&](int u) {
        const bool valid = remaining_rows > 0;
        // Off the diagonal all columns of the left operand are inside, for they lie before the right one's.
        load(lefts[u], left, !valid ? 0 : diagonal ? columns : T::part);
        if (!diagonal) load(rights[u], right, valid ? columns : 0);
        left += (size_t)rows_apart * n, right += (size_t)rows_apart * n, remaining_rows -= rows_apart;
    };
#pragma unroll
    for (int u = 0; u < T::ahead; u++) load_step(u);
    const int steps = (end - begin + rows_apart - 1) / rows_apart;  // of every team, for the CPU's barriers
    for (int s = 0; s < steps; s += T::ahead)
#pragma unroll
        for (int u = 0; u < T::ahead; u++) {
            if (s + u >= steps) break;
            multiply_step<diagonal>(lefts[u], diagonal ? lefts[u] : rights[u], sums);
            load_step(u);
        }
}

// Store a warp's sums to its team's tile in shared memory.
__device__ __forceinline__ void store_part(const WarpSums& sums, double (*to)[T::tile + 8], Position part)
{
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < T::part / 16; i++)
#pragma unroll
        for (int j = 0; j < eights; j++) {
            double* first = &to[part.row + 16 * i + g][part.col + 8 * j + 2 * t];
            *(double2*)first = {sums[i][j][0], sums[i][j][1]};
            *(double2*)(first + 8 * (T::tile + 8)) = {sums[i][j][2], sums[i][j][3]};
        }
}

// ---- The block's tile ----

// Call `run` for each of a thread's elements of the tile: its number, row and column. Neighbouring threads
// have neighbouring elements of a row.
template <class Run>
__device__ __forceinline__ void each_element(Run run)
{
#pragma unroll
    for (int i = 0; i < elements; i++) {
        const int element = i * threads + threadIdx.x;
        if (T::tile * T::tile % threads == 0 || element < T::tile * T::tile)
            run(i, element / T::tile, element % T::tile);
    }
}

// Multiply rows of A, from `begin` to before `end`, for the tile at `at`.
__device__ __forceinline__ void multiply(const double* A, int n, Position at, int begin, int end,
                                         SharedMemory& shared, ThreadSums& sums)
{
    const bool on_diagonal = at.row == at.col;
    const int parts = on_diagonal ? side * (side + 1) / 2 : side * side, teams = T::warps / parts;
    const int warp = threadIdx.x / 32, number = warp % parts, team = warp / parts;
    Position part = on_diagonal ? in_triangle(number) : Position{number / side, number % side};
    part.row *= T::part, part.col *= T::part;
    {
        WarpSums own = {};
        const Position corner = {at.row + part.row, at.col + part.col};
        if (corner.row == corner.col)
            multiply_rows<true>(A, n, corner, begin, end, team, teams, own);
        else
            multiply_rows<false>(A, n, corner, begin, end, team, teams, own);
        store_part(own, shared.sums[team], part);
    }
    __syncthreads();
    each_element([&](int i, int row, int col) {
        sums[i] = 0;
        if (at.row + row > at.col + col) return;  // below the diagonal
        for (int k = 0; k < teams; k++) sums[i] += shared.sums[k][row][col];
    });
}

// Store the tile at `at`, and its mirror image by way of shared memory, so that both are stored by rows.
__device__ __forceinline__ void store(const ThreadSums& sums, double* C, int n, Position at,
                                      SharedMemory& shared)
{
    each_element([&](int i, int row, int col) {
        shared.mirror[col][row] = sums[i];
        const int y = at.row + row, x = at.col + col;
        if (y <= x && x < n) C[(size_t)y * n + x] = sums[i];
    });
    __syncthreads();
    each_element([&](int, int row, int col) {
        const int y = at.col + row, x = at.row + col;
        if (y > x && y < n) C[(size_t)y * n + x] = shared.mirror[row][col];
    });
}

// ---- Sums of other blocks ----

// Leave a block's sums for another one.
__device__ __forceinline__ void leave_sums(const ThreadSums& sums)
{
    each_element([&](int i, int row, int col) { partial_sums[blockIdx.x][row * T::tile + col] = sums[i]; });
    announce(&flags[blockIdx.x]);
}

// Add what the blocks `first`, `first` + `apart` ... up to `last` have left, in this order.
__device__ __forceinline__ void add_left_sums(ThreadSums& sums, int first, int last, int apart)
{
    wait_for_sums(flags, first, last, apart);
    for (; first <= last; first += batch * apart) {
        double left[batch][elements];
#pragma unroll
        for (int k = 0; k < batch; k++)
            each_element([&](int i, int row, int col) {
                left[k][i] = partial_sums[min(first + k * apart, last)][row * T::tile + col];
            });
#pragma unroll
        for (int k = 0; k < batch; k++)
#pragma unroll
            for (int i = 0; i < elements; i++) sums[i] += first + k * apart <= last ? left[k][i] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(threads, T::resident)
gram_tensor_direct(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    extern __shared__ __align__(128) double2 memory[];
    SharedMemory& shared = *(SharedMemory*)memory;
    const int along = (n + T::tile - 1) / T::tile, tiles = along * (along + 1) / 2;
    const int splits = max(1, min(T::blocks / tiles, m / T::least));
    const int rows = (m + splits - 1) / splits;
    int group = least_group;
    while (group * group < splits) group++;
    for (int tile = blockIdx.x / splits; tile < tiles; tile += T::blocks) {
        Position at = in_triangle(tile);
        at.row *= T::tile, at.col *= T::tile;
        const int split = blockIdx.x % splits, begin = min(split * rows, m);
        ThreadSums sums;
        multiply(A, n, at, begin, min(begin + rows, m), shared, sums);

        const int first = split / group * group, tile_first = (int)blockIdx.x - split;
        if (split == splits - 1 || split == first + group - 1)
            add_left_sums(sums, tile_first + first, (int)blockIdx.x - 1, 1);
        if (split < splits - 1) {
            leave_sums(sums);
        } else {
            add_left_sums(sums, tile_first + group - 1, tile_first + first - 1, group);
            store(sums, C, n, at, shared);
        }
    }
}
