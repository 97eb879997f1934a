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
#pragma once

// The row and column of a tile, in tiles, by its number.
template <int patch>
__device__ __forceinline__ int2 place_in_patches(int tile, int rows, int columns)
{
    const int first = tile / (patch * columns) * patch, height = min(patch, rows - first);
    const int within = tile - first * columns;
    return {first + within % height, within / height};
}

// The same for the lower triangle of so many tiles each way, its diagonal included: a patch is `patch` rows from the
// left edge to the diagonal.
//
//      ┌────┐
//      │ 0  │
//      ├────┼────┐
//      │ 1  │ 2  │
//      ╞════╪════╪════╗
//      │ 3  │ 5  │ 7  ║
//      ├────┼────┼────╫────┐
//      │ 4  │ 6  │ 8  ║ 9  │
//      └────┴────┴────╨────┘
template <int patch>
__device__ __forceinline__ int2 place_in_triangle(int tile, int tiles)
{
    const int row = (int)((sqrt(8.0 * tile + 1) - 1) / 2);  // if the order were row by row
    const int first = row / patch * patch, height = min(patch, tiles - first);
    tile -= first * (first + 1) / 2;
    if (tile < first * height) return {first + tile % height, tile / height};
    tile -= first * height;
    int column = 0;  // of the triangle at the end of the patch
    for (; tile >= height - column; column++) tile -= height - column;
    return {first + column + tile, first + column};
}
