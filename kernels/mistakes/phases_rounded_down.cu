// A mistake on purpose: whole numbers are divided towards zero, so the last, ragged tile is left out.
#define TILE 16

__global__ void phases_rounded_down(const float *A, const float *B, float *C, int n)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int phase = 0; phase < n / TILE; phase++) {
        int left = phase * TILE + x, below = phase * TILE + y;
        tileA[y][x] = row < n ? A[row * n + left] : 0.0f;
        tileB[y][x] = col < n ? B[below * n + col] : 0.0f;
        __syncthreads();
        for (int p = 0; p < TILE; p++) sum += tileA[y][p] * tileB[p][x];
        __syncthreads();
    }
    if (row < n && col < n) C[row * n + col] = sum;
}
