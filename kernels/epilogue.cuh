// C = alpha·T + beta·D, where T is a product in registers: in float32, before an element is rounded. For kernels whose rows of
// D begin anywhere, or whose blocks are brief; others take D by TMA (gemm_bf16/persistent.cu).
//
//     by a launch of its own    product ──► T, rounded ──► read T and D ──► C, rounded again
//     here                      product ──► sums ──► read D ──► C, rounded once
//
//                 sums ─────────────► C            adds = false: what a plain product is compiled with
//                 sums ──► + beta·D ─► C           adds = true
//                            ▲ from global memory, each lane the two elements beside two sums
//
// D has the extents of C. It may be C, or what lies as C does: A or B, if their extents are C's. As in BLAS, with beta of
// 0 D is not read, and may have NaN. While D is on its way, its warps give the tensor cores no work.
#pragma once

#include <cuda_bf16.h>

// upper: C is symmetric, and of D only pairs that reach the diagonal or lie above it are read.
template <bool adds, bool upper = false>
struct Epilogue {
    float alpha = 1, beta = 0;
    const __nv_bfloat16* D = nullptr;

    __device__ __forceinline__ float of(float sum, const __nv_bfloat16& d) const
    {
        if constexpr (!adds) return sum;
        return beta == 0 ? alpha * sum : alpha * sum + beta * __bfloat162float(d);
    }

    // Apply it to a warpgroup's sums of 64×64 elements of C of m×n, which begin at (row, column). A lane has the sums
    // that wgmma leaves it (instructions.cuh, Products of a warpgroup).
    __device__ __forceinline__ void apply(float* sums, int m, int n, int row, int column) const
    {
        const int lane = threadIdx.x % 32;
        apply_to_fragments<8>(sums, m, n, row + threadIdx.x / 32 % 4 * 16 + lane / 4, column + lane % 4 * 2);
    }

    // Apply it to a lane's sums of 16×8 elements side by side, four each: two neighbours, of the first one at (row,
    // column), and two eight rows below.
    template <int fragments>
    __device__ __forceinline__ void apply_to_fragments(float* sums, int m, int n, int row, int column) const
    {
        if constexpr (!adds) return;
#pragma unroll
        for (int i = 0; i < 4 * fragments; i++) sums[i] *= alpha;
        if (beta == 0) return;
#pragma unroll
        for (int j = 0; j < fragments; j++)
#pragma unroll
            for (int below = 0; below < 2; below++)
                add_pair(&sums[4 * j + 2 * below], m, n, row + 8 * below, column + 8 * j);
    }

    // Add beta·D to two neighbours, at (row, column). D is loaded past the L1, which may have lines of it from before
    // the last launch's stores, since launches overlap.
    __device__ __forceinline__ void add_pair(float* two, int m, int n, int row, int column) const
    {
        if (row >= m || column >= n || (upper && column + 1 < row)) return;
        const __nv_bfloat16* place = D + (size_t)row * n + column;
        if (n % 2 == 0) {
            const __nv_bfloat162 both = __ldcg((const __nv_bfloat162*)place);
            two[0] += beta * __bfloat162float(both.x), two[1] += beta * __bfloat162float(both.y);
        } else {
            two[0] += beta * __bfloat162float(__ldcg(place));
            if (column + 1 < n) two[1] += beta * __bfloat162float(__ldcg(place + 1));
        }
    }
};
