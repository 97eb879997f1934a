// C = A·B for square matrices, one thread for each element of C.
__global__ void multiply(const float *A, const float *B, float *C, int n)
{
    // Every block computes the same few elements, because a thread does not know its block.
    int row = threadIdx.y;  // TODO: the row of C that this thread computes
    int col = threadIdx.x;  // TODO: and the column
    if (row >= n || col >= n) return;
    float sum = 0.0f;
    for (int p = 0; p < n; p++)
        sum += A[row * n + p] * B[p * n + col];
    C[row * n + col] = sum;
}
