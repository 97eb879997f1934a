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

// The same where three blocks compute four tiles on the diagonal, the corners: of a corner three quarters are needed, and
// the fourth corner's are shared out, one to each. A place below the diagonal is a corner, that of its column, with a
// quarter of the one of its row.
__device__ __forceinline__ int places_with_corners(int side) { return side * (side + 1) / 2 - side / 4; }

template <int patch>
__device__ __forceinline__ int2 place_with_corners(int tile, int side)
{
    const int fours = side / 4, corners = side - fours;
    if (tile < 3 * fours) return {tile / 3 * 4 + 3, tile / 3 * 4 + tile % 3};
    if (tile < corners) return {tile + fours, tile + fours};
    const int2 at = place_in_triangle<patch>(tile - corners, side - 1);
    return {at.x, at.y + 1};
}
