// Kernels that are no product of matrices: a scan, a product with a vector, a sum of two.
__global__ void scan(float* in, float* out, int n) {
    __shared__ float t[256]; int i = threadIdx.x; t[i] = i < n ? in[i] : 0;
    for (int s = 1; s < blockDim.x; s *= 2) { int at = (i + 1) * s * 2 - 1;
        __syncthreads(); if (at < 256) t[at] += t[at - s]; }
    if (i < n) out[i] = t[i];
}
__global__ void rows(const float* A, const float* vector, float* result, int n) {
    __shared__ float part[64]; float sum = 0;
    for (int t = 0; t < n; t += 64) { part[threadIdx.x] = vector[t + threadIdx.x]; __syncthreads();
        for (int p = 0; p < 64; p++) sum += A[blockIdx.x * n + t + p] * part[p]; }
    if (threadIdx.x == 0) result[blockIdx.x] = sum;
}
__global__ void both(float* a, float* b, float* c, int m, int n) {
    for (int i = threadIdx.x; i < m; i += blockDim.x * gridDim.x)
        for (int j = 0; j < n; j++) c[i * n + j] = a[i * n + j] + b[i * n + j];
}
