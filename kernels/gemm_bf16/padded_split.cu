// C = A·B in bfloat16 for any shape: copies whose rows begin at 16 bytes, and then as split.cu.
//
// Idea        Rows that begin anywhere are copied as in padded.cu. Where C is small and k long, the clusters of
//             split.cu then work on the copies: there its tiles are too few for all multiprocessors.
//
//                 A, B                      workspace                  clusters
//                 ┌─────────────┐           ┌─────────────┬──┐         ┌──────┬──────┬──────┬──────┐
//                 │ 0 1 ... k-1 │ pad_bf16  │ 0 1 ... k-1 │  │  slabs  │  0   │  1   │  2   │  3   │  one tile
//                 └─────────────┘    ►      └─────────────┴──┘    ►    └──────┴──────┴──────┴──────┘
//
// Traffic     As split.cu, and 4(mk + kn) bytes for the copies.
// Removes     The multiprocessors that have no tile in padded.cu.
// Limit       Two launches, and the copies, which take as long as the product where m and n are small.
#include "pad.cuh"
#include "split.cuh"

extern "C" __global__ void __cluster_dims__(SPLITS, 1, 1) __launch_bounds__(threads + 128, RESIDENT)
padded_split_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                  __nv_bfloat16* __restrict__ C, int m, int n, int k, void* a, void* b,
                  const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    compute_together((Slab*)memory, in_a, in_b, C, m, n, k);
}
