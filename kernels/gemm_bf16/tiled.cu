// C = A·B in bfloat16 for any shape: slabs in shared memory, multiplied by the tensor cores of a warp.
//
// Words       tile         TILE_M×TILE_N elements of C, which a block computes
//             slab         what TILE_K steps of k of a tile need: TILE_M×TILE_K of A and TILE_K×TILE_N of B
//             ring, stage  the ring is room for STAGES slabs in shared memory, a stage is room for one
//             piece        16 bytes, eight elements of a row
//             fragment     a lane's share of an operand, in its registers (../instructions.cuh)
//
// Idea        In naive.cu a thread loads two numbers for each multiply-add. Here a warp multiplies whole
//             matrices: one instruction (mma.sync) takes 16×16 elements of A and 16×8 of B from the registers
//             of its 32 lanes and adds to 16×8 sums, 2048 multiply-adds. ldmatrix loads four 8×8 matrices
//             from shared memory into fragments at once, and transposes those of B, whose rows run along n.
//
// What lies   global memory            shared memory, the ring       registers of a warp
// where            k ►  slab           ┌──────┬──────┬──────┐  16×16  ┌──────────────────┐
//              ┌──────┬────┬────┐      │ a    │      │      ├────────►│ fragments of a   │
//            m │ A    │▒▒▒▒│    ├─────►│      │      │      │  16×8   ├──────────────────┤
//            ▼ └──────┴────┴────┘      │ b    │      │      ├────────►│ fragments of b   │
//                  n ►                 └──────┴──────┴──────┘         ├──────────────────┤
//              ┌──────┬──┬──────┐        ▲ is   under way             │ sums of          │
//            k │ B    │▒▒│      ├────────┘ read                       │ WARP_M×WARP_N    │
//            ▼ └──────┴──┴──────┘                                     └──────────────────┘
//
//             Rows of a slab are a piece longer than their elements. So eight rows that begin a matrix of
//             ldmatrix lie in different banks.
//
// Order       For each slab s:
//               1. Each thread waits for its copies of slab s, and meets the block: slab s is there, and
//                  nobody reads slab s - 1 any more.
//               2. It issues its copies of slab s + STAGES - 1 into the stage that slab s - 1 has left.
//               3. The warps multiply slab s, 16 steps of k at a time.
//             Then each lane rounds its sums and stores them.
//             Where rows do not begin at 16 bytes, threads load and store elements, one by one.
//
// Traffic     Global memory: 2k(1/TILE_M + 1/TILE_N) bytes per element of C. Shared memory: for 16 steps a
//             warp reads 32(WARP_M + WARP_N) bytes for 16·WARP_M·WARP_N multiply-adds.
// Removes     The loads of each thread, and the multiply-adds themselves: they are the tensor cores' now.
// Limit       The bandwidth of shared memory, which every fragment comes through. On compute capability 9.0
//             these instructions also reach no more than some two thirds of the tensor cores' rate.
#include "../async_copy.cuh"
#include "../instructions.cuh"

using Matrix = Source<__nv_bfloat16>;

constexpr int length = piece<__nv_bfloat16>;  // elements of a piece
constexpr int warps_across = TILE_N / WARP_N, threads = 32 * (TILE_M / WARP_M) * warps_across;
struct Slab {
    __nv_bfloat16 a[TILE_M][TILE_K + length];
    __nv_bfloat16 b[TILE_K][TILE_N + length];
};

// A thread's copies of a part of a slab, which begins at (row, column).
template <int rows, int pitch>
__device__ __forceinline__ void stage(__nv_bfloat16 (&part)[rows][pitch], const Matrix& from, int row, int column)
{
    constexpr int across = (pitch - length) / length;  // pieces of a row
    copy_pieces<rows, across, threads>(from, row, column, [&](int r, int p) { return &part[r][p * length]; });
}

// A warp's tile of sums, 16×8 at a time.
using Sums = float[WARP_M / 16][WARP_N / 8][4];

// sums += a·b for a slab; (row, column) is where the warp's tile begins in the block's.
__device__ __forceinline__ void multiply(Sums& sums, const Slab& slab, int row, int column)
{
    const int lane = threadIdx.x % 32, down = lane % 16, across = lane / 16 * length;
#pragma unroll
    for (int k = 0; k < TILE_K; k += 16) {
        unsigned a[WARP_M / 16][4], b[WARP_N / 16][4];
#pragma unroll
        // <report tiled_bf16>
        for (int i = 0; i < WARP_M / 16; i++) load_matrices<false>(a[i], &slab.a[row + 16 * i + down][k + across]);
#pragma unroll
        for (int j = 0; j < WARP_N / 16; j++) load_matrices<true>(b[j], &slab.b[k + down][column + 16 * j + across]);
#pragma unroll
        for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
            for (int j = 0; j < WARP_N / 8; j++) multiply_bf16(sums[i][j], a[i], &b[j / 2][j % 2 * 2]);
        // </report>
    }
}

extern "C" __global__ void __launch_bounds__(threads)
tiled_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B,
           __nv_bfloat16* __restrict__ C, int m, int n, int k)
{
    extern __shared__ __align__(128) char memory[];
    Slab* ring = (Slab*)memory;
    const Matrix in_a(A, m, k), in_b(B, k, n);
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const auto issue = [&](int slab) {
        stage(ring[slab % STAGES].a, in_a, row, slab * TILE_K);
        stage(ring[slab % STAGES].b, in_b, slab * TILE_K, column);
        commit_copies();
    };
    for (int slab = 0; slab < STAGES - 1; slab++) issue(slab);

    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int warp_row = warp / warps_across * WARP_M, warp_column = warp % warps_across * WARP_N;
    Sums sums = {};
    const int slabs = (k + TILE_K - 1) / TILE_K;
    for (int slab = 0; slab < slabs; slab++) {
        wait_for_copies<STAGES - 2>();
        __syncthreads();
        issue(slab + STAGES - 1);
        multiply(sums, ring[slab % STAGES], warp_row, warp_column);
    }

#pragma unroll
    for (int i = 0; i < WARP_M / 16; i++)
#pragma unroll
        for (int j = 0; j < WARP_N / 8; j++)
            store_fragment(C, m, n, row + warp_row + 16 * i + lane / 4, column + warp_column + 8 * j + lane % 4 * 2,
                           sums[i][j]);
}
