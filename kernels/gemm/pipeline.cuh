// A block's tile of C in the kernels with asynchronous copies. The first page of pipelined.cu explains
// the whole; this file has its parts, in the order of that page:
//
//     sizes             what follows from the tiling
//     Slab              what lies in shared memory
//     SlabCopies        which words each thread copies there, and when
//     Fragments         which words each thread loads from there, and their products
//     Pipeline          the loop over the slabs
//     add_teams         the sum over the teams of a block
//     store             the way of the results to C
//     compute_tile      all of it, for one team
//
// T is a kernel's tiling: `struct Tiling` in pipelined.cu, bulk.cu or streamed.cu, which says what each
// of its numbers is.
#pragma once

#include "../async_copy.cuh"
#include "../patches.cuh"
#include "fours.cuh"

template <class T>
struct BlockTile {
    // ---- Sizes ----

    static constexpr int lanes_m = T::warp_m / T::thread_m, lanes_n = T::warp_n / T::thread_n;
    static constexpr int warps_m = T::tile_m / T::warp_m, warps_n = T::tile_n / T::warp_n;
    static constexpr int team_threads = 32 * warps_m * warps_n, threads = T::teams * team_threads;
    static constexpr int result_rows = T::thread_m / T::teams;  // of a thread, once the teams are added up
    static constexpr int pitch_a = T::tile_m + 4;  // words from step to step of a slab's A: 4 banks apart
    static constexpr int across_a = 8;  // threads that copy a row of A: 8 steps of 4 rows are 32 banks
    static constexpr int rows_per_pass_a = team_threads / across_a, passes_a = T::tile_m / rows_per_pass_a;
    static constexpr int copies_of_a = passes_a * (T::tile_k / across_a);  // of a thread and slab
    static constexpr int steps_per_portion = T::tile_k / T::portions;

    static_assert(lanes_m * lanes_n == 32, "a warp's lanes cover its tile");
    static_assert(T::tile_m % T::warp_m == 0 && T::tile_n % T::warp_n == 0, "warps cover the block's tile");
    static_assert(T::thread_m % 4 == 0 && T::thread_n % 4 == 0, "operands are loaded four words at a time");
    static_assert(T::tile_k % across_a == 0 && T::tile_m % rows_per_pass_a == 0,
                  "threads cover the slab of A");
    static_assert(T::stages >= 2, "one slab is read while others arrive");
    static_assert(T::thread_m % T::teams == 0, "each team keeps as many rows of results");
    static_assert(steps_per_portion > 1, "the last portion is issued before the slab's last step");
    static_assert(T::xor_m < 4 && T::xor_n < 4, "rows and columns change places in fours");

    // A[row][k] lies in a[k][row], transposed, so that a step's operands lie side by side.
    struct alignas(16) Slab {
        float a[T::tile_k][pitch_a], b[T::tile_k][T::tile_n];
    };

    static_assert(T::teams == 1 || T::thread_m * T::thread_n * team_threads * 4 <= T::stages * sizeof(Slab),
                  "the rings hold the teams' sums");

    using ThreadSums = float[T::thread_m][T::thread_n];        // what a thread adds up in the loop
    using ThreadResults = float[result_rows][T::thread_n];  // what it stores

    // ---- Positions ----

    // The position of a tile of C, in tiles, by its number. Blocks that run at the same time have
    // neighbouring numbers.
    static __device__ __forceinline__ int2 tile_position(int tile, int tiles_m, int tiles_n)
    {
        return place_in_patches<T::patch>(tile, tiles_m, tiles_n);
    }

    static __device__ __forceinline__ int team() { return T::teams == 1 ? 0 : threadIdx.x / team_threads; }

    // A lane's position in its warp. Shared memory joins accesses of the lanes of each eight and each
    // sixteen if they read few different words, so these are squares: lanes 0 and 1 share a column,
    // 0 and 2 a row.
    static __device__ __forceinline__ int lane_row()
    {
        const int lane = threadIdx.x % 32;
        return lanes_m == 1 ? 0 : lane % 2 + lane / (2 * lanes_n) * 2;
    }

    static __device__ __forceinline__ int lane_col()
    {
        const int lane = threadIdx.x % 32;
        return lanes_m == 1 ? lane : lane / 2 % lanes_n;
    }

    // Where in the block's tile a thread's results begin.
    static __device__ __forceinline__ int thread_row()
    {
        return threadIdx.x % team_threads / 32 / warps_n * T::warp_m + lane_row() * 4;
    }
    static __device__ __forceinline__ int thread_col()
    {
        return threadIdx.x / 32 % warps_n * T::warp_n + lane_col() * 4;
    }

