// C = alpha·T + beta·C for matrices of any strides: copies of matrices that no product takes as they are, and what
// is left to do where a product is scaled, added to C, or stored between other numbers.
//
// Idea        A block has 32×32 elements. It reads T along the direction in which T's elements lie side by side, and
//             writes along that of C; where these differ, elements change places in shared memory.
// Zero        As in BLAS, a factor of zero means that its matrix is not read, and may have NaN.
// Limit       The bytes of T and C.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int side = 32, warps = 8;

struct Strides {
    long long down, right;  // elements from a row to the next, and from a column

    __device__ long long operator()(int row, int column) const { return row * down + column * right; }
    __device__ bool by_rows() const { return llabs(right) <= llabs(down); }
};

// use(row, column) for a thread's elements of a tile; the lanes of a warp lie in a row, or in a column.
template <class Use>
__device__ void for_elements(bool by_rows, Use use)
{
    for (int i = threadIdx.y; i < side; i += warps) by_rows ? use(i, threadIdx.x) : use(threadIdx.x, i);
}

template <class Number, class Sum>
__device__ void combine(const Number* T, Number* C, int rows, int columns, Strides from, Strides to, Sum alpha, Sum beta)
{
    __shared__ Sum scaled[side][side + 1];
    const int across = (columns + side - 1) / side;
    const int row = blockIdx.x / across * side, column = blockIdx.x % across * side;
    const auto inside = [&](int i, int j) { return row + i < rows && column + j < columns; };
    for_elements(from.by_rows(), [&](int i, int j) {
        scaled[i][j] = alpha != 0 && inside(i, j) ? alpha * (Sum)T[from(row + i, column + j)] : 0;
    });
    __syncthreads();
    for_elements(to.by_rows(), [&](int i, int j) {
        if (!inside(i, j)) return;
        Number& c = C[to(row + i, column + j)];
        c = (Number)(beta != 0 ? scaled[i][j] + beta * (Sum)c : scaled[i][j]);
    });
}

#define COMBINE(name, Number, Sum)                                                                                     \
    extern "C" __global__ void combine_##name(const Number* T, Number* C, int rows, int columns, Strides from,         \
                                              Strides to, double alpha, double beta)                                   \
    {                                                                                                                  \
        combine<Number, Sum>(T, C, rows, columns, from, to, alpha, beta);                                              \
    }

COMBINE(float32, float, float)
COMBINE(float64, double, double)
COMBINE(float16, __half, float)
COMBINE(bfloat16, __nv_bfloat16, float)
