// C = A·B for any shape: a register tile in one dimension, a column of results per thread.
//
// Idea        In shared.cu every multiply-add takes two loads from shared memory. A thread that
//             computes THREAD_M elements of one column of C reads each element of B once and uses it
//             THREAD_M times: THREAD_M + 1 loads for THREAD_M multiply-adds.
//
//                     B: TILE_K×TILE_N          C: TILE_M×TILE_N of a block
//                    ┌───────b───────┐         ┌───────┬───────┐
//                    └───────────────┘         │       c       │  a thread's column: THREAD_M
//              A: ┌──┐                         │       c       │  sums in registers
//        TILE_M×  │a │                         │       c       │
//        TILE_K   │a │                         ├───────┼───────┤  TILE_M / THREAD_M threads
//                 └──┘                         └───────┴───────┘  share a column
//
//             Threads of a warp have neighbouring columns: they read neighbouring words of B
//             and all the same word of A, which is one broadcast.
//
// Traffic     Global memory: k(1/TILE_M + 1/TILE_N) reads of 4 bytes per element of C, half of
//             shared.cu's with tiles of 32. Shared memory: 1 + 1/THREAD_M loads per multiply-add.
// Removes     Half of the loads from shared memory.
// Limit       The other half: each multiply-add still needs one load, and a multiprocessor serves
//             loads four times as slowly as it does multiply-adds.

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                   // steps of k of a slab
    static constexpr int thread_m = THREAD_M;               // rows of C of a thread
    static constexpr int threads = tile_m / thread_m * tile_n;  // of a block, in rows of tile_n
};

static_assert(Tiling::tile_m % Tiling::thread_m == 0, "the threads' columns cover the tile");

extern "C" __global__ void __launch_bounds__(Tiling::threads)
register_column(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                int m, int n, int k)
{
    using T = Tiling;
    __shared__ float slab_a[T::tile_m][T::tile_k], slab_b[T::tile_k][T::tile_n];

    const int t = threadIdx.x, x = t % T::tile_n, group = t / T::tile_n;
    const int row = blockIdx.y * T::tile_m, col = blockIdx.x * T::tile_n;

    float sums[T::thread_m] = {};
    for (int start = 0; start < k; start += T::tile_k) {
        for (int i = t; i < T::tile_m * T::tile_k; i += T::threads) {
            const int r = i / T::tile_k, p = i % T::tile_k;
            const bool inside = row + r < m && start + p < k;
            slab_a[r][p] = inside ? A[(size_t)(row + r) * k + start + p] : 0.0f;
        }
        for (int i = t; i < T::tile_k * T::tile_n; i += T::threads) {
            const int p = i / T::tile_n, c = i % T::tile_n;
            const bool inside = start + p < k && col + c < n;
            slab_b[p][c] = inside ? B[(size_t)(start + p) * n + col + c] : 0.0f;
        }
        __syncthreads();

        for (int p = 0; p < T::tile_k; p++) {
            const float b = slab_b[p][x];
            for (int i = 0; i < T::thread_m; i++)
                sums[i] += slab_a[group * T::thread_m + i][p] * b;
        }
        __syncthreads();
    }

    for (int i = 0; i < T::thread_m; i++) {
        const int r = row + group * T::thread_m + i;
        if (r < m && col + x < n) C[(size_t)r * n + col + x] = sums[i];
    }
}
