// C = Aᵀ·A for any A of m×n: upper triangle by register tiles, prefetched, then mirrored.
//
// Idea        Three, one on top of the other. Symmetry: only blocks on and above the
//             diagonal work, and each result is stored twice, at (i, j) and (j, i).
//             Register tile: a thread computes R×R elements, R = TILE_WIDTH /
//             BLOCK_WIDTH, so that 2R loads from shared memory feed R² multiply-adds.
//             Prefetch: while a slab of A is being multiplied, the next one is on its
//             way from global memory into registers.
//
//                        A, m×n                            C, n×n
//                    row      column                  ┌────┬────┬────┐
//              ┌────┬────┬────┬────┐                  │ ◥  │    │    │   ◥ a diagonal tile
//              │    │    │    │    │                  ├────┼────┼────┤     keeps i ≤ j
//              ├────┼────┼────┼────┤  BLOCK_WIDTH     │    │ ◥  │ T  │
//              │    │ y  │    │ x  │  rows: a slab    ├────┼────┼────┤   T and its mirror
//              ├────┼────┼────┼────┤                  │    │ T' │ ◥  │     image T'
//              │    │    │    │    │                  └────┴────┴────┘
//              └────┴────┴────┴────┘
//
//             Slab x is kept as it lies in A, slab y transposed: both come from A. A
//             thread's results are BLOCK_WIDTH apart, so that neighbouring threads read
//             neighbouring words; the padding spreads y's columns over the banks.
//
// Traffic     2m/TILE_WIDTH · n²/2 reads of 8 bytes: 8mn²/TILE_WIDTH bytes, half of what
//             a kernel without symmetry needs. Per slab and thread: 2R loads from global
//             memory, 2R·BLOCK_WIDTH from shared, R²·BLOCK_WIDTH multiply-adds.
// Limit       Shared-memory loads while 2R > R²/2 (64 lanes of float64 a clock against
//             one shared-memory access): R = 3 is bound by them, R ≥ 4 by arithmetic.
//             Blocks below the diagonal start and leave; the mirrored stores are not
//             coalesced, n² of them against m·n²/2 multiply-adds.

static_assert(TILE_WIDTH % BLOCK_WIDTH == 0, "each thread computes a whole register tile");

constexpr int R = TILE_WIDTH / BLOCK_WIDTH;

// The element of A at (p, col), zero outside of it.
__device__ double element(const double* __restrict__ A, int m, int n, int p, int col)
{
    return p < m && col < n ? A[(size_t)p * n + col] : 0.0;
}

extern "C" __global__ void __launch_bounds__(BLOCK_WIDTH * BLOCK_WIDTH)
gram_register_tile(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    if (blockIdx.x < blockIdx.y) return;
    __shared__ double slab_x[BLOCK_WIDTH][TILE_WIDTH + 1];
    __shared__ double slab_y[TILE_WIDTH][BLOCK_WIDTH + 1];

    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE_WIDTH, col = blockIdx.x * TILE_WIDTH;

    double next_x[R], next_y[R], sums[R][R] = {};
    auto fetch = [&](int start) {
        for (int r = 0; r < R; r++) {
            next_x[r] = element(A, m, n, start + y, col + x + r * BLOCK_WIDTH);
            next_y[r] = element(A, m, n, start + y, row + x + r * BLOCK_WIDTH);
        }
    };
    auto stage = [&] {
        for (int r = 0; r < R; r++) {
            slab_x[y][x + r * BLOCK_WIDTH] = next_x[r];
            slab_y[x + r * BLOCK_WIDTH][y] = next_y[r];
        }
    };

    fetch(0);
    stage();
    __syncthreads();
    for (int start = 0; start < m; start += BLOCK_WIDTH) {
        const bool more = start + BLOCK_WIDTH < m;
        if (more) fetch(start + BLOCK_WIDTH);
        // <report gram_register_tile>
        for (int p = 0; p < BLOCK_WIDTH; p++) {
            double a[R], b[R];
            for (int r = 0; r < R; r++) {
                a[r] = slab_y[y + r * BLOCK_WIDTH][p];
                b[r] = slab_x[p][x + r * BLOCK_WIDTH];
            }
            for (int r = 0; r < R; r++)
                for (int s = 0; s < R; s++)
                    sums[r][s] += a[r] * b[s];
        }
        // </report>
        if (more) {
            __syncthreads();
            stage();
            __syncthreads();
        }
    }

    for (int r = 0; r < R; r++)
        for (int s = 0; s < R; s++) {
            const int i = row + y + r * BLOCK_WIDTH, j = col + x + s * BLOCK_WIDTH;
            if (i > j || j >= n) continue;
            C[(size_t)i * n + j] = sums[r][s];
            if (i < j) C[(size_t)j * n + i] = sums[r][s];
        }
}
