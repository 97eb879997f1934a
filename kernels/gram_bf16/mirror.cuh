// Sums of a symmetric C and their mirror images: stored from registers, for halved.cu and split.cu, and in bands, for
// mirrored.cu, streamed.cu and padded.cu. halved.cu and mirrored.cu explain them.
#pragma once

#include "../hopper_tile.cuh"

// Store a lane's fragments side by side, the first one's first element at (row, column) of C of m×m, at their places on
// the diagonal and above it, and at those mirrored.
template <int fragments>
__device__ __forceinline__ void store_twice(const float* sums, __nv_bfloat16* C, int m, int row, int column)
{
#pragma unroll
    for (int e = 0; e < 4 * fragments; e++) {
        const int i = row + e % 4 / 2 * 8, j = column + e / 4 * 8 + e % 2;
        if (i <= j && j < m) C[(size_t)i * m + j] = C[(size_t)j * m + i] = __float2bfloat16(sums[e]);
    }
}

template <class T>
struct Mirror {
    using Tile = HopperTile<T>;
    using Band = typename Tile::Band;

    // In a band on the diagonal, what lies below it becomes the mirror image of what lies above it.
    static __device__ __forceinline__ void reflect(Band& band)
    {
        for (int i = threadIdx.x % 128; i < 64 * 64; i += 128) {
            const int row = i / 64, column = i % 64;
            if (column < row) Tile::element(band, row, column) = Tile::element(band, column, row);
        }
    }

    // Store a consumer's rows of a tile of C of m×m, and their mirror image. store_band(row, column, write): store a
    // band that begins at (row, column), and that write(band) writes.
    template <class StoreBand>
    static __device__ __forceinline__ void store(typename Tile::Sums& sums, int2 tile, int m, const typename Tile::Addition& addition,
                                                 StoreBand store_band)
    {
        Tile::each_band(sums, tile, [&](float* own, int row, int column) {
            if (column < row) return;  // another band's mirror image
            addition.apply(own, m, m, row, column);
            store_band(row, column, [&](Band& band) {
                Tile::write(band, own);
                if (column > row) return;
                Tile::sync_group();
                reflect(band);
            });
            if (column > row) store_band(column, row, [&](Band& band) { Tile::template write<true>(band, own); });
        });
    }
};
