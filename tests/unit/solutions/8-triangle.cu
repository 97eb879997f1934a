// C = AᵀA in float64, with A of m×n and C of n×n. C is symmetric.
__global__ void gram(const double *A, double *C, int m, int n)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > j || j >= n) return;
    double sum = 0.0;
    for (int p = 0; p < m; p++)
        sum += A[p * n + i] * A[p * n + j];
    C[i * n + j] = sum;
    if (i < j) C[j * n + i] = sum;
}
