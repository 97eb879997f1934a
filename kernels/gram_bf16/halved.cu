// C = A·Aᵀ in bfloat16: half of the tiles of ../gemm_bf16/persistent.cu, whose results are stored twice.
//
// Words       As in ../gemm_bf16/persistent.cu, and
//             square       the tiles of a cluster, one above the other: CLUSTER_M tiles of TILE_M rows, and as many
//                          columns in each as these are rows
//             on the       a square whose rows of A are its columns of B
//             diagonal
//
// Idea        Element (i, j) of C is row i of A times row j of A, and so is element (j, i). So only the squares on the
//             diagonal and above it are computed, n(n + 1)/2 of n². There is no B: its columns are rows of A, and lie
//             in memory as A's do, along k. The tensor cores take them so (instructions.cuh, Products of a
//             warpgroup), and one tensor map serves both operands.
//
//                  C, order of squares                     a square of two blocks, on the diagonal
//                 ┌────┬────┬────┬────┐                     slab, rows of A      tiles
//                 │ 0  │ 1  │ 3  │ 5  │  patches of          ┌────────────┐    ┌────────────┐
//                 └────┼────┼────┼────┤  two rows            │ rows of    │    │ block 0    │
//                  ╲   │ 2  │ 4  │ 6  │                      │ block 0    │    ├────────────┤
//                    ╲ └────╪════╪════╡                      ├────────────┤    │ block 1    │
//                  copies  ╲│ 7  │ ...│                      │ of block 1 │    └────────────┘
//                 └─────────┴────┴────┘                      └────────────┘  columns: all these rows
//
//             On the diagonal a block's rows of A are among its columns of B. They are loaded once, and the tensor
//             cores fetch both operands from there.
//
// Order       As in ../gemm_bf16/persistent.cu. Then each thread stores its sums from registers: at (i, j), and again
//             at (j, i). On the diagonal it stores those with i <= j alone, so that C is symmetric to the bit.
//
// Where       order of squares    place_in_triangle in ../patches.cuh, Order in ../hopper_tile.cuh
//             loads, products     load and multiply there, where T::symmetric is asked for
//             stores              store_twice below
//
// Takes       k of a multiple of 8: TMA wants rows of A that begin at 16 bytes.
//
// Traffic     4k/(CLUSTER_M·TILE_M) bytes from the L2 for each element that is computed, half of it on the diagonal.
// Removes     Half of the products, and half of their power.
// Limit       The stores of the mirror image: threads with neighbouring j write two bytes each to rows of C that are 2m
//             bytes apart, 32 times the sectors that the bytes would fill.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int cluster_m = CLUSTER_M;                         // blocks of a square
    static constexpr int tile_m = TILE_M, tile_n = cluster_m * tile_m;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int patch = PATCH;                                 // rows of squares of a patch
    static constexpr int early = cluster_m == 1 ? stages : 2;           // slabs loaded before the cluster meets
    static constexpr bool symmetric = true;
};

using Tile = HopperTile<Tiling>;

// Store a consumer's sums of a tile at their places on the diagonal and above it, and at those mirrored.
__device__ __forceinline__ void store_twice(const Tile::Sums& sums, int2 tile, __nv_bfloat16* C, int m)
{
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    Tile::each_band(sums, tile, [&](const float* own, int row, int column) {
#pragma unroll
        for (int e = 0; e < 32; e++) {
            const int i = row + 16 * warp + lane / 4 + e % 4 / 2 * 8, j = column + e / 4 * 8 + lane % 4 * 2 + e % 2;
            if (i <= j && j < m) C[(size_t)i * m + j] = C[(size_t)j * m + i] = __float2bfloat16(own[e]);
        }
    });
}

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)
gram_halved_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* __restrict__ C, int m, int k,
                 const __grid_constant__ CUtensorMap in)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::compute_tiles((Tile::Slab*)memory, {in, in}, m, m, k,
                        [&](const Tile::Sums& sums, int2 tile) { store_twice(sums, tile, C, m); });
}
