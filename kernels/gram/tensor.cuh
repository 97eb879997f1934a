// A block's tile of C = Aᵀ·A in the kernels on fp64 tensor cores. The first page of tensor.cu explains
// the whole; this file has its parts, in the order of that page:
//
//     sizes             what follows from the tiling
//     WarpTile          which part of the tile a warp computes, off the diagonal and on it
//     Slab, SlabPair    what lies in shared memory
//     SlabCopies        which elements each thread copies there, and when
//     Fragments         which elements each lane loads from there; product.cuh has their products
//     multiply_slabs    the loop over the slabs
//     store_squares     the way of the results to C and to its mirror image; store_rows where rows of C
//                       begin anywhere in a sector
//
// T is a kernel's tiling: `struct Tiling` in tensor.cu or tensor_streamed.cu, which says what each of its
// numbers is. `diagonal` is true for tiles on the diagonal of C, `pairs` where two elements are one access.
#pragma once

#include "../async_copy.cuh"
#include "product.cuh"

// The rows of products of a strip of warp_n columns that reach the triangle, in a tile on the diagonal.
__host__ __device__ constexpr int rows_in_triangle(int strip, int warp_n)
{
    return ((strip + 1) * warp_n + 15) / 16;
}

// The fewest rows of products for each warp with which `warps` warps are enough for a tile on the diagonal.
constexpr int rows_per_warp_on_diagonal(int strips, int warps, int warp_n)
{
    for (int rows = 1;; rows++) {
        int needed = 0;
        for (int strip = 0; strip < strips; strip++)
            needed += (rows_in_triangle(strip, warp_n) + rows - 1) / rows;
        if (needed <= warps) return rows;
    }
}

template <bool value> struct Constant { static constexpr bool is = value; };

// What a lane stores of a row at once.
template <bool pairs> struct PieceOf { using Type = double; };
template <> struct PieceOf<true> { using Type = double2; };

template <class T>
struct GramTile {
    // ---- Sizes ----

    static constexpr int warps_m = T::tile / T::warp_m, warps_n = T::tile / T::warp_n;
    static constexpr int threads = 32 * warps_m * warps_n;
    static constexpr int pitch = T::tile + 4;  // elements from row to row of a slab: 8 banks apart
    static constexpr int copies_of_row = T::tile / 2;  // of 16 bytes, to bring a row of a slab
    static constexpr int copies = T::tile_k * copies_of_row / threads;  // of a thread, slab and operand
    static constexpr int rows_per_pass = threads / copies_of_row;  // of a slab, by one copy of each thread
    static constexpr int products_m = T::warp_m / 16, products_n = T::warp_n / 8;  // of a warp's tile
    static constexpr int steps = T::tile_k / T::step;  // of a slab

    static_assert(T::tile % T::warp_m == 0 && T::tile % T::warp_n == 0, "warps cover the block's tile");
    static_assert(T::warp_m % 16 == 0 && T::warp_n % 8 == 0, "products cover a warp's tile");
    static_assert(T::step == 8 || T::step == 16, "the products that there are");
    static_assert(steps % 2 == 0, "operands are loaded by turns to two places");
    static_assert(threads % copies_of_row == 0 && T::tile_k % rows_per_pass == 0, "threads cover a slab");

    // Rows of products of a warp: the most and the fewest. On the diagonal a warp may have one less.
    template <bool diagonal> static constexpr int most_rows =
        diagonal ? rows_per_warp_on_diagonal(warps_n, warps_m * warps_n, T::warp_n) : products_m;
    template <bool diagonal> static constexpr int fewest_rows =
        diagonal && most_rows<true> > 1 ? most_rows<true> - 1 : most_rows<diagonal>;

    // Portions of a slab's copies. On the diagonal there are half as many copies.
    template <bool diagonal> static constexpr int portions =
        diagonal && T::portions > 1 ? T::portions / 2 : T::portions;

    // Groups of copies that may be under way while a warp waits for the next slab: those of later slabs.
    // The group of the slab that is being issued is one of them only if it is issued by then.
    template <bool diagonal> static constexpr int later_groups =
        portions<diagonal> <= (steps - 1) * fewest_rows<diagonal> ? T::stages - 2 : T::stages - 3;

