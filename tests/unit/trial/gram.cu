// Right: C = AᵀA, the upper triangle and its mirror image.
__global__ void gram(const double *A, double *C, int rows, int cols)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i > j || j >= cols) return;
    double sum = 0.0;
    for (int p = 0; p < rows; p++)
        sum += A[p * cols + i] * A[p * cols + j];
    C[i * cols + j] = sum;
    C[j * cols + i] = sum;
}
