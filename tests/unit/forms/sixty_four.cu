// Right at multiples of 16, in blocks of 64 threads, which only a trial tells.
__global__ void f(const float* A, const float* B, float* C, int m, int n, int k)
{
    __shared__ float As[256], Bs[256];
    int x = threadIdx.x & 15, y = threadIdx.x >> 4, i = blockIdx.y << 4, j = blockIdx.x << 4;
    float sum[4] = {0};
    for (int t = 0; t < k; t += 16) {
        for (int r = y; r < 16; r += 4) As[r * 16 + x] = A[(i + r) * k + t + x];
        for (int r = y; r < 16; r += 4) Bs[r * 16 + x] = B[(t + r) * n + j + x];
        __syncthreads();
        for (int p = 0; p < 16; p++) for (int r = 0; r < 4; r++)
            sum[r] += As[(y + 4 * r) * 16 + p] * Bs[p * 16 + x];
        __syncthreads();
    }
    for (int r = 0; r < 4; r++) C[(i + y + 4 * r) * n + j + x] = sum[r];
}
