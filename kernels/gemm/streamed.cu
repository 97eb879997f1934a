// C = A·B for any shape: as many blocks as the device holds, each with the same share of the work.
//
// Idea        With a block per tile of C the last wave of blocks leaves multiprocessors idle: 576
//             tiles on 264 places take three waves for the work of 2.2. Here RESIDENT·MULTIPROCESSORS blocks run once.
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
//             Where k is long and C small, TEAMS teams of a block's warps share a tile, too: each
//             takes every TEAMS-th slab into a ring of its own, and at the end their sums are added
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
#include "../stream_k.cuh"
#include "pipeline.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;        // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                         // steps of k of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;        // rows and columns of C of a warp
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // results of a thread, in 4×4 squares
    static constexpr int stages = STAGES;                         // slabs that a ring holds
    static constexpr int teams = TEAMS;                           // of warps that share a tile
    static constexpr int chains = CHAINS;                         // of additions that make up a sum
    static constexpr int across = ACROSS;                       // threads that copy a row of B
    static constexpr int portions = PORTIONS;                     // of a slab's copies, issued one by one
    static constexpr int xor_m = XOR_M, xor_n = XOR_N;    // where, of four, the products start
    static constexpr int resident = RESIDENT;                     // blocks of a multiprocessor
    static constexpr int blocks = RESIDENT * MULTIPROCESSORS;     // of the grid
    static constexpr int least = LEAST;                           // slabs of a stretch at least
    static constexpr int patch = PATCH;                           // tile rows of a patch of C
};

using Block = BlockTile<Tiling>;

// What StreamK shares out.
struct Shares {
    static constexpr int blocks = Tiling::blocks, threads = Block::threads, least = Tiling::least;
    static constexpr int heavy_cost = 1, light_cost = 1;  // of a slab: all tiles are alike
};

using Stream = StreamK<Shares>;

static_assert(Tiling::chains == 1 || Tiling::teams == 1, "chains end while the rings are full");

constexpr int count = Block::result_rows * Tiling::thread_n;  // of a thread's sums

// What blocks leave for others, and a flag each that says that it is there. Two launches at once would
// disturb each other; a stream runs them one after the other.
__device__ unsigned flags[Tiling::blocks];
__device__ float partial_sums[Tiling::blocks][count * Block::threads];

// The sums of the chains of a part that have ended.
__device__ float ended_chains[Tiling::chains > 1 ? Tiling::blocks : 1][count * Block::threads];

// Where the tile of a part begins in C. It is computed anew when the tile is stored: registers are scarce
// while the tile is multiplied.
__device__ __forceinline__ int2 corner(const Stream::Part& part, int m, int n)
{
    const int2 tile = Block::tile_position(part.tile, (m + Tiling::tile_m - 1) / Tiling::tile_m,
                                           (n + Tiling::tile_n - 1) / Tiling::tile_n);
    return {tile.x * Tiling::tile_m, tile.y * Tiling::tile_n};
}

// Compute a part of a tile. The part with the tile's first slab adds what later stretches have left, and
// is stored; any other part is left for another block.
template <bool vectors>
__device__ __forceinline__ void run(const float* A, const float* B, float* C, int m, int n, int k,
                                    const Stream::Schedule& schedule, const Stream::Part& part)
{
    extern __shared__ __align__(128) float4 memory[];  // each row begins a sector of 32 bytes
    const int length = (schedule.slabs + Tiling::chains - 1) / Tiling::chains;  // of a chain, in slabs
    Block::ThreadSums sums;
    {
        using Copies = Block::SlabCopies<vectors>;
        const int2 at = corner(part, m, n);
        Copies copies(A, B, m, n, k, at.x, at.y, part.begin * Tiling::tile_k, part.end * Tiling::tile_k);
        Block::Pipeline<Copies> pipeline(copies, (Block::Slab*)memory);
        for (int begin = part.begin;; begin += length) {
            const int end = Tiling::chains > 1 ? min(begin + length, part.end) : part.end;
#pragma unroll
            for (int e = 0; e < Tiling::thread_m * Tiling::thread_n; e++)
                sums[e / Tiling::thread_n][e % Tiling::thread_n] = 0;
            pipeline.multiply((end - begin + Tiling::teams - 1) / Tiling::teams, sums);
            if (Tiling::chains > 1 && begin > part.begin) Stream::add_sums<count>(&sums[0][0], ended_chains[Stream::block_stretch()]);
            if (Tiling::chains == 1 || end == part.end) break;
            Stream::store_sums<count>(&sums[0][0], ended_chains[Stream::block_stretch()]);
        }
        pipeline.finish();
    }
    Block::ThreadResults results;
    Block::add_teams(sums, results, (float*)memory);
    if (part.begin > 0) {
        Stream::leave_sums<count>(&results[0][0], partial_sums, flags);
    } else {
        Stream::add_left_sums<count>(&results[0][0], partial_sums, flags, schedule, part);
        const int2 at = corner(part, m, n);
        Block::store<vectors>(results, C, m, n, at.x, at.y, (float*)memory);
    }
}

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
streamed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
         int m, int n, int k)
{
    const int tiles_m = (m + Tiling::tile_m - 1) / Tiling::tile_m;
    const int tiles_n = (n + Tiling::tile_n - 1) / Tiling::tile_n;
    const int slabs = (k + Tiling::tile_k - 1) / Tiling::tile_k;
    Stream::each_part(tiles_m * tiles_n, 0, slabs, [&](const Stream::Schedule& schedule,
                                                       const Stream::Part& part) {
        // ptxas places the expected branch first. Code that lies 80 KB behind the kernel's start comes at
        // a fifth of the speed after another kernel's launch (WORKLOG.md).
        if (__builtin_expect(rows_hold_fours(B, C, n) && corner(part, m, n).y + Tiling::tile_n <= n, true))
            run<true>(A, B, C, m, n, k, schedule, part);
        else
            run<false>(A, B, C, m, n, k, schedule, part);
    });
}
