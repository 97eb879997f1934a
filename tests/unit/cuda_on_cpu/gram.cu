// No bug: C = Aᵀ·A, rows of A staged as vectors in dynamic shared memory. Threads: n / 2.
extern "C" __global__ void gram(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    extern __shared__ __align__(16) double2 row[];
    const int pairs = n / 2, column = 2 * threadIdx.x;
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        double2 sum = make_double2(0.0, 0.0);
        for (int p = 0; p < m; ++p) {
            row[threadIdx.x] = reinterpret_cast<const double2*>(A)[size_t(p) * pairs + threadIdx.x];
            __syncthreads();
            const double factor = reinterpret_cast<const double*>(row)[i];
            sum.x = fma(factor, row[threadIdx.x].x, sum.x);
            sum.y = fma(factor, row[threadIdx.x].y, sum.y);
            __syncthreads();
        }
        C[size_t(i) * n + column] = sum.x;
        C[size_t(i) * n + column + 1] = sum.y;
    }
}
