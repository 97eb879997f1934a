// A mistake on purpose: tiles on the diagonal store both (i, j) and (j, i), which others store too.
// try: grid='(n+15)/16,(n+15)/16'
__global__ void diagonal_twice(const double *A, double *C, int m, int n)
{
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (blockIdx.y > blockIdx.x || i >= n || j >= n) return;
    double sum = 0.0;
    for (int p = 0; p < m; p++) sum += A[p * n + i] * A[p * n + j];
    C[i * n + j] = sum;
    C[j * n + i] = sum;
}