    static_assert(copies % T::portions == 0 && copies % portions<true> == 0,
                  "portions cover a slab's copies");
    static_assert(T::portions <= steps * products_m && portions<true> <= steps * fewest_rows<true>,
                  "there is a row of products for each portion");
    static_assert(later_groups<false> >= 0 && later_groups<true> >= 0, "a slab is copied before it is read");
    // ptxas 13.0 lets a single product begin the next slab before its own sum is there.
    static_assert(fewest_rows<true> * products_n > 1, "a warp has two products or more");

    // A lane's sums: four of each product of its warp.
    template <bool diagonal> using ThreadSums = double[most_rows<diagonal>][products_n][4];

    // ---- A warp's part of the tile ----

    // Its first element in the block's tile, and how many rows of products it has.
    struct WarpTile { int row, col, rows; };

    // On the diagonal only the rows of products that reach the triangle count: the farther right a strip
    // of warp_n columns lies, the more. The block's warps share them out anew:
    //
    //        ┌────┬────┬────┬────┐
    //        │ 0  │ 1  │ 3  │ 5  │    128 columns in strips of 32: they have 2, 4, 6 and 8 rows of
    //        └────┼────┤    │    │    products, and 1, 2, 2 and 3 warps with two or three rows each.
    //             │ 2  ├────┼────┤    Off the diagonal a warp has four. The four schedulers have the
    //             └────┤ 4  │ 6  │    warps 0 and 4, 1 and 5, 2 and 6, 3 and 7: five rows each.
    //                  └────┼────┤
    //                       │ 7  │
    //                       └────┘
    template <bool diagonal>
    static __device__ __forceinline__ WarpTile warp_tile()
    {
        int warp = threadIdx.x / 32;
        if (!diagonal) return {warp / warps_n * T::warp_m, warp % warps_n * T::warp_n, products_m};
#pragma unroll
        for (int strip = 0; strip < warps_n; strip++) {
            const int rows = rows_in_triangle(strip, T::warp_n);
            const int warps = (rows + most_rows<true> - 1) / most_rows<true>;
            if (warp < warps) {
                const int first = (warp * rows + warps - 1) / warps;
                return {first * 16, strip * T::warp_n, ((warp + 1) * rows + warps - 1) / warps - first};
            }
            warp -= warps;
        }
        return {0, 0, 0};
    }

    // ---- Shared memory ----

    struct alignas(16) Slab { double x[T::tile_k][pitch]; };

    // Rows of A: `left` those columns that are rows of the tile, `right` those that are its columns. On
    // the diagonal they are the same, and `left` is both.
    struct SlabPair { Slab left, right; };

    // A barrier of the block. On the diagonal its warps meet it in different loops, which the form without
    // .aligned allows: a warp waits for its own threads, then counts as arrived, wherever it is (PTX ISA,
    // "Parallel Synchronization and Communication Instructions: barrier{.cta}"). Off the diagonal all threads
    // execute the same instruction, as the aligned form bar.sync asks; ptxas orders those loops better.
    template <bool diagonal>
    static __device__ __forceinline__ void sync_block()
    {
#ifdef __CUDA_ARCH__
        if constexpr (fewest_rows<diagonal> < most_rows<diagonal>)
            asm volatile("barrier.cta.sync 1, %0;" :: "n"(threads) : "memory");
        else
            asm volatile("bar.sync 1, %0;" :: "n"(threads) : "memory");
#else
        __syncthreads();
#endif
    }

    // ---- Copies from global to shared memory ----

    // A thread's copies of one operand, row after row: a pair of neighbours at once, or two words, so that
    // neighbouring threads copy neighbours either way.
    template <bool pairs>
    struct OperandCopies {
        const double* from;
        int remaining_columns;  // of A, from the thread's first one on

        // The thread's first column of a slab.
        static __device__ __forceinline__ int column()
        {
            return threadIdx.x % copies_of_row * (pairs ? 2 : 1);
        }

        __device__ __forceinline__ OperandCopies(const double* A, int n, int row, int col)
        {
            const int c = column();
            remaining_columns = n - col - c;
            from = A + (size_t)row * n + col + (pairs ? min(c, n - 2 - col) : c);
        }

        __device__ __forceinline__ void copy(double* to, bool valid, int n)
        {
            if (pairs) {
                copy_async<16>(to, from, valid);
            } else {
                copy_async<8>(to, from, valid && remaining_columns > 0);
                copy_async<8>(to + copies_of_row, from + copies_of_row,
                              valid && remaining_columns > copies_of_row);
            }
            from += (size_t)rows_per_pass * n;
        }
    };

