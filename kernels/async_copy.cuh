// Copies from global to shared memory that bypass the registers (cp.async, from compute capability 8.0
// on). The thread that issues a copy goes on at once. It commits what it has issued as a group, and later
// waits for groups, which end in order. At the end, copies of a part of a matrix by pieces of 16 bytes.
#pragma once

#ifdef __CUDACC__
__device__ __forceinline__ unsigned shared_address(const void* shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}
#else
#include <copies.h>
#endif

// Copy `bytes` (4, 8 or 16) bytes, or fill them with zeros where `valid` is false.
template <int bytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global, bool valid)
{
#ifdef __CUDACC__
    const int from = valid ? bytes : 0;
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared_address(shared)), "l"(global), "r"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;"
                     :: "r"(shared_address(shared)), "l"(global), "r"(from), "n"(bytes) : "memory");
#else
    cuda_on_cpu::issue_copy(shared, valid ? global : nullptr, bytes);
#endif
}

__device__ __forceinline__ void commit_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    cuda_on_cpu::commit_copies();
#endif
}

// Wait until at most `groups` of this thread's groups are under way: its newest ones.
template <int groups>
__device__ __forceinline__ void wait_for_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_group %0;" :: "n"(groups) : "memory");
#else
    cuda_on_cpu::wait_for_copies(groups);
#endif
}

template <class Number>
constexpr int piece = 16 / sizeof(Number);  // elements of 16 bytes

// A matrix of which parts are copied.
template <class Number>
struct Source {
    const Number* matrix;
    int rows, columns;
    bool pieces;  // whether rows begin at 16 bytes

    __device__ Source(const Number* matrix, int rows, int columns)
        : matrix(matrix), rows(rows), columns(columns),
          pieces((size_t)matrix % 16 == 0 && columns % piece<Number> == 0)
    {
    }
};

// A thread's copies of `rows` rows of `across` pieces, of which the first begins at (row, column). Piece p of
// row r goes to to(r, p). What lies outside of the matrix is zero. Where rows begin anywhere, elements are
// loaded and stored one by one.
template <int rows, int across, int threads, class Number, class To>
__device__ __forceinline__ void copy_pieces(const Source<Number>& from, int row, int column, To to)
{
    for (int i = threadIdx.x; i < rows * across; i += threads) {
        const int r = row + i / across, c = column + i % across * piece<Number>;
        const bool inside = r < from.rows && c < from.columns;
        const Number* source = from.matrix + (inside ? (size_t)r * from.columns + c : 0);
        Number* place = to(i / across, i % across);
        if (from.pieces)
            copy_async<16>(place, source, inside);
        else
            for (int e = 0; e < piece<Number>; e++)
                place[e] = inside && c + e < from.columns ? source[e] : Number(0.0f);
    }
}
