// C = A·B for any shape, with a fast path for whole tiles and a guarded path for the rest.
//
// Idea        Only the blocks on the right and lower edge of C, and only the last phase
//             of a sum whose length is no multiple of the tile, can leave a matrix. The
//             guards are therefore a template parameter: `whole` compiles them away.
//
//                        n                 block                    phases
//              ┌───┬───┬───┬─┐             inside C                 whole … whole, edge
//              │   │   │   │░│             on its edge (░)          edge  …  edge
//            m ├───┼───┼───┼─┤
//              │   │   │   │░│             The decision is the same for all threads of
//              ├───┼───┼───┼─┤             a block, so no warp diverges and every
//              │░░░│░░░│░░░│░│             thread meets the same barriers.
//              └───┴───┴───┴─┘
//
// Traffic     2k/TILE_WIDTH reads per thread: 8mnk/TILE_WIDTH bytes, as in shared_rect.cu.
// Limit       Shared-memory loads; the split removes only the guards' comparisons.

using Tile = float[TILE_WIDTH][TILE_WIDTH];

template <bool whole>
__device__ float phase(const float* __restrict__ A, const float* __restrict__ B,
                       Tile& tile_a, Tile& tile_b,
                       int m, int n, int k, int row, int col, int start, float sum)
{
    const int x = threadIdx.x, y = threadIdx.y;

    const bool in_a = whole || (row < m && start + x < k);
    const bool in_b = whole || (start + y < k && col < n);
    tile_a[y][x] = in_a ? A[(size_t)row * k + start + x] : 0.0f;
    tile_b[y][x] = in_b ? B[(size_t)(start + y) * n + col] : 0.0f;
    __syncthreads();

    for (int p = 0; p < TILE_WIDTH; p++)
        sum += tile_a[y][p] * tile_b[p][x];
    __syncthreads();
    return sum;
}

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
shared_rect_split(const float* __restrict__ A, const float* __restrict__ B,
                  float* __restrict__ C, int m, int n, int k)
{
    __shared__ Tile tile_a, tile_b;

    const int row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    const bool inside = (blockIdx.y + 1) * TILE_WIDTH <= m && (blockIdx.x + 1) * TILE_WIDTH <= n;

    float sum = 0.0f;
    int start = 0;
    if (inside)
        for (; start + TILE_WIDTH <= k; start += TILE_WIDTH)
            sum = phase<true>(A, B, tile_a, tile_b, m, n, k, row, col, start, sum);
    for (; start < k; start += TILE_WIDTH)
        sum = phase<false>(A, B, tile_a, tile_b, m, n, k, row, col, start, sum);

    if (row < m && col < n)
        C[(size_t)row * n + col] = sum;
}
