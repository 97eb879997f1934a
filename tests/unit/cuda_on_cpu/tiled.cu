// No bug: C = A·B in tiles, for any shape, with the words that real kernels use.
template <int TILE>
static __device__ __forceinline__ void multiply(const float* __restrict__ A,
                                                const float* __restrict__ B,
                                                float* __restrict__ C, int m, int n, int k)
{
    __shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
    const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int start = 0; start < k; start += TILE) {
        const int p = start + threadIdx.x, q = start + threadIdx.y;
        tile_a[threadIdx.y][threadIdx.x] = row < m && p < k ? __ldg(&A[size_t(row) * k + p]) : 0.0f;
        tile_b[threadIdx.y][threadIdx.x] = q < k && column < n ? B[size_t(q) * n + column] : 0.0f;
        __syncthreads();
        const int depth = min(TILE, k - start);
#pragma unroll 4
        for (int i = 0; i < depth; ++i)
            sum = fmaf(tile_a[threadIdx.y][i], tile_b[i][threadIdx.x], sum);
        __syncthreads();
    }
    if (row < m && column < n) C[size_t(row) * n + column] = sum;
}

extern "C" __global__ void __launch_bounds__(TILE_WIDTH* TILE_WIDTH)
multiply_tiled(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
               int m, int n, int k)
{
    multiply<TILE_WIDTH>(A, B, C, m, n, k);
}
