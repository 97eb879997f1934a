// C = A·B for any shape: as many blocks as the device holds, each with the same share of the work.
//
// Words       As in pipelined.cu, and
//             share        all slabs of all tiles that a block multiplies: whole tiles, then a stretch
//             stretch      neighbouring slabs of the tiles that are left, the same number for each block
//             part         what a share has of one tile: some or all of its slabs
//             team         warps that compute a whole tile over their own slabs; a block has TEAMS
//             chain        additions in one register, one after the other; a sum has CHAINS of them
//
// Idea        With a block per tile the last wave of blocks leaves multiprocessors idle: 576 tiles on 264
//             places take three waves for the work of 2.2. Here RESIDENT·MULTIPROCESSORS blocks run once.
//             Each takes whole tiles while there are enough for all blocks, and then an equal stretch of the
//             slabs that are left, wherever tiles begin and end in it (Osama, Merrill, Cecka, Garland and
//             Owens, Stream-K, PPoPP 2023). A stretch is multiplied from its last tile to its first one, so
//             that blocks stay in step along k and share what they load, as ../stream_k.cuh shows.
//
//                 tiles left     t           t+1          t+2        slabs of a tile ►
//                          ┌────────────┬────────────┬────────────┐
//                          │▒▒▒▒▒▒▒▒░░░░│░░░░▓▓▓▓▓▓▓▓│▒▒▒▒▒▒▒▒░░░░│  a shade per block
//                          └────────────┴────────────┴────────────┘
//
// What lies   global memory   A, B, C; for each block a tile of sums in partial_sums, a flag in flags that
// where                       says that they are there
//             shared memory   a ring for each team, as in pipelined.cu; with chains, behind the rings, the
//                             sums of chains that have ended; the block's schedule and its part
//             registers       as in pipelined.cu
//
// Order       Block   One thread keeps the schedule in shared memory, and finds the block's parts one by one.
//             For each part:
//               1. The threads multiply the part's slabs, step by step as in pipelined.cu. Each team takes
//                  every TEAMSth slab.
//               2. The teams add up their sums through shared memory; each keeps some rows of the results.
//               3. If the part lacks the tile's last slab: store the sums to partial_sums, raise the flag.
//               4. If it has the tile's last slab: wait for the flags of all other blocks with slabs of the
//                  tile, add their sums, always in the same order so that the same product has the same
//                  bits, and store the tile to C.
//             A stretch that ends inside a tile does that part first, and leaves its sums. The block that
//             wants them does its part of that tile last, so it seldom waits. It waits only for blocks of
//             lower index. The device starts those earlier, so they are sure to run.
//
//             Teams are for a long k and a small C: with them a product of 256³ keeps every multiprocessor
//             busy. Chains are for a long k, where one chain of k additions errs more than the library, whose
//             sums often have parts: CHAINS times over k the sums begin anew from zero, and those that have
//             ended are added up in shared memory, while the copies go on. The error falls to some 1/√CHAINS.
//
// Where       shares        Schedule in ../stream_k.cuh        step 2   BlockTile::add_teams in pipeline.cuh
//             parts         each_part in ../stream_k.cuh       step 3   leave_sums in ../stream_k.cuh
//             step 1        run below, and Pipeline in         step 4   add_left_sums in ../stream_k.cuh,
//                           pipeline.cuh                                store in pipeline.cuh
//
// Traffic     As pipelined.cu. A block writes and reads a tile of sums at most twice.
// Removes     Idle multiprocessors in the last wave, and where a product has fewer tiles than the device has
//             places.
// Limit       Issue slots and register banks, as pipelined.cu.
#include "../stream_k.cuh"
#include "pipeline.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;          // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                           // steps of k of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;          // rows and columns of C of a warp
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // and of a thread, in squares of 4×4
    static constexpr int stages = STAGES;                           // slabs that a ring holds
    static constexpr int teams = TEAMS;                             // teams of warps that share a tile
    static constexpr int chains = CHAINS;                           // chains of additions that make up a sum
    static constexpr int across = ACROSS;                           // threads that copy a row of B
    static constexpr int portions = PORTIONS;                       // parts of a slab's copies
    static constexpr int xor_m = XOR_M, xor_n = XOR_N;              // order of products: i ^ xor_m, j ^ xor_n
    static constexpr int resident = RESIDENT;                       // blocks of a multiprocessor
    static constexpr int blocks = resident * MULTIPROCESSORS;       // blocks of the grid
    static constexpr int least = LEAST;                             // the fewest slabs worth a stretch
    static constexpr int patch = PATCH;                             // tile rows of a patch of C
};

using Block = BlockTile<Tiling>;

// What StreamK shares out.
struct Shares : EachBlock {
    static constexpr int blocks = Tiling::blocks, threads = Block::threads, least = Tiling::least;
    static constexpr int heavy_cost = 1, light_cost = 1;  // of a slab: all tiles are alike
};

using Stream = StreamK<Shares>;

