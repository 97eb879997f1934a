// C = Aᵀ·A for any A of m×n: the triangle's tiles, in equal shares for as many blocks as there are.
//
// Idea        As gemm/streamed.cu, on tensor.cu's tiles: RESIDENT blocks on each multiprocessor run
//             once. They take whole tiles of the triangle while there are enough for all, then equal
//             stretches of the slabs that are left. A tall A with a small n has few tiles and many
//             slabs: its rows are what is shared out. No block starts without work. Tiles on the
//             diagonal have fewer products, and fill up a wave: n = 2048 has 120 tiles of 128 off it
//             and 16 on it that cost as much as 12, which is one wave of 132 blocks.
//
//                  order of tiles: bands of GROUP rows, in a band by columns
//                 ┌───┬───┬───┬───┬───┐
//                 │ a │ 0 │ 1 │ 3 │ 5 │   a band's tiles use GROUP columns of A again and again,
//                 └───┼───┼───┼───┼───┤   which stay in the L2; those on the diagonal, which cost
//                     │ b │ 2 │ 4 │ 6 │   less, come last: a, b, c ...
//                     └───┼───┼───┼───┤
//                         │ c │ 7 │ 8 │
//                         └───┼───┼───┤
//
// Traffic     As tensor.cu, and a tile of sums written and read per block at most twice.
// Removes     Idle multiprocessors: in the last wave, below the diagonal, and where n is small.
// Limit       Power at large n; at small n the way of the sums through memory.
#include "tensor.cuh"
#include "../shares.cuh"

__device__ double partial[BLOCKS][TILE * TILE];

// How many tiles lie on the diagonal, and off it in the triangle.
__device__ __forceinline__ int on_diagonal(int n) { return (n + TILE - 1) / TILE; }
__device__ __forceinline__ int off_diagonal(int n) { return on_diagonal(n) * (on_diagonal(n) - 1) / 2; }

// The tile (row, col) that is the `at`th: those off the diagonal by bands of GROUP rows, and in a band
// by columns, then those on it.
__device__ int2 place(int at, int n)
{
    if (at >= off_diagonal(n)) return {at - off_diagonal(n), at - off_diagonal(n)};
    const int tiles = on_diagonal(n) - 1;
    int first = 0, height, band;
    for (;; first += GROUP, at -= band) {
        height = min(GROUP, tiles - first);
        band = height * (tiles - first) - height * (height - 1) / 2;
        if (at < band) break;
    }
    int col = 0;
    for (; col < height - 1 && at > col; col++) at -= col + 1;  // of the band's corner
    return {first + at % height, first + col + (col == height - 1 ? at / height : 0) + 1};
}

// Compute a part of a tile: what has the tile's first slab is stored, with what the stretches behind
// it have left, else it is left for another block.
template <bool pairs, bool diagonal>
__device__ __forceinline__ void run(const double* A, double* C, int m, int n, const Walk& walk,
                                    const Part& part)
{
    extern __shared__ __align__(128) double2 memory[];  // a sector of 32 bytes is not to be cut in two
    Sums<diagonal> sums = {};
    {
        const int2 at = place(part.at, n);
        const int row = at.x * TILE, col = at.y * TILE, from = part.from, to = part.to;
        multiply<pairs, diagonal>(A, m, n, row, col, from, to, (Pair*)memory, sums);
    }
    constexpr int COUNT = ROWS<diagonal> * MMAS_N * 4;
    if (part.from > 0) {
        leave<COUNT>(&sums[0][0][0], partial);
    } else {
        add_left<COUNT>(&sums[0][0][0], partial, walk, part);
        const int2 at = place(part.at, n);  // anew: registers are scarce while a tile is multiplied
        store<pairs, diagonal>(sums, C, n, at.x * TILE, at.y * TILE);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
gram_tensor_streamed(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    const int slabs = (m + TILE_K - 1) / TILE_K;
    each_part(off_diagonal(n), on_diagonal(n), slabs, [&](const Walk& walk, const Part& part) {
        choose(in_pairs(A, C, n), part.at >= off_diagonal(n), [&](auto pairs, auto diagonal) {
            run<pairs.is, diagonal.is>(A, C, m, n, walk, part);
        });
    });
}
