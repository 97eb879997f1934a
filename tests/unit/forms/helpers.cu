// Kernels that are no product of matrices: one fills, one adds, one takes a vector.
__global__ void fill(float* a, float* b, int n) { if (threadIdx.x < n) a[0] = b[0]; }
__global__ void add(const float* a, const float* b, float* c, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) c[i] = a[i] + b[i];
}
__global__ void by_vector(const float* A, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x; float sum = 0;
    if (i < n) { for (int p = 0; p < n; p++) sum += A[i * n + p] * x[p]; y[i] = sum; }
}
