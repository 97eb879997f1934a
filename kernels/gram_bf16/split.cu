// C = alpha·A·Aᵀ + beta·D in bfloat16: the blocks of a cluster share the sum of a square of the triangle.
//
// Words       As in ../gemm_bf16/split.cu
//
// Idea        352 rows are six squares of 64, and the triangle has 21 of them: too few for 132 multiprocessors. Where k
//             is long, stretches of streamed.cu reach them all, but a square is then that of six or seven blocks, which
//             pass on their sums through the L2, and the one that stores it waits for all. Here the blocks of a cluster
//             share a square, as in ../gemm_bf16/split.cu: each multiplies an equal share of its slabs, and adds up
//             a part of its columns from everybody's shared memory.
//
//                 ┌───┬───┬───┐                            k ►
//                 │ 0 │ 1 │ 3 │        ┌───┬───┬───┬───┬───┬───┬───┬───┐
//                 └───┼───┼───┤      1 │ 0 │ 1 │ 2 │ 3 │ 4 │ 5 │ 6 │ 7 │  slabs of square 1 by block of its cluster
//                     │ 2 │ 4 │        └───┴───┴───┴───┴───┴───┴───┴───┘
//                     └───┼───┤
//                         │ 5 │        columns added, and stored twice:   0 1 2 3 4 5 6 7
//                         └───┘
//
//             A thread stores each sum on the diagonal and above it at its place and at that mirrored, two bytes at a
//             time: C is small. So it is symmetric to the bit, and of D only the triangle is read.
//
// Order       As in ../gemm_bf16/split.cu. The grid has a cluster for each square.
//
// Where       compute_together in ../hopper_tile.cuh; the squares' places: place_in_triangle in ../patches.cuh
//
// Takes       k of a multiple of 8: TMA wants rows of A that begin at 16 bytes.
//
// Traffic     4k/TILE_M bytes from the L2 for each element that is computed, half of it on the diagonal, and
//             4(SPLITS - 1) between blocks.
// Bound       2 less the diagonal, as of mirrored.cu: with squares of 64 at 352 rows 1.68.
// Removes     Sums through the L2, and the waiting for them.
// Limit       As of ../gemm_bf16/split.cu. And the L2: squares of 64 of 352×11240 read 60 MB, at 5.5 TB/s.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_M;  // rows and columns of C of a square
    static constexpr int stages = STAGES;                   // slabs that the ring holds
    static constexpr int splits = SPLITS;                   // blocks of a cluster, which share a square
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
    static constexpr int patch = 8;                         // rows of squares of a patch
    static constexpr bool symmetric = true;
    static constexpr bool adds = ADDS;                      // whether C = alpha·A·Aᵀ + beta·D
};

using Tile = HopperTile<Tiling>;

// Store a lane's sums on the diagonal and above it at their places and at those mirrored: fragments side by side, of the
// first one the first element at (row, column).
template <int fragments>
__device__ __forceinline__ void store_twice(const float* sums, int row, int column, __nv_bfloat16* C, int m)
{
#pragma unroll
    for (int e = 0; e < 4 * fragments; e++) {
        const int i = row + e % 4 / 2 * 8, j = column + e / 4 * 8 + e % 2;
        if (i <= j && j < m) C[(size_t)i * m + j] = C[(size_t)j * m + i] = __float2bfloat16(sums[e]);
    }
}

extern "C" __global__ void __cluster_dims__(Tiling::splits, 1, 1)
__launch_bounds__(Tile::consumer_threads + 128, Tiling::resident)
gram_split_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in)
{
    extern __shared__ __align__(1024) char memory[];
    const Epilogue<Tiling::adds, true> addition = {alpha, beta, D};
    const int side = (m + Tiling::tile_m - 1) / Tiling::tile_m;
    const int number = (blockIdx.y * gridDim.x + blockIdx.x) / Tiling::splits;
    const int2 square = place_in_triangle<Tiling::patch>(number, side);
    const int2 tile = {square.x * Tiling::tile_m, square.y * Tiling::tile_n};
    Tile::compute_together((Tile::Slab*)memory, {in, in}, tile, k, [&](float* sums, int row, int column) {
        constexpr int fragments = Tile::own_columns / 8;
        addition.apply_to_fragments<fragments>(sums, m, m, row, column);
        store_twice<fragments>(sums, row, column, C, m);
    });
}
