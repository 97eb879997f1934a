// A right product by tiles of 16×16 in shared memory.
extern "C" __global__ void mine(const float* A, const float* B, float* C, int m, int n, int k)
{
    __shared__ float a[16][16], b[16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += 16) {
        a[y][x] = row < m && start + x < k ? A[row * k + start + x] : 0.0f;
        b[y][x] = start + y < k && col < n ? B[(start + y) * n + col] : 0.0f;
        __syncthreads();  // until the tiles are there
        for (int p = 0; p < 16; ++p) sum += a[y][p] * b[p][x];
        __syncthreads();  // until they are read
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
