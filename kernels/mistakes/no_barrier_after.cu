// A mistake on purpose: a thread fetches the next tile while others still multiply.
#define TILE 16

__global__ void no_barrier_after(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        tileA[y][x] = row < m && start + x < k ? A[row * k + start + x] : 0.0f;
        tileB[y][x] = start + y < k && col < n ? B[(start + y) * n + col] : 0.0f;
        __syncthreads();
        for (int p = 0; p < TILE; p++) sum += tileA[y][p] * tileB[p][x];
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
