// C = A·B for square matrices, one thread per element of C.
//
// Idea        The CPU's two outer loops become the grid; each thread keeps the inner one.
//
//                          col
//                     ┌─────┬─────┐        Thread (x, y) of a block of TILE_WIDTH²
//                     │  B  │     │        threads walks along one row of A and
//                     │     ▼     │        down one column of B.
//             ┌───────┼─────┬─────┤
//         row │ A  ──►│     C     │
//             └───────┴───────────┘
//
// Traffic     Every thread reads 2n numbers for 2n operations: 4 bytes per operation, and
//             8n³ bytes in all. Caches soften it: with TILE_WIDTH = 32 the threads of a warp
//             lie in one row, so a step reads one number of A (broadcast) and one line of
//             128 bytes of B.
// Limit       Load instructions: two per multiply-add, so the load units are saturated long
//             before the arithmetic is. m and k are n here, and have no names.

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
naive(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
      int, int n, int)
{
    // <report naive>
    const int row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (row >= n || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < n; p++)
        sum += A[(size_t)row * n + p] * B[(size_t)p * n + col];
    C[(size_t)row * n + col] = sum;
    // </report>
}
