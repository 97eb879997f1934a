// C = alpha·A·Aᵀ + beta·D in bfloat16 for any shape: a copy whose rows begin at 16 bytes, and then as streamed.cu.
//
// Idea        As ../gemm_bf16/padded.cu: TMA takes no matrix whose rows begin anywhere, so a first launch copies A to
//             rows that are up to seven elements longer. Of two operands that are one matrix there is one copy.
//
// Order       pad_gram_bf16, then the shares as in streamed.cu; each waits for the launch before it. C has rows that
//             begin anywhere, which TMA does not take either: when a band or its mirror image is written, each warp
//             stores 16 of its rows, neighbouring lanes neighbouring elements.
//
// Takes       Any shape.
//
// Traffic     As streamed.cu, and 4mk bytes for the copy.
// Limit       The copy where m is small; the stores, which no product of the block's hides.
#include "../gemm_bf16/pad.cuh"
#include "../hopper_share.cuh"
#include "mirror.cuh"

struct Tiling : HopperTiling {
    static constexpr int cluster_m = CLUSTER_M;                         // blocks of a square
    static constexpr int tile_m = TILE_M, tile_n = cluster_m * tile_m;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int patch = PATCH;                                 // rows of squares of a patch
    static constexpr int blocks = MULTIPROCESSORS;                      // blocks of the grid
    static constexpr int least = LEAST;                                 // the fewest slabs worth a stretch
    static constexpr bool symmetric = true;
    static constexpr bool adds = ADDS;                                  // whether C = alpha·A·Aᵀ + beta·D
};

using Tile = HopperTile<Tiling>;
using Share = HopperShare<Tiling>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[Tiling::blocks];
__device__ Share::BlockSums partial_sums[Tiling::blocks];

extern "C" __global__ void
pad_gram_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
              const __nv_bfloat16* D, void* a, const __grid_constant__ CUtensorMap in)
{
    let_next_launch_begin();
    wait_for_last_launch();
    copy_rows(A, (__nv_bfloat162*)a, m, k, blockIdx.x);
}

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)
gram_padded_bf16(const __nv_bfloat16* __restrict__ A, __nv_bfloat16* C, int m, int k, float alpha, float beta,
                 const __nv_bfloat16* D, void* a, const __grid_constant__ CUtensorMap in)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    Tile::Band& band = ((Tile::Band*)(slabs + Tiling::stages))[threadIdx.x / 128];
    const auto store_band = [&](int row, int column, auto write) {
        Tile::sync_group();  // the last band is stored
        write(band);
        Tile::sync_group();
        const int first = threadIdx.x / 32 % 4 * 16;
#pragma unroll 4
        for (int r = first; r < first + 16; r++)
            if (row + r < m) Tile::store_row(band, r, C + (size_t)(row + r) * m, m, column);
    };
    Share::compute(slabs, {in, in}, m, m, k, {partial_sums, flags}, [&](Tile::Sums& sums, int2 tile) {
        Mirror<Tiling>::store(sums, tile, m, store_band, {alpha, beta, D});
    });
}
