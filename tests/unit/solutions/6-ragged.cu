// C = A·B for any shape, with tiles of A and B in shared memory.
#define TILE 16

__global__ void multiply(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
        int left = t * TILE + x, below = t * TILE + y;
        tileA[y][x] = row < m && left < k ? A[row * k + left] : 0.0f;
        tileB[y][x] = below < k && col < n ? B[below * n + col] : 0.0f;
        __syncthreads();
        for (int p = 0; p < TILE; p++)
            sum += tileA[y][p] * tileB[p][x];
        __syncthreads();
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
