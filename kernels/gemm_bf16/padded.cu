// C = A·B in bfloat16 for any shape: copies whose rows begin at 16 bytes, and then as persistent.cu.
//
// Idea        TMA takes no matrix whose rows begin anywhere, and so all kernels that it feeds refuse odd n and k.
//             Loads of single elements, as in wgmma.cu, are many times slower. Here a first launch copies A and B
//             to rows that are up to seven elements longer. The copy reads and writes each element once, the
//             product reads it many times: n/TILE_N or m/TILE_M times from the L2.
//
//                 A, rows of k elements            workspace, rows of a multiple of 8
//                 ┌─────────────┐                  ┌─────────────┬──┐
//                 │ 0 1 2 ... 8 │0 1 2 ...         │ 0 1 2 ... 8 │  │ anything
//                 └─────────────┘                  ├─────────────┼──┤
//                   the next row begins            │ 0 1 2 ... 8 │  │
//                   where this one ends            └─────────────┴──┘
//
//             The tensor maps say how long the rows are in truth. What lies behind them comes as zeros.
//
// Order       pad_bf16, then the tiles as in persistent.cu. C has rows that begin anywhere, so consumers store
//             their sums from registers.
//
// Traffic     As persistent.cu, and 4(mk + kn) bytes for the copies.
// Limit       The copies where m or n is small; the stores, which no product of the block's hides.
#include "persistent.cuh"

// Copy one row of a matrix to a longer row: the threads of a block take pairs of elements by turns.
__device__ __forceinline__ void copy_row(const __nv_bfloat16* from, __nv_bfloat162* to, int length)
{
    for (int i = threadIdx.x; 2 * i < length; i += blockDim.x) {
        const __nv_bfloat16 first = from[2 * i];
        to[i] = {first, 2 * i + 1 < length ? from[2 * i + 1] : first};
    }
}

// A block for each row of A and of B.
extern "C" __global__ void pad_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
                                    __nv_bfloat16* __restrict__ C, int m, int n, int k, void* a, void* b,
                                    const __grid_constant__ CUtensorMap in_a,
                                    const __grid_constant__ CUtensorMap in_b)
{
    const bool of_b = blockIdx.x >= m;
    const int row = of_b ? blockIdx.x - m : blockIdx.x, length = of_b ? n : k, padded = (length + 7) / 8 * 8;
    copy_row((of_b ? B : A) + (size_t)row * length, (__nv_bfloat162*)(of_b ? b : a) + (size_t)row * (padded / 2),
             length);
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(threads + 128, RESIDENT)
padded_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
            int m, int n, int k, void* a, void* b, const __grid_constant__ CUtensorMap in_a,
            const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    compute_tiles((Slab*)memory, in_a, in_b, m, n, k,
                  [&](const Sums& sums, int2 tile) { store(sums, C, m, n, tile.x, tile.y); });
}
