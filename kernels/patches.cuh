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