constexpr int count = Block::result_rows * Tiling::thread_n;  // of a thread's sums once the teams are added up

// What blocks leave for others, and a flag each that says that it is there. Two launches at once would
// disturb each other; a stream runs them one after the other.
__device__ unsigned flags[Tiling::blocks];
__device__ float partial_sums[Tiling::blocks][count * Block::threads];

// Where the tile of a part begins in C. It is computed anew when the tile is stored: registers are scarce
// while the tile is multiplied.
__device__ __forceinline__ int2 corner(const Stream::Part& part, int m, int n)
{
    const int2 tile = Block::tile_position(part.tile, (m + Tiling::tile_m - 1) / Tiling::tile_m,
                                           (n + Tiling::tile_n - 1) / Tiling::tile_n);
    return {tile.x * Tiling::tile_m, tile.y * Tiling::tile_n};
}

// Call `run` for each four of a thread's sums, and for the place behind the rings where chains of these sums
// are added up. By fours, because this code is seldom in the instruction cache: the shorter, the sooner it
// arrives.
template <class Run>
__device__ __forceinline__ void each_four(float4* memory, Block::ThreadSums& sums, Run run)
{
    float4* ended = memory + Tiling::teams * Tiling::stages * sizeof(Block::Slab) / sizeof(float4);
#pragma unroll
    for (int e = 0; e < Tiling::thread_m * Tiling::thread_n; e += 4)
        run(*(float4*)&sums[e / Tiling::thread_n][e % Tiling::thread_n], ended[e / 4 * Block::threads + threadIdx.x]);
}

// Compute a part of a tile. The part with the tile's last slab adds what earlier stretches have left, and
// is stored; any other part is left for another block.
template <bool vectors>
__device__ __forceinline__ void run(const float* A, const float* B, float* C, int m, int n, int k,
                                    const Stream::Schedule& schedule, const Stream::Part& part)
{
    extern __shared__ __align__(128) float4 memory[];  // each row begins a sector of 32 bytes
    constexpr int at_once = Tiling::chains * Tiling::teams;
    const int length = (schedule.slabs + at_once - 1) / at_once * Tiling::teams;  // of a chain, in slabs
    Block::ThreadSums sums = {};
    {
        using Copies = Block::SlabCopies<vectors>;
        const int2 at = corner(part, m, n);
        Copies copies(A, B, m, n, k, at.x, at.y, part.begin * Tiling::tile_k, part.end * Tiling::tile_k);
        Block::Pipeline<Copies> pipeline(copies, (Block::Slab*)memory);
        if constexpr (Tiling::chains == 1) {
            pipeline.multiply((part.end - part.begin + Tiling::teams - 1) / Tiling::teams, sums);
        } else {
            each_four(memory, sums, [](float4&, float4& ended) { ended = {0, 0, 0, 0}; });
            for (int begin = part.begin;; begin += length) {
                const int end = min(begin + length, part.end);
                pipeline.multiply((end - begin + Tiling::teams - 1) / Tiling::teams, sums);
                if (end == part.end) break;
                each_four(memory, sums, [](float4& own, float4& ended) {
                    ended = {ended.x + own.x, ended.y + own.y, ended.z + own.z, ended.w + own.w};
                    own = {0, 0, 0, 0};
                });
            }
            each_four(memory, sums, [](float4& own, float4& ended) {
                own = {own.x + ended.x, own.y + ended.y, own.z + ended.z, own.w + ended.w};
            });
        }
        pipeline.finish();
    }
    Block::ThreadResults results;
    Block::add_teams(sums, results, (float*)memory);
    // <report streamed>
    if (schedule.leaves(part)) {
        Stream::leave_sums<count>(&results[0][0], partial_sums, flags, schedule);
    } else {
        Stream::add_left_sums<count>(&results[0][0], partial_sums, flags, schedule.first_stretch(part),
                                     schedule.stretch);
        const int2 at = corner(part, m, n);
        Block::store<vectors>(results, C, m, n, at.x, at.y, (float*)memory);
    }
    // </report>
}

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
streamed(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
         int m, int n, int k)
{
    if constexpr (Tiling::resident == 1) let_next_launch_begin();
    const int tiles_m = (m + Tiling::tile_m - 1) / Tiling::tile_m;
    const int tiles_n = (n + Tiling::tile_n - 1) / Tiling::tile_n;
    const int slabs = (k + Tiling::tile_k - 1) / Tiling::tile_k;
    Stream::each_part(tiles_m * tiles_n, 0, slabs, [&](const Stream::Schedule& schedule,
                                                       const Stream::Part& part) {
        // ptxas places the expected branch first. After the launch of another kernel, code that lies 80 KB
        // after the kernel's start arrives at a fifth of the speed (WORKLOG.md).
        if (__builtin_expect(Block::takes_fours(B, C, n, corner(part, m, n).y), true))
            run<true>(A, B, C, m, n, k, schedule, part);
        else
            run<false>(A, B, C, m, n, k, schedule, part);
    });
}
