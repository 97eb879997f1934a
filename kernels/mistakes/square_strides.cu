// A mistake on purpose: bounds and strides are of the wrong dimensions, which square matrices hide.
__global__ void square_strides(const float *A, const float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= k || col >= m) return;
    float sum = 0.0f;
    for (int p = 0; p < k; p++) sum += A[row * k + p] * B[p * k + col];
    C[row * k + col] = sum;
}
