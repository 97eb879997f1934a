// C = A·B with A of m×k, B of k×n and C of m×n.
__global__ void multiply(const float *A, const float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO: this was right for square matrices. Each n below is m, n or k.
    if (row >= n || col >= n) return;
    float sum = 0.0f;
    for (int p = 0; p < n; p++)
        sum += A[row * n + p] * B[p * n + col];
    C[row * n + col] = sum;
}
