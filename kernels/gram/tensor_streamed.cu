// C = Aᵀ·A for any A of m×n: the triangle's tiles, in equal shares for as many blocks as there are.
//
// Idea        As gemm/streamed.cu, on tensor.cu's tiles: RESIDENT blocks on each multiprocessor run
//             once. They take whole tiles of the triangle while there are enough for all, then equal
//             stretches of the slabs that are left. A tall A with a small n has few tiles and many
//             slabs: its rows are what is shared out. No block starts without work.
//
//                  order of tiles: bands of GROUP rows, in a band by columns
//                 ┌───┬───┬───┬───┬───┐
//                 │ 0 │ 1 │ 3 │ 5 │ 7 │   a band's tiles use GROUP columns of A again and again,
//                 ├───┼───┼───┼───┼───┤   which stay in the L2
//                     │ 2 │ 4 │ 6 │ 8 │
//                     └───┼───┼───┼───┤
//                         │ 9 │10 │12 │
//                         └───┼───┼───┤
//
// Traffic     As tensor.cu, and a tile of sums written and read per block at most twice.
// Removes     Idle multiprocessors: in the last wave, below the diagonal, and where n is small.
// Limit       Power at large n; at small n the way of the sums through memory.
#include "tensor.cuh"
#include "../shares.cuh"

__device__ double partial[BLOCKS][TILE * TILE];

// The tile (row, col) of the triangle that is the `at`th of those in `tiles` rows: by bands of GROUP
// rows, and in a band by columns.
__device__ int2 place(int at, int tiles)
{
    int first = 0, height, band;
    for (;; first += GROUP, at -= band) {
        height = min(GROUP, tiles - first);
        band = height * (tiles - first) - height * (height - 1) / 2;
        if (at < band) break;
    }
    int col = 0;
    for (; col < height - 1 && at > col; col++) at -= col + 1;  // of the corner on the diagonal
    return {first + at % height, first + col + (col == height - 1 ? at / height : 0)};
}

// Compute a part of a tile: what has the tile's first slab is stored, with what the stretches behind
// it have left, else it is left for another block.
template <bool pairs>
__device__ __forceinline__ void run(const double* A, double* C, int m, int n, const Walk& walk,
                                    const Part& part)
{
    extern __shared__ __align__(128) double2 memory[];  // a sector of 32 bytes is not to be cut in two
    const int rows = (n + TILE - 1) / TILE;
    Sums sums = {};
    {
        const int2 at = place(part.at, rows);
        const int row = at.x * TILE, col = at.y * TILE, from = part.from, to = part.to;
        if (row == col)
            multiply<pairs, true>(A, m, n, row, col, from, to, (Pair*)memory, sums);
        else
            multiply<pairs, false>(A, m, n, row, col, from, to, (Pair*)memory, sums);
    }
    if (part.from > 0) {
        leave<MMAS_M * MMAS_N * 4>(&sums[0][0][0], partial);
    } else {
        add_left<MMAS_M * MMAS_N * 4>(&sums[0][0][0], partial, walk, part);
        const int2 at = place(part.at, rows);  // anew: registers are scarce while a tile is multiplied
        store<pairs>(sums, C, n, at.x * TILE, at.y * TILE);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
gram_tensor_streamed(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    const int rows = (n + TILE - 1) / TILE;
    each_part(rows * (rows + 1) / 2, (m + TILE_K - 1) / TILE_K, [&](const Walk& walk, const Part& part) {
        if (in_pairs(A, C, n))
            run<true>(A, C, m, n, walk, part);
        else
            run<false>(A, C, m, n, walk, part);
    });
}
