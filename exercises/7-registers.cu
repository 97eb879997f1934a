// C = A·B for any shape. A thread computes ROWS elements of a column of C.
// try: block=16x4 tile=16x16
#define ROWS 4

__global__ void multiply(const float *A, const float *B, float *C, int m, int n, int k)
{
    int first = (blockIdx.y * blockDim.y + threadIdx.y) * ROWS;  // of the rows of this thread
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= n) return;
    // TODO: only the first row is computed. Keep ROWS sums, and use each b for all of them.
    float sum = 0.0f;
    for (int p = 0; p < k; p++) {
        float b = B[p * n + col];
        if (first < m) sum += A[first * k + p] * b;
    }
    if (first < m) C[first * n + col] = sum;
}
