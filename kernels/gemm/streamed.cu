// C = A·B for any shape: as many blocks as the device holds, each with the same share of the work.
//
// Idea        With a block per tile of C the last wave of blocks leaves multiprocessors idle: 2048
//             tiles on 396 places take six waves for the work of 5.2. Here BLOCKS blocks run once.
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
//             Where k is long and C small, SLICES teams of a block's warps share a tile, too: each
//             takes every SLICES-th slab into a ring of its own, and at the end their sums are added
//             through shared memory. So a product of 256³ keeps every multiprocessor busy.
//
// Traffic     As pipelined.cu, and a tile of sums written and read per block at most twice.
// Removes     Idle multiprocessors in the last wave; shapes with fewer tiles than the device has
//             places.
// Limit       Issue slots and register banks, as pipelined.cu.
#include "pipeline.cuh"
#include "../shares.cuh"

// What blocks leave for others. Two launches at once would disturb each other; a stream runs them
// one after the other.
__device__ float partial[BLOCKS][ROWS * THREAD_N * THREADS];

// Compute slabs `from` to `to` of the tile at (row, col): of a tile's first slab on they are stored,
// with what the stretches up to `others` have left, else they are left as `mine`'s.
template <bool vectors>
__device__ __forceinline__ void part(const float* A, const float* B, float* C, int m, int n, int k,
                                     int row, int col, int from, int to, int mine, int others)
{
    extern __shared__ float4 memory[];
    Copies<vectors> copies(A, B, m, n, k, row, col, from * TILE_K, to * TILE_K);
    Sums sums = {};
    Own own;
    multiply(copies, (to - from + SLICES - 1) / SLICES, (Slab*)memory, sums);
    gather(sums, own, (float*)memory);
    if (from > 0) {
#pragma unroll
        for (int i = 0; i < ROWS * THREAD_N; i++)
            partial[mine][i * THREADS + threadIdx.x] = own[i / THREAD_N][i % THREAD_N];
        announce(&ready[mine]);
    } else {
        await(mine + 1, others);
        for (int other = mine + 1; other <= others; other++)
#pragma unroll
            for (int i = 0; i < ROWS * THREAD_N; i++)
                own[i / THREAD_N][i % THREAD_N] += partial[other][i * THREADS + threadIdx.x];
        store<vectors>(own, C, m, n, row, col);
    }
    __syncthreads();  // before the rings are filled anew
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
streamed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
         int m, int n, int k)
{
    const int tiles_m = (m + TILE_M - 1) / TILE_M, tiles_n = (n + TILE_N - 1) / TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K;
    const Stretches rest(tiles_m * tiles_n, slabs);
    const bool fours = in_fours(B, C, n);
    const int mine = BLOCKS - 1 - blockIdx.x;  // a stretch waits for later ones, of lower blocks
    long long slab = 0, end = 0;
    if (mine < rest.count) slab = rest.begin(mine), end = rest.begin(mine + 1);

    for (int tile = blockIdx.x; tile < rest.whole || slab < end;) {
        int at = tile, from = 0, to = slabs, others = mine;
        if (tile >= rest.whole) {
            at = (int)(slab / slabs), from = (int)(slab % slabs);
            to = (int)min((long long)slabs, from + end - slab);
            others = rest.last_of(at + 1, mine);
            slab += to - from, at += rest.whole;
        } else {
            tile += BLOCKS;
        }
        const int first = at / (GROUP * tiles_n) * GROUP, height = min(GROUP, tiles_m - first);
        const int within = at - first * tiles_n;
        const int row = (first + within % height) * TILE_M, col = within / height * TILE_N;
        if (fours && col + TILE_N <= n)
            part<true>(A, B, C, m, n, k, row, col, from, to, mine, others);
        else
            part<false>(A, B, C, m, n, k, row, col, from, to, mine, others);
    }
}