    // A thread's copies of the slabs from number `begin` to before `end`, of the tile at (row, col), and
    // zeros after them.
    template <bool pairs, bool diagonal>
    struct SlabCopies {
        OperandCopies<pairs> left, right;
        int n, remaining_rows;  // of A: its columns; its rows from the next copy on

        __device__ __forceinline__ SlabCopies(const double* A, int m, int n, int row, int col, int begin,
                                              int end)
            : left(A, n, begin * T::tile_k + threadIdx.x / copies_of_row, row),
              right(A, n, begin * T::tile_k + threadIdx.x / copies_of_row, col), n(n)
        {
            remaining_rows = min(m, end * T::tile_k) - begin * T::tile_k - (int)threadIdx.x / copies_of_row;
        }

        // Issue one portion of the next slab's copies.
        __device__ __forceinline__ void issue(SlabPair& slabs, int portion)
        {
            constexpr int size = copies / portions<diagonal>;
            const int c = OperandCopies<pairs>::column(), first = threadIdx.x / copies_of_row;
#pragma unroll
            for (int i = 0; i < size; i++) {
                const int p = first + (portion * size + i) * rows_per_pass;
                left.copy(&slabs.left.x[p][c], remaining_rows > 0, n);
                if (!diagonal) right.copy(&slabs.right.x[p][c], remaining_rows > 0, n);
                remaining_rows -= rows_per_pass;
            }
        }
    };

    // ---- Products ----

    // A lane's operands of one step, for `rows` rows of products.
    //
    // Any 16 rows of the tile can be a product's: lane 4g + t loads columns 2g and 2g + 1 of a slab at
    // once, for rows g and g + 8 of a product. That would save loads of the other operand too. But the
    // tensor core wants an operand's registers side by side, and to move them there costs more.
    template <int rows>
    struct Fragments {
        double a[rows][T::step / 2], b[products_n][T::step / 4];

        // Load those of the step that begins at row p of the slabs.
        __device__ __forceinline__ void load(const Slab& left, const Slab& right, int p,
                                             const WarpTile& warp)
        {
            const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
            const double* row = left.x[p + t] + warp.row + 2 * g;
            const double* col = right.x[p + t] + warp.col + g;
#pragma unroll
            for (int e = 0; e < T::step / 4; e++) {
#pragma unroll
                for (int i = 0; i < rows; i++) {
                    const double2 two = *(const double2*)(row + 4 * e * pitch + 16 * i);
                    a[i][2 * e] = two.x, a[i][2 * e + 1] = two.y;
                }
#pragma unroll
                for (int j = 0; j < products_n; j++) b[j][e] = col[4 * e * pitch + 8 * j];
            }
        }
    };

    // Add a step's products to `sums`, row by row; call `before_row` before each row of products.
    template <int rows, class BeforeRow>
    static __device__ __forceinline__ void multiply_step(const Fragments<rows>& fragments,
                                                         double (*sums)[products_n][4],
                                                         BeforeRow before_row)
    {
#ifdef __CUDA_ARCH__
#pragma unroll
        for (int i = 0; i < rows; i++) {
            before_row(i);
#pragma unroll
            for (int j = 0; j < products_n; j++)
                add_product<T::step>(sums[i][j], fragments.a[i], fragments.b[j]);
        }
#else  // on the CPU the lanes of a warp exchange their operands through memory that no GPU has
        for (int i = 0; i < rows; i++) before_row(i);
        static Fragments<rows> lanes[threads];
        const int lane = threadIdx.x % 32, warp = threadIdx.x - lane, g = lane / 4, t = lane % 4;
        lanes[threadIdx.x] = fragments;
        sync_block<false>();
        for (int e = 0; e < 4; e++)
            for (int p = 0; p < T::step; p++) {
                const Fragments<rows>& left = lanes[warp + 4 * g + p % 4];
                const Fragments<rows>& right = lanes[warp + 4 * (2 * t + e % 2) + p % 4];
                for (int i = 0; i < rows; i++)
                    for (int j = 0; j < products_n; j++)
                        sums[i][j][e] += left.a[i][p / 4 * 2 + e / 2] * right.b[j][p / 4];
            }
        sync_block<false>();
#endif
    }

