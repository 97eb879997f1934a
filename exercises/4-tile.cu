// C = A·B for square matrices, with tiles of A and B in shared memory. n is a multiple of TILE.
// try: multiple=16
#define TILE 16

__global__ void multiply(const float *A, const float *B, float *C, int n)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < n; start += TILE) {
        tileA[y][x] = A[row * n + start + x];
        // TODO: this thread's element of the tile of B, which begins at row `start`
        __syncthreads();
        for (int p = 0; p < TILE; p++)
            sum += tileA[y][p] * tileB[p][x];
        __syncthreads();
    }
    C[row * n + col] = sum;
}
