// Right for n a multiple of 4: a thread computes four elements of a row.
// try: block=8x8 tile=8x32 multiple=4
__global__ void fours(const float *A, const float *B, float *C, int n)
{
    int row = blockIdx.y * 8 + threadIdx.y;
    int col = 4 * (blockIdx.x * 8 + threadIdx.x);
    if (row >= n || col >= n) return;
    float4 sum = make_float4(0, 0, 0, 0);
    for (int p = 0; p < n; p++) {
        float a = A[row * n + p];
        float4 b = *(const float4 *)&B[p * n + col];
        sum.x += a * b.x; sum.y += a * b.y; sum.z += a * b.z; sum.w += a * b.w;
    }
    *(float4 *)&C[row * n + col] = sum;
}
