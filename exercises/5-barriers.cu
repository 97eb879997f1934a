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
        // TODO: where do the threads of a block have to wait for each other?
        tileA[y][x] = A[row * n + start + x];
        tileB[y][x] = B[(start + y) * n + col];
        for (int p = 0; p < TILE; p++)
            sum += tileA[y][p] * tileB[p][x];
    }
    C[row * n + col] = sum;
}
