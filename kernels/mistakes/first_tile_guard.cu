// A mistake on purpose: the guard of A is right in row 0 only, because it counts elements, not columns.
#define TILE 16

__global__ void first_tile_guard(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float tileA[TILE][TILE], tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        int first = row * k + start;  // of this thread's row in the tile
        tileA[y][x] = row < m && first + x < k ? A[first + x] : 0.0f;
        tileB[y][x] = start + y < k && col < n ? B[(start + y) * n + col] : 0.0f;
        __syncthreads();
        for (int p = 0; p < TILE; p++) sum += tileA[y][p] * tileB[p][x];
        __syncthreads();
    }
    if (row < m && col < n) C[row * n + col] = sum;
}
