// C = A·B for any shape, one thread per element of C.
//
// Idea        The naive kernel with the three dimensions kept apart: C has m rows and n
//             columns, and the sum runs over k. What changes is only which number is a
//             bound and which a stride:
//
//               matrix   rows   columns = stride   guarded by
//               A        m      k                  row < m
//               B        k      n                  col < n
//               C        m      n                  both
//
// Traffic     2k reads per thread, 8mnk bytes in all before the caches; a warp lies in
//             one row of C, so its reads of B and its store to C are whole lines.
// Limit       As in naive.cu: two loads per multiply-add.

extern "C" __global__ void __launch_bounds__(TILE_WIDTH * TILE_WIDTH)
naive_rect(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
           int m, int n, int k)
{
    const int row = blockIdx.y * TILE_WIDTH + threadIdx.y;
    const int col = blockIdx.x * TILE_WIDTH + threadIdx.x;
    if (row >= m || col >= n) return;

    float sum = 0.0f;
    for (int p = 0; p < k; p++)
        sum += A[(size_t)row * k + p] * B[(size_t)p * n + col];
    C[(size_t)row * n + col] = sum;
}
