// A kernel without a mistake. The program that launches it divides n by the block and forgets to round up.
__global__ void grid_rounded_down(const float *A, const float *B, float *C, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n || col >= n) return;
    float sum = 0.0f;
    for (int p = 0; p < n; p++) sum += A[row * n + p] * B[p * n + col];
    C[row * n + col] = sum;
}

void multiply(const float *A, const float *B, float *C, int n)
{
    dim3 block(16, 16);
    dim3 grid(n / 16, n / 16);
    grid_rounded_down<<<grid, block>>>(A, B, C, n);
}
