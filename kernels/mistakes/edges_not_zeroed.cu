// A mistake on purpose: beyond the edge the tile keeps what lay there before.
#define TILE 16

__global__ void edges_not_zeroed(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        if (row < m && start + x < k) tileA[y][x] = A[row * k + start + x];
        if (start + y < k && col < n) tileB[y][x] = B[(start + y) * n + col];
        __syncthreads();
        for (int p = 0; p < TILE; p++) sum += tileA[y][p] * tileB[p][x];
        __syncthreads();
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
