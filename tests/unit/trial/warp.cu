// Right: a warp for each element, whose lanes add up their parts by shuffles.
// try: block=32x4 tile=4x1
__global__ void dots(const float *A, const float *B, float *C, int M, int N, int K)
{
    int row = blockIdx.y * blockDim.y + threadIdx.y, col = blockIdx.x, lane = threadIdx.x;
    float part = 0.0f;
    if (row < M)
        for (int p = lane; p < K; p += 32)
            part += A[row * K + p] * B[p * N + col];
    for (int by = 16; by > 0; by /= 2)
        part += __shfl_down_sync(0xffffffff, part, by);
    if (row < M && lane == 0)
        C[row * N + col] = part;
}
