// A mistake on purpose: blocks that lie whole inside C take a path without guards, whatever k is.
#define TILE 16

__global__ void fast_path(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    bool whole = (blockIdx.y + 1) * TILE <= m && (blockIdx.x + 1) * TILE <= n;
    for (int start = 0; start < k; start += TILE) {
        bool left = whole || (row < m && start + x < k);
        bool below = whole || (start + y < k && col < n);
        tileA[y][x] = left ? A[row * k + start + x] : 0.0f;
        tileB[y][x] = below ? B[(start + y) * n + col] : 0.0f;
        __syncthreads();
        for (int p = 0; p < TILE; p++) sum += tileA[y][p] * tileB[p][x];
        __syncthreads();
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
