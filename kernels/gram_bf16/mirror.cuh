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

    // Store a band of sums of C of m×m that begins at (row, column), and its mirror image; below the diagonal it is another
    // band's. store_band(row, column, write): store a band that write(band) writes.
    template <class StoreBand>
    static __device__ __forceinline__ void store_twice(float* sums, int row, int column, int m, StoreBand store_band,
                                                       const typename Tile::Addition& addition = {})
    {
        if (column < row) return;
        addition.apply(sums, m, m, row, column);
        store_band(row, column, [&](Band& band) {
            Tile::write(band, sums);
            if (column > row) return;
            Tile::sync_group();
            reflect(band);
        });
        if (column > row) store_band(column, row, [&](Band& band) { Tile::template write<true>(band, sums); });
    }

    // Store a consumer's rows of a tile, and their mirror image.
    template <class StoreBand>
    static __device__ __forceinline__ void store(typename Tile::Sums& sums, int2 tile, int m, StoreBand store_band,
                                                 const typename Tile::Addition& addition = {})
    {
        const auto store = [&](float* own, int row, int column) {
            store_twice(own, row, column, m, store_band, addition);
        };
        Tile::each_band(sums, tile, store);
    }
};
