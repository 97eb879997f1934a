// C = A·B for square matrices, tiles of A and B staged in shared memory.
//
// Idea        The TILE_WIDTH² threads of a block need the same TILE_WIDTH rows of A and
//             columns of B. They fetch them together, a pair of square tiles per phase,
//             and each number fetched is then used TILE_WIDTH times from shared memory.
//
//                               ┌───┬───┬───┐
//                               │   │ b₀│   │     phase t:  load a_t and b_t
//                               ├───┼───┼───┤               barrier
//                               │   │ b₁│   │               sum += a_t · b_t
//                               ├───┼───┼───┤               barrier
//                               │   │ b₂│   │
//               ┌───┬───┬───┐   ├───┼───┼───┤
//               │ a₀│ a₁│ a₂│   │   │ C │   │
//               └───┴───┴───┘   └───┴───┴───┘
//
//             The tiles are addressed as the document does it: a linear start and a step
//             for each matrix. Where n is no multiple of the tile, the last tile is
//             ragged: what lies outside is staged as zero, which adds nothing to a sum.
// Traffic     2n/TILE_WIDTH reads per thread: 8n³/TILE_WIDTH bytes from global memory.
//             From shared memory still two reads per multiply-add.
// Limit       Shared-memory loads: a warp's multiply-add needs two of them, and an SM
//             serves one warp-wide load per cycle against four warp-wide multiply-adds.

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
shared(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
       int, int n, int)
{
    __shared__ float tile_a[TILE_WIDTH][TILE_WIDTH];
    __shared__ float tile_b[TILE_WIDTH][TILE_WIDTH];

    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE_WIDTH + y;
    const int col = blockIdx.x * TILE_WIDTH + x;

    size_t a = (size_t)row * n + x;                     // this thread's element of a₀
    size_t b = (size_t)y * n + col;                     // and of b₀
    const size_t step_a = TILE_WIDTH;                   // one tile to the right in A
    const size_t step_b = (size_t)TILE_WIDTH * n;       // one tile down in B

    float sum = 0.0f;
    // <report shared>
    for (int start = 0; start < n; start += TILE_WIDTH, a += step_a, b += step_b) {
        tile_a[y][x] = row < n && start + x < n ? A[a] : 0.0f;
        tile_b[y][x] = start + y < n && col < n ? B[b] : 0.0f;
        __syncthreads();

        for (int p = 0; p < TILE_WIDTH; p++)
            sum += tile_a[y][p] * tile_b[p][x];
        __syncthreads();
    }
    if (row < n && col < n)
        C[(size_t)row * n + col] = sum;
    // </report>
}
