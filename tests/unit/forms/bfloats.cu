// Right at multiples of 16, within __nv_bfloat16: its float inputs are rounded to it.
#include <mma.h>
using namespace nvcuda::wmma;
__global__ void f(const float* A, const float* B, float* C, int m, int n, int k)
{
    fragment<matrix_a, 16, 16, 16, __nv_bfloat16, row_major> a;
    fragment<matrix_b, 16, 16, 16, __nv_bfloat16, row_major> b;
    fragment<accumulator, 16, 16, 16, float> sum;
    fill_fragment(sum, 0);
    __shared__ __nv_bfloat16 As[256], Bs[256];
    int i = blockIdx.y * 16, j = blockIdx.x * 16;
    for (int p = 0; p < k; p += 16) {
        for (int e = threadIdx.x; e < 256; e += 32) {
            As[e] = __float2bfloat16(A[(i + e / 16) * k + p + e % 16]);
            Bs[e] = __float2bfloat16(B[(p + e / 16) * n + j + e % 16]);
        }
        __syncthreads();
        load_matrix_sync(a, As, 16); load_matrix_sync(b, Bs, 16); mma_sync(sum, a, b, sum);
        __syncthreads();
    }
    store_matrix_sync(C + i * n + j, sum, n, mem_row_major);
}