    // Add to `sums` the products of the slabs from number `begin` to before `end`, of the tile at
    // (row, col), for a warp with `rows` rows of products.
    template <bool pairs, bool diagonal, int rows>
    static __device__ __forceinline__ void multiply_slabs(const double* A, int m, int n, int row, int col,
                                                          int begin, int end, SlabPair* ring,
                                                          const WarpTile& warp,
                                                          double (*sums)[products_n][4])
    {
        SlabCopies<pairs, diagonal> copies(A, m, n, row, col, begin, end);
        Fragments<rows> fragments[2];  // one is loaded while the other is multiplied
        auto load = [&](Fragments<rows>& fragment, const SlabPair& slabs, int p) {
            fragment.load(slabs.left, diagonal ? slabs.left : slabs.right, p, warp);
        };
        for (int s = 0; s < T::stages - 1; s++) {
#pragma unroll
            for (int portion = 0; portion < portions<diagonal>; portion++) copies.issue(ring[s], portion);
            commit_copies();
        }
        wait_for_copies<T::stages - 2>();
        sync_block<diagonal>();
        load(fragments[0], ring[0], 0);

        int stage = 0, free = T::stages - 1;
        for (int s = begin; s < end; s++) {
            const int following = stage + 1 < T::stages ? stage + 1 : 0;
#pragma unroll
            // <report gram_tensor>
            for (int p = 0; p < T::tile_k; p += T::step) {
                const bool last = p == T::tile_k - T::step;
                if (last) {  // all of this slab is loaded; the next one has to be there
                    wait_for_copies<later_groups<diagonal>>();
                    sync_block<diagonal>();
                }
                load(fragments[(p / T::step + 1) % 2], ring[last ? following : stage],
                     (p + T::step) % T::tile_k);
                multiply_step<rows>(fragments[p / T::step % 2], sums, [&](int i) {
                    const int portion = p / T::step * rows + i;
                    if (portion < portions<diagonal>) copies.issue(ring[free], portion);
                    if (portion == portions<diagonal> - 1) commit_copies();
                });
            }
            // </report>
            free = stage, stage = following;
        }
        wait_for_copies<0>();  // the copies after the last slab, which fill zeros
    }

    // The same with a loop for each number of rows. If one loop chose between them, ptxas would order the
    // instructions of all loops in another way, and the tensor cores would wait.
    template <bool pairs, bool diagonal>
    static __device__ __forceinline__ void multiply_slabs(const double* A, int m, int n, int row, int col,
                                                          int begin, int end, SlabPair* ring,
                                                          ThreadSums<diagonal>& sums)
    {
        constexpr int most = most_rows<diagonal>, fewest = fewest_rows<diagonal>;
        const WarpTile warp = warp_tile<diagonal>();
        if constexpr (fewest < most)
            if (warp.rows < most) {
                multiply_slabs<pairs, diagonal, fewest>(A, m, n, row, col, begin, end, ring, warp, sums);
                return;
            }
        multiply_slabs<pairs, diagonal, most>(A, m, n, row, col, begin, end, ring, warp, sums);
    }

    // ---- Results ----

