// Sums of a symmetric C and their mirror images in bands, for mirrored.cu, streamed.cu and padded.cu. mirrored.cu
// explains them.
#pragma once

#include "../hopper_tile.cuh"

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
