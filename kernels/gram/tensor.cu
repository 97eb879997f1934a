// C = Aᵀ·A for any A of m×n on the fp64 tensor cores: a tile of the triangle per block, mirrored.
//
// Idea        A warp gives the tensor core 16×STEP of one operand and STEP×8 of the other and gets
//             128·STEP multiply-adds for it, in half the time of the vector units (mma.sync on
//             sm_90). Slabs of A are copied asynchronously, STAGES of them in a ring; on the
//             diagonal one copy is both operands, and products below it are left out. While a step
//             is multiplied, the next one's operands are loaded from shared memory, and a slab's
//             copies are issued in PORTIONS, one before each row of products, so that the tensor core
//             has work meanwhile.
//
//                    A, m×n                       C, n×n
//                 row      column             ┌────┬────┬────┐
//              ┌────┬────┬────┬────┐          │ ◥  │    │    │    T of TILE×TILE by warps of
//              │    │    │    │    │          ├────┼────┼────┤    WARP_M×WARP_N; the mirror
//              ├────┼────┼────┼────┤ TILE_K   │    │ ◥  │ T  │    image is written from the
//              │    │ ██ │    │ ██ │          ├────┼────┼────┤    same registers
//              ├────┼────┼────┼────┤          │    │ T' │ ◥  │
//              │    │    │    │    │          └────┴────┴────┘
//              └────┴────┴────┴────┘
//
//             The tensor core wants both operands with the steps of the sum along a row. Slabs of A
//             have them along a column, which is what Aᵀ·A needs: nothing is transposed.
//
// Traffic     Global memory: 2m/TILE · n²/2 reads of 8 bytes. Shared memory, of a warp and a row of
//             A: WARP_M + WARP_N words of 8 bytes for WARP_M·WARP_N multiply-adds.
// Removes     The vector units' 33 TFLOP/s.
// Limit       Waves: n = 2048 has 136 tiles of 128 for 132 multiprocessors. Power: at the tensor
//             cores' full rate the card lowers its clock. Blocks below the diagonal start and leave.
#include "tensor.cuh"

struct Tiling {
    static constexpr int tile = TILE;                       // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                   // rows of A of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;  // rows and columns of C of a warp
    static constexpr int step = STEP;                       // rows of A of a product, 8 or 16
    static constexpr int stages = STAGES;                   // pairs of slabs that the ring holds
    static constexpr int portions = PORTIONS;               // of a slab's copies, issued one by one
    static constexpr int resident = RESIDENT;               // blocks of a multiprocessor
};

using Block = GramTile<Tiling>;

template <bool pairs, bool diagonal>
__device__ __forceinline__ void compute_tile(const double* A, double* C, int m, int n, int row, int col)
{
    extern __shared__ double2 memory[];
    Block::ThreadSums<diagonal> sums = {};
    const int slabs = (m + Tiling::tile_k - 1) / Tiling::tile_k;
    Block::multiply_slabs<pairs, diagonal>(A, m, n, row, col, 0, slabs, (Block::SlabPair*)memory, sums);
    Block::store<pairs, diagonal>(sums, C, n, row, col);
}

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
gram_tensor(const double* __restrict__ A, double* __restrict__ C, int m, int n)
{
    if (blockIdx.x < blockIdx.y) return;
    const int row = blockIdx.y * Tiling::tile, col = blockIdx.x * Tiling::tile;
    Block::choose(Block::rows_hold_pairs(A, C, n), row == col, [&](auto pairs, auto diagonal) {
        compute_tile<pairs.is, diagonal.is>(A, C, m, n, row, col);
    });
}
