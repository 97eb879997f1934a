#include <cuda_pipeline.h>
#define T 16

// Two slabs of A and of B are in shared memory: one is multiplied while the next one comes.
__global__ void copies(const float *A, const float *B, float *C, int n)
{
    __shared__ float a[2][T][T], b[2][T][T];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    auto load = [&](int slab) {
        bool in_a = row < n && slab * T + x < n, in_b = slab * T + y < n && col < n;
        const float *from_a = in_a ? &A[row * n + slab * T + x] : A;
        const float *from_b = in_b ? &B[(slab * T + y) * n + col] : B;
        __pipeline_memcpy_async(&a[slab % 2][y][x], from_a, 4, in_a ? 0 : 4);
        __pipeline_memcpy_async(&b[slab % 2][y][x], from_b, 4, in_b ? 0 : 4);
        __pipeline_commit();
    };
    float sum = 0.0f;
    int slabs = (n + T - 1) / T;
    load(0);
    for (int slab = 0; slab < slabs; slab++) {
        if (slab + 1 < slabs) load(slab + 1);
        __pipeline_wait_prior(slab + 1 < slabs ? 1 : 0);
        __syncthreads();  // until all copies are there
        for (int p = 0; p < T; p++)
            sum += a[slab % 2][y][p] * b[slab % 2][p][x];
        __syncthreads();  // until they are read
    }
    if (row < n && col < n) C[row * n + col] = sum;
}
