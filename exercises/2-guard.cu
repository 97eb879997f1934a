// C = A·B for square matrices, one thread for each element of C.
__global__ void multiply(const float *A, const float *B, float *C, int n)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    // TODO: n is hardly ever a multiple of the block. What do the threads beyond the edge do?
    float sum = 0.0f;
    for (int p = 0; p < n; p++)
        sum += A[row * n + p] * B[p * n + col];
    C[row * n + col] = sum;
}
