// C = A·B for any shape: a register tile in one dimension, a column of results per thread.
//
// Idea        In shared.cu every multiply-add takes two loads from shared memory. A thread that
//             computes ROWS elements of one column of C reads each element of B once and uses
//             it ROWS times: ROWS + 1 loads for ROWS multiply-adds.
//
//                     B: TILE_K×TILE_N          C: TILE_M×TILE_N of a block
//                    ┌───────b───────┐         ┌───────┬───────┐
//                    └───────────────┘         │       c       │  a thread's column: ROWS
//              A: ┌──┐                         │       c       │  sums in registers
//        TILE_M×  │a │                         │       c       │
//        TILE_K   │a │                         ├───────┼───────┤  TILE_M / ROWS threads
//                 └──┘                         └───────┴───────┘  share a column
//
//             Threads of a warp have neighbouring columns: they read neighbouring words of B
//             and all the same word of A, which is one broadcast.
//
// Traffic     Global memory: k(1/TILE_M + 1/TILE_N) reads of 4 bytes per element of C, half of
//             shared.cu's with tiles of 32. Shared memory: 1 + 1/ROWS loads per multiply-add.
// Removes     Half of the loads from shared memory.
// Limit       The other half: one load per multiply-add still, of a unit that is four times
//             slower at loads than at multiply-adds.

constexpr int GROUPS = TILE_M / ROWS;  // of threads, each TILE_N wide
constexpr int THREADS = GROUPS * TILE_N;

static_assert(TILE_M % ROWS == 0, "columns of ROWS results cover the tile");

extern "C" __global__ void __launch_bounds__(THREADS)
register_column(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
                int m, int n, int k)
{
    __shared__ float slab_a[TILE_M][TILE_K], slab_b[TILE_K][TILE_N];

    const int t = threadIdx.x, x = t % TILE_N, group = t / TILE_N;
    const int row = blockIdx.y * TILE_M, col = blockIdx.x * TILE_N;

    float sums[ROWS] = {};
    for (int start = 0; start < k; start += TILE_K) {
        for (int i = t; i < TILE_M * TILE_K; i += THREADS) {
            const int r = i / TILE_K, p = i % TILE_K;
            const bool inside = row + r < m && start + p < k;
            slab_a[r][p] = inside ? A[(size_t)(row + r) * k + start + p] : 0.0f;
        }
        for (int i = t; i < TILE_K * TILE_N; i += THREADS) {
            const int p = i / TILE_N, c = i % TILE_N;
            const bool inside = start + p < k && col + c < n;
            slab_b[p][c] = inside ? B[(size_t)(start + p) * n + col + c] : 0.0f;
        }
        __syncthreads();

        for (int p = 0; p < TILE_K; p++) {
            const float b = slab_b[p][x];
            for (int i = 0; i < ROWS; i++)
                sums[i] += slab_a[group * ROWS + i][p] * b;
        }
        __syncthreads();
    }

    for (int i = 0; i < ROWS; i++) {
        const int r = row + group * ROWS + i;
        if (r < m && col + x < n) C[(size_t)r * n + col + x] = sums[i];
    }
}
