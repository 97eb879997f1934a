// C = A·B for any shape: a register tile in two dimensions.
//
// Idea        A thread computes R×R elements of C, as the outer product of R elements of a
//             column of A and R of a row of B, over and over: 2R loads from shared memory feed
//             R² multiply-adds. With R = 8 that is one load for four of them.
//
//                      B: TILE_K×TILE
//                     ┌─b───b───b───b─┐
//                     └───────────────┘
//               A     C: TILE×TILE of a block
//              ┌──┐   ┌─c───c───c───c─┐
//              │a │   │               │   A thread's results lie TILE / R apart
//              │a │   ├─c───c───c───c─┤   in both dimensions: neighbours in a
//              │a │   │               │   warp read neighbouring words.
//              └──┘   └─c───c───c───c─┘
//
//             The slab of A lies transposed, so that both operands are read along rows.
//
// Traffic     Global memory: 2k/TILE reads of 4 bytes per element of C. Shared memory: 2/R loads
//             per multiply-add.
// Removes     The bound of the shared memory's loads: a multiprocessor loads one word where it
//             does four multiply-adds, and 2R ≤ R²/4 from R = 8 on.
// Limit       Loads of one word each: 16 instructions beside 64 multiply-adds, and the latency
//             of global memory, for which all threads of the block wait at the barrier.

constexpr int WIDTH = TILE / R;  // threads along each dimension of the tile
constexpr int THREADS = WIDTH * WIDTH;
constexpr int PITCH = TILE + 1;  // of the transposed slab: half as many conflicts of its stores

static_assert(TILE % R == 0, "register tiles cover the block's tile");

extern "C" __global__ void __launch_bounds__(THREADS)
register_tile(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
              int m, int n, int k)
{
    __shared__ float slab_a[TILE_K][PITCH], slab_b[TILE_K][TILE];

    const int t = threadIdx.x, x = t % WIDTH, y = t / WIDTH;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;

    float sums[R][R] = {};
    for (int start = 0; start < k; start += TILE_K) {
        for (int i = t; i < TILE * TILE_K; i += THREADS) {
            const int r = i / TILE_K, p = i % TILE_K;
            const bool inside = row + r < m && start + p < k;
            slab_a[p][r] = inside ? A[(size_t)(row + r) * k + start + p] : 0.0f;
        }
        for (int i = t; i < TILE_K * TILE; i += THREADS) {
            const int p = i / TILE, c = i % TILE;
            const bool inside = start + p < k && col + c < n;
            slab_b[p][c] = inside ? B[(size_t)(start + p) * n + col + c] : 0.0f;
        }
        __syncthreads();

        // <report register_tile>
        for (int p = 0; p < TILE_K; p++) {
            float a[R], b[R];
            for (int i = 0; i < R; i++) {
                a[i] = slab_a[p][y + i * WIDTH];
                b[i] = slab_b[p][x + i * WIDTH];
            }
            for (int i = 0; i < R; i++)
                for (int j = 0; j < R; j++)
                    sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
        // </report>
    }

    for (int i = 0; i < R; i++)
        for (int j = 0; j < R; j++) {
            const int r = row + y + i * WIDTH, c = col + x + j * WIDTH;
            if (r < m && c < n) C[(size_t)r * n + c] = sums[i][j];
        }
}
