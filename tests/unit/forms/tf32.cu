// Right at multiples of 16, within TF32: a warp for each tile of C.
#include <mma.h>
using namespace nvcuda::wmma;
__global__ void f(const float* A, const float* B, float* C, int m, int n, int k)
{
    fragment<matrix_a, 16, 16, 8, precision::tf32, row_major> a;
    fragment<matrix_b, 16, 16, 8, precision::tf32, row_major> b;
    fragment<accumulator, 16, 16, 8, float> sum;
    fill_fragment(sum, 0);
    int i = blockIdx.y * 16, j = blockIdx.x * 16;
    for (int p = 0; p < k; p += 8) {
        load_matrix_sync(a, A + i * k + p, k); load_matrix_sync(b, B + p * n + j, n);
        mma_sync(sum, a, b, sum);
    }
    store_matrix_sync(C + i * n + j, sum, n, mem_row_major);
}
void go(float* A, float* B, float* C, int m, int n, int k)
{ f<<<dim3(n / 16, m / 16), 32>>>(A, B, C, m, n, k); }
