// An order of the tiles of C: patches of some tile rows, and in a patch column by column. Tiles that are computed at
// the same time then share slabs of A and B, which the L2 cache has.
//
//      ┌────┬────┬────┬────┐
//      │ 0  │ 2  │ 4  │ ...│  a patch of two rows
//      ├────┼────┼────┼────┤
//      │ 1  │ 3  │ 5  │    │
//      ╞════╪════╪════╪════╡
//      │ then the next one │
//      └────┴────┴────┴────┘
//
// Of a symmetric C, the tiles on the diagonal and above it: the first columns of a patch are a triangle.
//
//      ┌────┬────┬────┬────┐
//      │ 0  │ 1  │ 3  │ 5  │
//      └────┼────┼────┼────┤
//           │ 2  │ 4  │ 6  │
//           ╘════╪════╪════╡
//                │ 7  │ ...│
#pragma once

// The row and column of a tile, in tiles, by its number.
template <int patch>
__device__ __forceinline__ int2 place_in_patches(int tile, int rows, int columns)
{
    const int first = tile / (patch * columns) * patch, height = min(patch, rows - first);
    const int within = tile - first * columns;
    return {first + within % height, within / height};
}

// The same in a triangle with so many tiles on a side.
template <int patch>
__device__ __forceinline__ int2 place_in_triangle(int tile, int side)
{
    int first = 0, height, size;  // of the patch: its first row, its rows, its tiles
    for (;; first += patch, tile -= size) {
        height = min(patch, side - first);
        size = height * (side - first) - height * (height - 1) / 2;
        if (tile < size) break;
    }
    int column = 0;
    for (; column < height - 1 && tile > column; column++) tile -= column + 1;  // 1, 2 ... tiles in a column
    return {first + tile % height, first + column + (column == height - 1 ? tile / height : 0)};
}
