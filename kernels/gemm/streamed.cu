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
//             Where k is long and C small, SLICES teams of a block's warps share a tile, too: each
//             takes every SLICES-th slab into a ring of its own, and at the end their sums are added
//             through shared memory. So a product of 256³ keeps every multiprocessor busy.
//
//             Where one chain of k additions errs more than the library, whose sums have parts
//             there, a tile's sums are begun anew CHAINS times over k, and added up in memory
//             while the copies go on: CHAINS chains err by some 1/√CHAINS of one.
//
// Traffic     As pipelined.cu, a tile of sums written and read per block at most twice, and once for
//             each chain of a tile but the first.
// Removes     Idle multiprocessors in the last wave; shapes with fewer tiles than the device has
//             places.
// Limit       Issue slots and register banks, as pipelined.cu.
#include "pipeline.cuh"
constexpr int HEAVY = 1, LIGHT = 1;  // all tiles are alike
#include "../shares.cuh"

constexpr int COUNT = ROWS * THREAD_N;  // of a thread's sums

static_assert(CHAINS == 1 || SLICES == 1, "chains end while the rings are full");

// What blocks leave for others. Two launches at once would disturb each other; a stream runs them
// one after the other.
__device__ float partial[BLOCKS][COUNT * THREADS];

// The sums of a part's chains before the one that is under way.
__device__ float earlier[CHAINS > 1 ? BLOCKS : 1][COUNT * THREADS];

// Where the tile of a part begins. It is computed anew when the tile is stored: registers are scarce
// while it is multiplied.
__device__ __forceinline__ int2 corner(const Part& part, int m, int n)
{
    const int2 tile = place(part.at, (m + TILE_M - 1) / TILE_M, (n + TILE_N - 1) / TILE_N);
    return {tile.x * TILE_M, tile.y * TILE_N};
}

// Compute a part of a tile: what has the tile's first slab is stored, with what the stretches behind
// it have left, else it is left for another block.
template <bool vectors>
__device__ __forceinline__ void run(const float* A, const float* B, float* C, int m, int n, int k,
                                    const Walk& walk, const Part& part)
{
    extern __shared__ __align__(128) float4 memory[];  // a sector of 32 bytes is not to be cut in two
    const int length = (walk.slabs + CHAINS - 1) / CHAINS;
    Sums sums;
    {
        const int2 at = corner(part, m, n);
        Copies<vectors> copies(A, B, m, n, k, at.x, at.y, part.from * TILE_K, part.to * TILE_K);
        Pipeline<Copies<vectors>> pipeline(copies, (Slab*)memory);
        for (int from = part.from;; from += length) {
            const int to = CHAINS > 1 ? min(from + length, part.to) : part.to;
#pragma unroll
            for (int e = 0; e < THREAD_M * THREAD_N; e++) sums[e / THREAD_N][e % THREAD_N] = 0;
            pipeline.multiply((to - from + SLICES - 1) / SLICES, sums);
            if (CHAINS > 1 && from > part.from) add<COUNT>(&sums[0][0], earlier[mine()]);
            if (CHAINS == 1 || to == part.to) break;
            put<COUNT>(&sums[0][0], earlier[mine()]);
        }
        pipeline.end();
    }
    Own own;
    gather(sums, own, (float*)memory);
    if (part.from > 0) {
        leave<COUNT>(&own[0][0], partial);
    } else {
        add_left<COUNT>(&own[0][0], partial, walk, part);
        const int2 at = corner(part, m, n);
        store<vectors>(own, C, m, n, at.x, at.y, (float*)memory);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
streamed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
         int m, int n, int k)
{
    const int tiles = ((m + TILE_M - 1) / TILE_M) * ((n + TILE_N - 1) / TILE_N);
    each_part(tiles, 0, (k + TILE_K - 1) / TILE_K, [&](const Walk& walk, const Part& part) {
        // What is expected ptxas puts first: what lies 80 KB behind a kernel's start, another kernel's launch
        // between, is fetched at a fifth of the speed (WORKLOG.md).
        if (__builtin_expect(in_fours(B, C, n) && corner(part, m, n).y + TILE_N <= n, true))
            run<true>(A, B, C, m, n, k, walk, part);
        else
            run<false>(A, B, C, m, n, k, walk, part);
    });
}