    // The row of a thread's result i, counted from its warp's first row and lane_row() * 4.
    static __device__ __forceinline__ int row_of_result(int i)
    {
        const int of_all = team() * result_rows + i;
        return of_all / 4 * 4 * lanes_m + of_all % 4;
    }

    // ---- Barriers ----

    static __device__ __forceinline__ void sync_team()
    {
        if constexpr (T::teams == 1) {
            __syncthreads();
        } else if constexpr (team_threads == 32) {
            __syncwarp();
        } else {
#ifdef __CUDA_ARCH__
            asm volatile("bar.sync %0, %1;" :: "r"(team() + 1), "n"(team_threads) : "memory");
#else
            __syncthreads();
#endif
        }
    }

    // ---- Copies from global to shared memory ----

    // How a team copies a slab of B, `words` words at a time: `across` threads share a row, the next
    // threads take the next row, and a pass covers `rows_per_pass` rows. A thread's copies of a row lie
    // `stride` words apart, so that one address serves for all.
    template <int words>
    struct LayoutOfB {
        // Each single word is compared with the end of its row. A thread copies four of a row at most:
        // with eight ptxas spills 2 KB.
        static constexpr int across_words = T::tile_n > 128 ? T::tile_n / 4 : 32;
        static constexpr int wanted = words > 1 ? T::across : across_words;
        static constexpr int needed = team_threads / T::tile_k > wanted ? team_threads / T::tile_k : wanted;
        static constexpr int copies_of_row = T::tile_n / words;
        static constexpr int across = needed < copies_of_row ? needed : copies_of_row;
        static constexpr int stride = across * words, copies_per_pass = copies_of_row / across;
        static constexpr int rows_per_pass = team_threads / across, passes = T::tile_k / rows_per_pass;

        static_assert(copies_of_row % across == 0 && team_threads % across == 0 &&
                      T::tile_k % rows_per_pass == 0, "threads cover the slab of B");

        // Where in the slab a thread's first copy lies.
        static __device__ __forceinline__ int row() { return threadIdx.x % team_threads / across; }
        static __device__ __forceinline__ int col() { return threadIdx.x % team_threads % across * words; }
    };

    // At the right edge of C four words of B lie all inside or all outside, if rows begin at 16 bytes. So
    // edges need no loop of their own: two loops of 18 KB would displace each other from the instruction
    // cache that neighbouring multiprocessors share (WORKLOG.md). With more than four copies of a row to
    // compare with its end ptxas spills 5 KB.
    static constexpr bool fours_at_edges = LayoutOfB<4>::copies_per_pass <= 4;

    // Whether a tile that begins at column `col` can be copied and stored four words at a time.
    static __device__ __forceinline__ bool takes_fours(const float* B, const float* C, int n, int col)
    {
        return rows_hold_fours(B, C, n) && (fours_at_edges || col + T::tile_n <= n);
    }

    // A thread's copies: from where in A and B, and to where in a slab. In place of rows below A's last
    // one the last one is copied; the results are never stored. Outside of B, and from the end of k on,
    // zeros are filled in. `vectors`: one copy moves four words of B; see takes_fours.
    template <bool vectors>
    struct SlabCopies {
        using OfB = LayoutOfB<vectors ? 4 : 1>;

        static constexpr bool stores_fours = vectors;
        static constexpr int copies_of_b = OfB::passes * OfB::copies_per_pass;

        // The thread's first elements of the next slab, and how many elements from there each pass
        // begins: without a sign an offset takes half the registers of an address.
        const float *A, *B;
        unsigned pass_a[passes_a], pass_b[OfB::passes];
        int to_a, to_b;                          // the first elements' positions in a slab
        int remaining_k_of_a, remaining_k_of_b;  // steps of k from the first elements on
        int n, remaining_columns;                // of B: all, and those from the first element on

        // For the tile at (row, col) and the steps of k from `begin` to before `end`.
        __device__ __forceinline__ SlabCopies(const float* A, const float* B, int m, int n, int k,
                                              int row, int col, int begin, int end)
            : n(n), remaining_columns(n - col - OfB::col())
        {
            const int t = threadIdx.x % team_threads, p = t % across_a, first = t / across_a;
            const int last = m - 1 - row;
            begin += team() * T::tile_k, end = min(k, end);
            this->A = A + (size_t)(row + min(first, last)) * k + begin + p;
            this->B = B + (size_t)(begin + OfB::row()) * n + col + OfB::col();
            remaining_k_of_a = end - begin - p, remaining_k_of_b = end - begin - OfB::row();
            to_a = p * pitch_a + first, to_b = T::tile_k * pitch_a + OfB::row() * T::tile_n + OfB::col();
#pragma unroll
            for (int i = 0; i < passes_a; i++)
                pass_a[i] = (min(first + i * rows_per_pass_a, last) - min(first, last)) * k;
#pragma unroll
            for (int i = 0; i < OfB::passes; i++) pass_b[i] = i * OfB::rows_per_pass * n;
        }

