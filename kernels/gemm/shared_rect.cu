// C = A·B for any shape, tiles of A and B staged in shared memory, every load guarded.
//
// Idea        The tiled kernel with m, n and k kept apart. ceil(k / TILE_WIDTH) phases
//             cover the sum whatever its length; a load outside its matrix becomes zero.
//
//                 k                          n
//             ┌───────┬─┐               ┌───────┬─┐
//           m │       │░│             k │       │░│     ░ ragged edge: staged as zero
//             ├───────┼─┤               ├───────┼─┤       where it leaves the matrix
//             │░░░░░░░│░│               │░░░░░░░│░│
//             └───────┴─┘               └───────┴─┘
//
// Traffic     2k/TILE_WIDTH reads per thread: 8mnk/TILE_WIDTH bytes from global memory.
// Limit       Shared-memory loads, as in shared.cu. The guards cost four comparisons
//             per phase, shared by TILE_WIDTH multiply-adds.

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
shared_rect(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
            int m, int n, int k)
{
    __shared__ float tile_a[TILE_WIDTH][TILE_WIDTH];
    __shared__ float tile_b[TILE_WIDTH][TILE_WIDTH];

    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * TILE_WIDTH + y;
    const int col = blockIdx.x * TILE_WIDTH + x;

    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE_WIDTH) {
        tile_a[y][x] = row < m && start + x < k ? A[(size_t)row * k + start + x] : 0.0f;
        tile_b[y][x] = start + y < k && col < n ? B[(size_t)(start + y) * n + col] : 0.0f;
        __syncthreads();

        for (int p = 0; p < TILE_WIDTH; p++)
            sum += tile_a[y][p] * tile_b[p][x];
        __syncthreads();
    }
    if (row < m && col < n)
        C[(size_t)row * n + col] = sum;
}
