// C = A·B for any shape and alignment: register tiles that move four words at a time.
//
// Idea        As register_tile.cu, with every access 16 bytes wide: a thread's results lie in
//             2×2 squares of 4×4, so that four neighbouring elements of a slab are one load, and
//             four neighbouring results one store. Of A four neighbours along k are loaded at
//             once and stored into the four rows of the transposed slab.
//
//                          x·4          TILE/2 + x·4
//                     ┌─────┬──┬─────────┬──┬─────┐
//                     │     │  │         │  │     │     C: TILE×TILE of a block, in fours:
//               y·4   ├─────████─────────████─────┤     █ the results of thread (x, y)
//                     │     │  │         │  │     │
//                     │     │  │         │  │     │
//          TILE/2+y·4 ├─────████─────────████─────┤
//                     │     │  │         │  │     │
//                     └─────┴──┴─────────┴──┴─────┘
//
//             Where n or k is no multiple of four, or a matrix does not begin at 16 bytes, four
//             accesses of a word take the place of one.
//
// Traffic     As register_tile.cu; 2R/4 loads from shared memory for R² multiply-adds.
// Removes     Three of four instructions that move data: 4 are left to 64 multiply-adds.
// Limit       Latency: a block waits for global memory, then for its barrier, in each slab.
#include "fours.cuh"

constexpr int R = 8, WIDTH = TILE / R;
constexpr int THREADS = WIDTH * WIDTH;
constexpr int PITCH = TILE + 4;  // of the transposed slab, a multiple of four words

static_assert(TILE % R == 0 && TILE_K % 4 == 0, "fours cover the tile and the slabs");

struct alignas(16) Slabs {
    float a[TILE_K][PITCH], b[TILE_K][TILE];
};

template <bool vectors>
__device__ void tile(const float* __restrict__ A, const float* __restrict__ B,
                     float* __restrict__ C, int m, int n, int k, Slabs& slab)
{
    const int t = threadIdx.x, x = t % WIDTH * 4, y = t / WIDTH * 4;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE;

    float sums[R][R] = {};
    for (int start = 0; start < k; start += TILE_K) {
        for (int i = t * 4; i < TILE * TILE_K; i += THREADS * 4) {
            const int r = i / TILE_K, p = i % TILE_K;
            const float* from = A + (size_t)(row + r) * k + start + p;
            // <report vectors>
            const float4 a = load_four<vectors>(from, row + r < m ? k - start - p : 0);
            slab.a[p][r] = a.x, slab.a[p + 1][r] = a.y;
            slab.a[p + 2][r] = a.z, slab.a[p + 3][r] = a.w;
            // </report>
        }
        for (int i = t * 4; i < TILE_K * TILE; i += THREADS * 4) {
            const int p = i / TILE, c = i % TILE;
            const float* from = B + (size_t)(start + p) * n + col + c;
            *(float4*)&slab.b[p][c] = load_four<vectors>(from, start + p < k ? n - col - c : 0);
        }
        __syncthreads();

        for (int p = 0; p < TILE_K; p++) {
            float a[R], b[R];
            // <report vectors>
            for (int i = 0; i < R; i += 4) {
                *(float4*)&a[i] = *(const float4*)&slab.a[p][y + i / 4 * TILE / 2];
                *(float4*)&b[i] = *(const float4*)&slab.b[p][x + i / 4 * TILE / 2];
            }
            // </report>
            for (int i = 0; i < R; i++)
                for (int j = 0; j < R; j++)
                    sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }

    for (int i = 0; i < R; i++) {
        const int r = row + y + i / 4 * TILE / 2 + i % 4;
        for (int j = 0; j < R; j += 4) {
            const int c = col + x + j / 4 * TILE / 2;
            if (r < m) store_four<vectors>(C + (size_t)r * n + c, *(float4*)&sums[i][j], n - c);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
vectors(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
        int m, int n, int k)
{
    __shared__ Slabs slab;
    if (rows_hold_fours(B, C, n) && k % 4 == 0 && ((size_t)A & 15) == 0)
        tile<true>(A, B, C, m, n, k, slab);
    else
        tile<false>(A, B, C, m, n, k, slab);
}