        // Issue one portion of the next slab's first `count` copies into a stage of the ring, and go on
        // to the slab after it with the last portion. All copies at once would queue up.
        template <int count = copies_of_a + copies_of_b>
        __device__ __forceinline__ void issue(Slab* ring, int stage, int portion)
        {
            constexpr int size = (count + T::portions - 1) / T::portions;
            issue_some(ring[stage], portion * size, min((portion + 1) * size, count));
            if (portion < T::portions - 1) return;
            commit_copies();
            A += T::teams * T::tile_k, remaining_k_of_a -= T::teams * T::tile_k;
            B += (size_t)T::teams * T::tile_k * n, remaining_k_of_b -= T::teams * T::tile_k;
        }

        // Issue a slab's copies from number `first` to before `end`; those of A come first.
        __device__ __forceinline__ void issue_some(Slab& slab, int first, int end)
        {
            float* to = (float*)&slab;
#pragma unroll
            for (int e = first; e < end; e++) {
                if (e < copies_of_a) {
                    const int i = e / (T::tile_k / across_a), p = e % (T::tile_k / across_a) * across_a;
                    copy_async<4>(to + to_a + p * pitch_a + i * rows_per_pass_a, A + pass_a[i] + p,
                                  p < remaining_k_of_a);
                } else {
                    const int i = (e - copies_of_a) / OfB::copies_per_pass, p = i * OfB::rows_per_pass;
                    const int c = (e - copies_of_a) % OfB::copies_per_pass * OfB::stride;
                    const bool inside = (vectors && !fours_at_edges) || c < remaining_columns;
                    copy_async<vectors ? 16 : 4>(to + to_b + p * T::tile_n + c, B + pass_b[i] + c,
                                                 p < remaining_k_of_b && inside);
                }
            }
        }

        // The next slab's first element of B.
        __device__ __forceinline__ const float* slab_of_b() const
        {
            return B - (size_t)OfB::row() * n - OfB::col();
        }

        // Wait until the slab of a stage, issued stages - 1 slabs ago, has arrived.
        __device__ __forceinline__ void wait(int) { wait_for_copies<T::stages - 2>(); }
    };

    // ---- Products ----

    // A thread's operands of one step of k.
    struct Fragments {
        float a[T::thread_m], b[T::thread_n];

        __device__ __forceinline__ void load(const Slab& slab, int p)
        {
#pragma unroll
            for (int i = 0; i < T::thread_m; i += 4)
                *(float4*)&a[i] = *(const float4*)&slab.a[p][thread_row() + i * lanes_m];
#pragma unroll
            for (int j = 0; j < T::thread_n; j += 4)
                *(float4*)&b[j] = *(const float4*)&slab.b[p][thread_col() + j * lanes_n];
        }

        // Add a step's products: row after row of the results, to and fro, in the order i ^ xor_m and
        // j ^ xor_n. The order decides how many operands the register file's cache still holds from the
        // multiply-add before, and how many multiply-adds find two operands in one bank (WORKLOG.md).
        __device__ __forceinline__ void multiply(ThreadSums& sums) const
        {
#pragma unroll
            for (int e = 0; e < T::thread_m * T::thread_n; e++) {
                const int row = e / T::thread_n, within = e % T::thread_n;
                const int col = row % 2 ? T::thread_n - 1 - within : within;
                const int i = row ^ T::xor_m, j = col ^ T::xor_n;
                sums[i][j] += a[i] * b[j];
            }
        }
    };

    // The loop over a team's slabs: each passes through the ring, and is multiplied step by step.
    template <class Copies>
    struct Pipeline {
        Copies& copies;
        Slab* ring;
        Fragments fragments[2];  // one is loaded while the other is multiplied
        int stage = 0, free = T::stages - 1;

        __device__ __forceinline__ Pipeline(Copies& copies, Slab* rings)
            : copies(copies), ring(rings + team() * T::stages)
        {
#pragma unroll
            for (int s = 0; s < T::stages - 1; s++)
#pragma unroll
                for (int portion = 0; portion < T::portions; portion++) copies.issue(ring, s, portion);
            copies.wait(0);
            sync_team();
            fragments[0].load(ring[0], 0);
        }

