// C = A·B of halves with C in float: blocks that stay, in clusters that share what they load.
//
// Words       As in ../gemm_bf16/persistent.cu, where clusters, multicast and patches are drawn
//
// Idea        The kernel of ../gemm_bf16/persistent.cu, told by its tiling that an element of A and B is a half and
//             one of C a float. The tensor cores multiply halves as fast as bfloat16. What changes is the way out:
//             the sums are what C takes, so a thread stores them from its registers. Four threads of a row store
//             eight neighbours, the 32 bytes that memory moves at a time, and nothing has to pass shared memory.
//
//                 a row of 8 columns        ┌──────┬──────┬──────┬──────┐
//                 in four threads           │ 0  1 │ 2  3 │ 4  5 │ 6  7 │   ► 32 bytes of C
//                                           └──────┴──────┴──────┴──────┘
//                                            lane 0  lane 1 lane 2 lane 3
//
// Order       As in ../gemm_bf16/persistent.cu, but for the stores: each consumer stores its tile when its last slab
//             is multiplied, while the producer fills the ring for the next one.
//
// Takes       k and n of multiples of 8, for TMA's loads; any m, and any edge of a tile.
//
// Where       Everything but the tiling and the store's call is in HopperTile (../hopper_tile.cuh).
//
// Traffic     2k(1/(CLUSTER_M·TILE_M) + 1/(CLUSTER_N·TILE_N)) bytes from the L2 per element of C, and 4 bytes to C,
//             twice those of bfloat16.
// Removes     The loads of naive.cu: a number that a block loads serves TILE_M or TILE_N products.
// Limit       Power. While a consumer stores, its tensor cores wait.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    using Input = __half;
    using Output = float;

    static constexpr int tile_m = TILE_M, tile_n = TILE_N;              // rows and columns of C of a block
    static constexpr int stages = STAGES;                               // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M, cluster_n = CLUSTER_N;  // blocks of a cluster, down and across
    static constexpr int patch = PATCH;                                 // rows of clusters' tiles of a patch
    static constexpr int early = 2;                                     // slabs loaded before the cluster meets
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128)
persistent_f16(const __half* __restrict__ A, const __half* __restrict__ B, float* __restrict__ C, int m, int n, int k,
               const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::compute_tiles((Tile::Slab*)memory, {in_a, in_b}, m, n, k,
                        [&](const Tile::Sums& sums, int2 tile) { Tile::store(sums, C, m, n, tile.x, tile.y); });
}
