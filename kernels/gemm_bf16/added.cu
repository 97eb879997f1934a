// C = alpha·A·B + beta·D in bfloat16: streamed.cu with the addition in its store.
//
// Words       As in streamed.cu
//
// Idea        A program that adds a product to a matrix can let a second launch read the product and the matrix, and
//             write their sum: 6mn bytes, and the product is rounded before it is added. Here a consumer adds beta·D to
//             its sums before it rounds them, while they are float32 in its registers.
//
//                 streamed.cu     sums ──────────────────► bands ──► C
//                 here            sums ──► + beta·D ──────► bands ──► C
//                                            ▲ from global memory, each lane the two elements beside two sums
//
// Order       As in streamed.cu. Before a band is written, its consumer loads D's part of it, all loads at once.
//
// Where       the addition    Epilogue in ../epilogue.cuh
//
// Takes       n and k that are multiples of 8, as streamed.cu. D may be C, or what lies as C does: A or B, if their
//             extents are C's.
//
// Traffic     As streamed.cu, and 2mn bytes of D.
// Removes     The second launch, and the way of the product to memory and back.
// Limit       As streamed.cu. While D is on its way, its consumer gives the tensor cores no work.
#include "../epilogue.cuh"
#include "../hopper_share.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;              // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;  // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                 // rows of clusters' tiles of a patch
    static constexpr int bands = BANDS;                                 // places for bands of a consumer
    static constexpr int blocks = MULTIPROCESSORS;                      // blocks of the grid
    static constexpr int least = LEAST;                                 // the fewest slabs worth a stretch
};

using Tile = HopperTile<Tiling>;
using Share = HopperShare<Tiling>;

// What blocks leave for others, and a flag each that says that it is there.
__device__ unsigned flags[Tiling::blocks];
__device__ Share::BlockSums partial_sums[Tiling::blocks];

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)
added_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* C, int m, int n,
           int k, float alpha, float beta, const __nv_bfloat16* D, const __grid_constant__ CUtensorMap in_a,
           const __grid_constant__ CUtensorMap in_b, const __grid_constant__ CUtensorMap out)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* slabs = (Tile::Slab*)memory;
    const Epilogue epilogue = {alpha, beta, D};
    Tile::with_bands(slabs, out, [&](auto store_band) {
        Share::compute(slabs, {in_a, in_b}, m, n, k, {partial_sums, flags}, [&](Tile::Sums& sums, int2 tile) {
            Tile::each_band(sums, tile, [&](float* own, int row, int column) {
                epilogue.apply(own, m, n, row, column);
                store_band(row, column, [&](Tile::Band& band) { Tile::write(band, own); });
            });
        });
    });
}
