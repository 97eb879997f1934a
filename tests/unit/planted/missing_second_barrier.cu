// Planted bug: a tile is overwritten while other threads still read it.
extern "C" __global__ void multiply(const float* A, const float* B, float* C, int m, int n, int k)
{
    __shared__ float tile_a[16][16], tile_b[16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 16) {
        tile_a[y][x] = row < m && start + x < k ? A[row * k + start + x] : 0.0f;
        tile_b[y][x] = start + y < k && column < n ? B[(start + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += tile_a[y][i] * tile_b[i][x];
    }
    if (row < m && column < n) C[row * n + column] = sum;
}