        // Add the products of the next `slabs` slabs to the team's sums.
        __device__ __forceinline__ void multiply(int slabs, ThreadSums& sums)
        {
            // <report pipelined>
            for (int s = 0; s < slabs; s++) {
                const int following = stage + 1 < T::stages ? stage + 1 : 0;
#pragma unroll
                for (int p = 0; p < T::tile_k; p++) {
                    if (p == T::tile_k - 1) {  // all of this slab is loaded; the next one has to be there
                        copies.wait(following);
                        sync_team();
                    }
                    fragments[(p + 1) % 2].load(ring[p < T::tile_k - 1 ? stage : following],
                                                (p + 1) % T::tile_k);
                    if (p % steps_per_portion == 0) copies.issue(ring, free, p / steps_per_portion);
                    fragments[p % 2].multiply(sums);
                }
                free = stage, stage = following;
            }
            // </report>
        }

        // Wait for the copies after the last slab, which fill zeros: then the ring is free for other use.
        __device__ __forceinline__ void finish() { wait_for_copies<0>(); }
    };

    // ---- Results ----

    // Add up the teams' sums. Each team keeps the results of its own rows. `memory`: the rings'.
    static __device__ __forceinline__ void add_teams(const ThreadSums& sums, ThreadResults& results,
                                                     float* memory)
    {
        if constexpr (T::teams > 1) {
            __syncthreads();
#pragma unroll
            for (int e = 0; e < T::thread_m * T::thread_n; e++)
                memory[e * threads + threadIdx.x] = sums[e / T::thread_n][e % T::thread_n];
            __syncthreads();
        }
#pragma unroll
        for (int e = 0; e < result_rows * T::thread_n; e++) {
            float& result = results[e / T::thread_n][e % T::thread_n];
            result = sums[e / T::thread_n][e % T::thread_n];
            if constexpr (T::teams > 1) {
                const int first = (team() * result_rows * T::thread_n + e) * threads
                                  + threadIdx.x % team_threads;
                result = 0;
#pragma unroll
                for (int s = 0; s < T::teams; s++) result += memory[first + s * team_threads];
            }
        }
    }

    // Store a thread's results into the tile of C at (row, col), four words at a time.
    static __device__ __forceinline__ void store_fours(const ThreadResults& results, float* C, int m, int n,
                                                       int row, int col)
    {
        row += thread_row(), col += thread_col();
#pragma unroll
        for (int i = 0; i < result_rows; i++) {
            const int r = row + row_of_result(i);
            if (r >= m) continue;
#pragma unroll
            for (int j = 0; j < T::thread_n; j += 4) {
                const int c = col + j * lanes_n;
                store_four<true>(C + (size_t)r * n + c, in_own_registers(&results[i][j]), n - c);
            }
        }
    }

    // The same word by word. The results pass through the rings' memory, so that the lanes of a warp
    // store neighbouring words: straight from the registers a store would fill 8 of a sector's 32 bytes.
    static __device__ __forceinline__ void store_words(const ThreadResults& results, float* C, int m, int n,
                                                       int row, int col, float* memory)
    {
        constexpr int pitch = T::warp_n + 1, words_of_warp = lanes_m * pitch;  // rows lie a bank apart
        static_assert(threads / 32 * words_of_warp * 4 <= T::stages * T::teams * sizeof(Slab),
                      "the rings hold a row of each lane");
        const int lane = threadIdx.x % 32;
        float* rows = memory + threadIdx.x / 32 * words_of_warp;
        const int warp_row = thread_row() - lane_row() * 4, warp_col = thread_col() - lane_col() * 4;
        row += warp_row, col += warp_col;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < result_rows; i++) {
#pragma unroll
            for (int j = 0; j < T::thread_n; j++)
                rows[lane_row() * pitch + lane_col() * 4 + j / 4 * 4 * lanes_n + j % 4] = results[i][j];
            __syncwarp();
#pragma unroll
            for (int e = lane; e < lanes_m * T::warp_n; e += 32) {
                const int r = row + e / T::warp_n * 4 + row_of_result(i), c = col + e % T::warp_n;
                if (r < m && c < n) C[(size_t)r * n + c] = rows[e / T::warp_n * pitch + e % T::warp_n];
            }
            __syncwarp();
        }
    }

    template <bool vectors>
    static __device__ __forceinline__ void store(const ThreadResults& results, float* C, int m, int n,
                                                 int row, int col, float* memory)
    {
        if constexpr (vectors)
            store_fours(results, C, m, n, row, col);
        else
            store_words(results, C, m, n, row, col, memory);
    }

    // Compute the tile of C at (row, col), by one team of warps.
    template <class Copies>
    static __device__ __forceinline__ void compute_tile(const float* A, const float* B, float* C, int m,
                                                        int n, int k, int row, int col, Slab* ring)
    {
        Copies copies(A, B, m, n, k, row, col, 0, k);
        ThreadSums sums = {};
        Pipeline<Copies> pipeline(copies, ring);
        pipeline.multiply((k + T::tile_k - 1) / T::tile_k, sums);
        pipeline.finish();
        store<Copies::stores_fours>(sums, C, m, n, row, col, (float*)ring);
    }
};