    // Store the tile at (row, col) and its mirror image. A lane has 2×2 neighbouring results of each
    // product. Those of a row lie beside those of three other lanes, those of a column beside those of
    // seven, so that both stores fill whole sectors.
    template <bool pairs, bool diagonal>
    static __device__ __forceinline__ void store_squares(const ThreadSums<diagonal>& sums, double* C, int n,
                                                         int row, int col)
    {
        const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
        const WarpTile warp = warp_tile<diagonal>();
        row += warp.row + 2 * g, col += warp.col + 2 * t;
#pragma unroll
        for (int i = 0; i < most_rows<diagonal>; i++)
#pragma unroll
            for (int j = 0; j < products_n; j++) {
                if (i >= warp.rows) continue;
                const int r = row + 16 * i, c = col + 8 * j;
                const double(&square)[4] = sums[i][j];
                if (pairs && r + 1 <= c && c < n) {
                    *(double2*)&C[(size_t)r * n + c] = {square[0], square[1]};
                    *(double2*)&C[(size_t)(r + 1) * n + c] = {square[2], square[3]};
                    *(double2*)&C[(size_t)c * n + r] = {square[0], square[2]};
                    *(double2*)&C[(size_t)(c + 1) * n + r] = {square[1], square[3]};
                    continue;
                }
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    const int y = r + e / 2, x = c + e % 2;
                    if (y > x || x >= n) continue;
                    C[(size_t)y * n + x] = square[e];
                    if (y < x) C[(size_t)x * n + y] = square[e];
                }
            }
    }

    // The same where rows of C begin anywhere in a sector. A warp's results pass through its part of the ring's
    // memory, as many rows of products at a time as there is room for. Then it stores neighbours: warp_n of a row
    // of C, and of a row of the mirror image 16 for each row of products. Only the sectors at both ends are not
    // filled.
    // `memory`: the ring's, which is free once all slabs are multiplied.
    template <bool pairs, bool diagonal>
    static __device__ __forceinline__ void store_rows(const ThreadSums<diagonal>& sums, double* C, int n,
                                                      int row, int col, double* memory)
    {
        // A lane puts two neighbours of a row at once, and eight lanes those of two rows: this pitch gives them
        // all banks. In every other four rows the pairs change places two by two. Where words are read one by
        // one, so do the two of a pair in every other eight rows: 16 rows of a column have banks of their own.
        constexpr int pitch = T::warp_n + 4, room = T::stages * sizeof(SlabPair) / (threads / 32) / 128 / pitch;
        constexpr int most = most_rows<diagonal>, at_once = most < room ? most : room, rows = 16 * at_once;
        static_assert(room > 0, "the ring holds a row of products of each warp");

        const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
        const WarpTile warp = warp_tile<diagonal>();
        double* own = memory + threadIdx.x / 32 * rows * pitch;
        auto put = [&](int y, int x, double left, double right) {
            const bool swapped = !pairs && y / 8 % 2;
            *(double2*)(own + y * pitch + (x ^ y / 4 % 2 * 2)) = {swapped ? right : left,
                                                                  swapped ? left : right};
        };
        auto at = [&](int y, int x) {
            return own + y * pitch + (x ^ y / 4 % 2 * 2 ^ (pairs ? 0 : y / 8 % 2));
        };
        using Piece = typename PieceOf<pairs>::Type;
        constexpr int size = sizeof(Piece) / sizeof(double);

        __syncthreads();  // nobody reads the ring any more, and no copy is under way
#pragma unroll
        for (int first = 0; first < most; first += at_once) {
#pragma unroll
            for (int i = first; i < min(first + at_once, most); i++)
#pragma unroll
                for (int j = 0; j < products_n; j++) {
                    const double(&square)[4] = sums[i][j];
                    const int y = 16 * (i - first) + 2 * g, x = 8 * j + 2 * t;
                    put(y, x, square[0], square[1]);
                    put(y + 1, x, square[2], square[3]);
                }
            __syncwarp();
            const int top = row + warp.row + 16 * first, left = col + warp.col;
            const int bottom = row + warp.row + 16 * warp.rows;
            constexpr int across = T::warp_n / size, down = rows / size;  // pieces of a row, of a column
#pragma unroll 4
            for (int e = lane; e < rows * across; e += 32) {
                const int y = e / across, x = e % across * size, r = top + y, c = left + x;
                if (r < bottom && c < n && (!diagonal || r <= c))
                    *(Piece*)&C[(size_t)r * n + c] = *(const Piece*)at(y, x);
            }
#pragma unroll 4
            for (int e = lane; e < down * T::warp_n; e += 32) {
                const int y = e % down * size, x = e / down, r = top + y, c = left + x;
                if (r >= bottom || c >= n || (diagonal && r >= c)) continue;
                if constexpr (pairs)
                    *(double2*)&C[(size_t)c * n + r] = {*at(y, x), *at(y + 1, x)};
                else
                    C[(size_t)c * n + r] = *at(y, x);
            }
            __syncwarp();
        }
    }

    // ---- The four kinds of tiles ----

    // Whether rows of A and C begin at 16 bytes, so that two elements of a row are one access.
    static __device__ __forceinline__ bool rows_hold_pairs(const double* A, const double* C, int n)
    {
        return n % 2 == 0 && (((size_t)A | (size_t)C) & 15) == 0;
    }

    // Call `run` with both as constants: each of the four cases has loops of its own.
    template <class Run>
    static __device__ __forceinline__ void choose(bool pairs, bool diagonal, Run run)
    {
        if (pairs)
            diagonal ? run(Constant<true>(), Constant<true>()) : run(Constant<true>(), Constant<false>());
        else
            diagonal ? run(Constant<false>(), Constant<true>()) : run(Constant<false>(), Constant<false>());
    }
};
