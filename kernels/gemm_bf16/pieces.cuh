// Copies of a part of a bfloat16 matrix to shared memory, piece by piece: a piece is 16 bytes of a row.
#pragma once

#include <cuda_bf16.h>

#include "../async_copy.cuh"

constexpr int piece = 8;  // elements

// Where the part comes from.
struct Place {
    const __nv_bfloat16* matrix;
    int rows, columns;  // of the matrix
    bool pieces;        // whether rows begin at 16 bytes

    __device__ Place(const __nv_bfloat16* matrix, int rows, int columns)
        : matrix(matrix), rows(rows), columns(columns),
          pieces((size_t)matrix % 16 == 0 && columns % piece == 0)
    {
    }
};

// A thread's copies of `rows` rows of `across` pieces, of which the first begins at (row, column). Piece p of
// row r goes to to(r, p). What lies outside of the matrix is zero. Where rows begin anywhere, elements are
// loaded and stored one by one.
template <int rows, int across, int threads, class To>
__device__ __forceinline__ void copy_pieces(const Place& from, int row, int column, To to)
{
    for (int i = threadIdx.x; i < rows * across; i += threads) {
        const int r = row + i / across, c = column + i % across * piece;
        const bool inside = r < from.rows && c < from.columns;
        const __nv_bfloat16* source = from.matrix + (inside ? (size_t)r * from.columns + c : 0);
        __nv_bfloat16* place = to(i / across, i % across);
        if (from.pieces)
            copy_async<16>(place, source, inside);
        else
            for (int e = 0; e < piece; e++)
                place[e] = inside && c + e < from.columns ? source[e] : __float2bfloat16(0.0f);
    }
}
