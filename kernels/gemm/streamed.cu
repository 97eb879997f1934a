// C = A·B for any shape: as many blocks as the device holds, each with the same share of the work.
//
// Idea        With a block per tile of C the last wave of blocks leaves multiprocessors idle: 576
//             tiles on 264 places take three waves for the work of 2.2. Here BLOCKS blocks run once.
//             Each takes whole tiles while there are enough for all, and then an equal stretch of
//             the slabs of the tiles that are left, wherever tiles begin and end in it (Osama,
//             Merrill, Cecka, Garland and Owens, Stream-K, PPoPP 2023).
//
//                 tiles left     t           t+1          t+2        slabs of a tile →
//                          ┌────────────┬────────────┬────────────┐
//                          │▒▒▒▒▒▒▒▒░░░░│░░░░▓▓▓▓▓▓▓▓│▒▒▒▒▒▒▒▒░░░░│  a shade per block
//                          └────────────┴────────────┴────────────┘
//
//             The block that has a tile's first slab stores it, after adding what the others with a
//             share in it have left in memory: always in the same order, so that the same product
//             gives the same bits. They finished that share at their start, it comes at this one's
//             end. A block waits only for blocks of lower index, which the device starts earlier:
//             it cannot wait for one that never starts.
//
// Traffic     As pipelined.cu, and a tile of sums written and read per block at most twice.
// Removes     Idle multiprocessors in the last wave; shapes with fewer tiles than the device has
//             places.
// Limit       Issue slots: 1024 of some 1130 instructions of the loop are multiply-adds.
#include "../shares.cuh"
#include "pipeline.cuh"

// What blocks leave for others. Two launches at once would disturb each other; a stream runs them
// one after the other.
__device__ float partial[BLOCKS][THREAD_M * THREAD_N * THREADS];

template <bool vectors>
__device__ void run(const float* A, const float* B, float* C, int m, int n, int k, int tiles_m,
                    int tiles_n)
{
    extern __shared__ float4 memory[];
    const int slabs = (k + TILE_K - 1) / TILE_K, tiles = tiles_m * tiles_n;
    const Stretches rest(tiles, slabs);
    const int mine = BLOCKS - 1 - blockIdx.x;  // a stretch waits for later ones, of lower blocks
    long long slab = 0, end = 0;
    if (mine < rest.count) slab = rest.begin(mine), end = rest.begin(mine + 1);

    for (int tile = blockIdx.x; tile < rest.whole || slab < end;) {
        const bool shared = tile >= rest.whole;
        int at = tile, from = 0, to = slabs;
        if (shared) {
            at = (int)(slab / slabs), from = (int)(slab % slabs);
            to = (int)min((long long)slabs, from + end - slab);
            slab += to - from, at += rest.whole;
        }
        const int first = at / (GROUP * tiles_n) * GROUP, height = min(GROUP, tiles_m - first);
        const int within = at - first * tiles_n;
        const int row = (first + within % height) * TILE_M, col = within / height * TILE_N;

        Copies<vectors> copies(A, B, m, n, k, row, col);
        copies.restrict_to(from * TILE_K, to * TILE_K);
        Sums sums = {};
        multiply(copies, to - from, (Slab*)memory, sums);
        if (from > 0) {
#pragma unroll
            for (int i = 0; i < THREAD_M * THREAD_N; i++)
                partial[mine][i * THREADS + threadIdx.x] = sums[i / THREAD_N][i % THREAD_N];
            announce(&ready[mine]);
        } else {
            for (int other = mine + 1; shared && other < rest.count; other++) {
                if (rest.begin(other) >= (long long)(at - rest.whole + 1) * slabs) break;
                await(&ready[other]);
#pragma unroll
                for (int i = 0; i < THREAD_M * THREAD_N; i++)
                    sums[i / THREAD_N][i % THREAD_N] += partial[other][i * THREADS + threadIdx.x];
            }
            store<vectors>(sums, C, m, n, row, col);
        }
        __syncthreads();  // before the ring is filled anew
        if (!shared) tile += BLOCKS;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
streamed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
         int m, int n, int k)
{
    const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
    if (in_fours(B, C, n))
        run<true>(A, B, C, m, n, k, tiles_m, tiles_n);
    else
        run<false>(A, B, C, m, n, k, tiles_m, tiles_n);
}
