// C = A·B in float32 by three products of halves on the tensor cores.
//
// Words       line         a row of A or a column of B
//             high, low    the two halves of a float: x·2^exponent = high + low·2^-12 (halves.cuh); the exponent
//                          is the line's
//             slab         32 steps of k: highs and lows of the tile's rows of A and columns of B
//             doubt        an element of C for which halves may have lost too much (doubts.cuh)
//
// Idea        A half has 11 bits. Two of them, and the sign between them, have 23 of a float's 24. So three products
//             of halves are nearly one of floats; low·low is too small to matter:
//
//                 a·b ≈ high·high + (high·low + low·high)·2^-12
//
//             The tensor cores multiply halves exactly, but they do not round the sum. They cut off what lies some
//             25 bits below the largest term, so long sums drift towards zero. Sums of highs are therefore short:
//             after MOVE slabs they move to float32 registers, which round, and begin anew. Sums of lows are 2^-12
//             of these and stay. The tensor cores are busy with lows while the sums of highs move.
//
//                 tensor cores    high·high │ high·low, low·high │ high·high │ high·low, low·high │ ...
//                 registers                   total += high                    total += high
//
//             A half reaches from 2^-24 to 2^16. The exponents bring the largest element of each line to the top.
//             Elements far below it lose bits, and infinities fit in no half. The first launch notes what each line
//             has lost. The second one sees by it which elements of C are in doubt, and computes those in float32.
//
// Order       Each launch waits for the one before it (../overlap.cuh).
//             split_factors    Lines, highs and lows of A and B go to the workspace (splitting.cuh).
//             three_products   Blocks that stay (resident.cuh). The producer, for each slab:
//                                1. Wait until its stage is empty.
//                                2. Load it. The blocks of a cluster need the same slab of B: each loads a part.
//                              The consumers, for each slab:
//                                1. Wait until its stage is full. Issue the product of highs, then the other two.
//                                2. Wait for all but the other two, and leave the stage of the last slab.
//                                3. After MOVE slabs, add the sums of highs to the total.
//                              At the end of a tile they add the sums of lows, take the exponents back, store the
//                              tile, and settle its doubts.
//
// Error       With MOVE 1 at most 2^-18 + k·2^-29 of Σ|a||b|: 2^-20 for bits that two halves lack, 2^-22 for low·low,
//             2^-21 for doubts that pass, 2^-19 for what is cut off; the rest grows with the number of sums that
//             move. SGEMM's bound is k·2^-24.
// Source      H. Ootomo and R. Yokota, Recovering single precision accuracy from Tensor Cores while surpassing the
//             FP32 theoretical peak performance, arXiv 2203.03341: lows that are scaled up, sums that move.
//
// Traffic     4 bytes are read twice, mostly from a cache the second time, and 4 are written for each element of A
//             and B. Then 4k(1/TILE_M + 1/(CLUSTER_M·TILE_N)) bytes from the L2 per element of C.
// Removes     The limit of float32's own units.
// Limit       Power. In small products the launches, the splitting, and the end of a tile.
#include "../overlap.cuh"
#include "../resident.cuh"
#include "../tile_copy.cuh"
#include "../warp_roles.cuh"
#include "../wgmma.cuh"
#include "doubts.cuh"

constexpr int threads = 2 * TILE_M;  // that consume

constexpr int slab_rows = 2 * slab_steps, rows_of_b = slab_rows / CLUSTER_M;  // of a slab, and those a block loads

// Rows of 128 bytes, swizzled: of A 32 highs and 32 lows, of B 64 columns.
struct Slab {
    __half a[TILE_M][slab_rows];
    __half b[TILE_N / 64][slab_rows][64];
};

using Slabs = Ring<Slab, STAGES>;
using OwnTiles = Tiles<TILE_M, TILE_N, CLUSTER_M, PATCH>;
using Sums = float[TILE_N / 2];

#define OPERANDS const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int m, int n, int k, \
    void *__restrict__ halves_of_a, void *__restrict__ halves_of_b, void *__restrict__ rows, \
    void *__restrict__ columns, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b

extern "C" __global__ void __launch_bounds__(32 * splitting_warps, 1) split_factors(OPERANDS)
{
    let_next_launch_begin();
    wait_for_last_launch();
    const int strips = (n + 31) / 32, strip = blockIdx.x;
    if (strip < strips) split_columns(B, (__half*)halves_of_b, (Line*)columns, n, k, 32 * strip);
    else split_rows(A, (__half*)halves_of_a, (Line*)rows, m, k, 32 * (strip - strips));
}

__device__ __forceinline__ void load(Slab& slab, Mbarrier& full, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                     int2 tile, int k)
{
    expect_bytes(full, sizeof slab);
    load_tile(slab.a, in_a, full, tile.x, k);
    const int first = rank_in_cluster() * rows_of_b;
    for (int panel = 0; panel < TILE_N / 64; panel++)
        if constexpr (CLUSTER_M > 1)
            load_tile_to_blocks(slab.b[panel][first], in_b, full, k + first, tile.y + 64 * panel, (1 << CLUSTER_M) - 1);
        else
            load_tile(slab.b[panel], in_b, full, k, tile.y + 64 * panel);
}

__device__ __forceinline__ void produce(Slabs ring, OwnTiles tiles, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                        int slabs)
{
    wait_for_last_launch();
    for (; tiles.left(); tiles.next())
        for (int s = 0; s < slabs; s++, ring.slab++) {
            wait_for_phase(ring.empty[ring.stage()], 1 - ring.round());
            load(ring.slabs[ring.stage()], ring.full[ring.stage()], in_a, in_b, tiles.position(), s * slab_rows);
        }
}

// Leave a stage to the producers of the cluster.
__device__ __forceinline__ void leave(const Slabs& ring, int stage)
{
    const int lane = threadIdx.x % 32;
    if (lane < CLUSTER_M) arrive_in_block(ring.empty[stage], lane);
}

// sums += a·b of a slab: `a` and `b` are the first steps of its highs or lows.
__device__ __forceinline__ void multiply(Sums& sums, const Slab& slab, int a, int b, bool add)
{
    constexpr int pattern = 1024;  // bytes of eight rows
    const int row = threadIdx.x / 128 * 64;
#pragma unroll
    for (int step = 0; step < slab_steps; step += 16)
        multiply_tiles<__half, true>(sums, operand(&slab.a[row][a + step], pattern),
                                     operand(slab.b[0][b + step], pattern, sizeof slab.b[0]), add || step > 0);
    commit_products();
}

__device__ __forceinline__ void consume(Slabs& ring, Sums& total, Sums& low, int slabs)
{
    constexpr int highs = 0, lows = slab_steps;
    Sums high;
    // <report three_products>
    for (int s = 0; s < slabs; s += MOVE) {
#pragma unroll
        for (int i = 0; i < MOVE; i++, ring.slab++) {
            const Slab& slab = ring.slabs[ring.stage()];
            wait_for_phase(ring.full[ring.stage()], ring.round());
            fence_products();
            multiply(high, slab, highs, highs, i > 0);
            multiply(low, slab, highs, lows, true);
            multiply(low, slab, lows, highs, true);
            wait_for_products<2>();  // the last two
            if (s + i > 0) leave(ring, ring.last_stage());
        }
#pragma unroll
        for (int i = 0; i < TILE_N / 2; i++) total[i] += high[i];
    }
    // </report>
    wait_for_products<0>();
    leave(ring, ring.last_stage());
}

// Take the lines' exponents back.
__device__ __forceinline__ void unscale(Sums& sums, const Factors& of, Lane lane)
{
#pragma unroll
    for (int i = 0; i < TILE_N / 2; i++) {
        const int row = min(lane.row_of(i), of.m - 1), column = min(lane.column_of(i), of.n - 1);
        const Scale scale(max(-of.rows[row].exponent - of.columns[column].exponent, -252));
        sums[i] = scale.of(sums[i]);
    }
}

__device__ __forceinline__ void store(const Sums& sums, float* C, int m, int n, Lane lane)
{
#pragma unroll
    for (int i = 0; i < TILE_N / 2; i += 2) {
        const int row = lane.row_of(i), column = lane.column_of(i);
        if (row >= m || column >= n) continue;
        float* place = C + (size_t)row * n + column;
        if (n % 2 == 0) {
            *(float2*)place = {sums[i], sums[i + 1]};
        } else {
            place[0] = sums[i];
            if (column + 1 < n) place[1] = sums[i + 1];
        }
    }
}

// The end of a tile, whose sums are scaled.
__device__ __forceinline__ void finish(Sums& sums, float* C, const Factors& of, int2 tile)
{
    const int warp = threadIdx.x / 32, thread = threadIdx.x % 32, row = tile.x + 16 * warp;
    const Lane lane = {row + thread / 4, tile.y + thread % 4 * 2};
    unsigned long long doubtful = 0;
    if (anything_lost(of, row, tile.y, TILE_N)) doubtful = doubts(sums, of, lane);
    const int count = doubts_of_warp(doubtful);
    if (count > few_doubts) compute(sums, of, lane);
    else unscale(sums, of, lane);
    store(sums, C, of.m, of.n, lane);
    if (0 < count && count <= few_doubts) settle<TILE_N / 2>(doubtful, C, of, lane);
}

extern "C" __global__ void __cluster_dims__(CLUSTER_M, 1, 1) __launch_bounds__(threads + 128, 1)
three_products(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    Slabs ring = {(Slab*)memory, full, empty};
    let_next_launch_begin();
    OwnTiles tiles(m, n);
    const int slabs = round_up(k, slab_steps * MOVE) / slab_steps;
    if (threadIdx.x == 0) ring.init(CLUSTER_M * threads / 32);
    sync_cluster();  // the mbarriers of all blocks are there
    if (threadIdx.x >= threads) {
        keep_registers<40>();
        if (threadIdx.x == threads) produce(ring, tiles, in_a, in_b, slabs);
        __syncwarp();
    } else {
        take_registers<232>();
        for (; tiles.left(); tiles.next()) {
            Sums total = {}, low = {};
            consume(ring, total, low, slabs);
#pragma unroll
            for (int i = 0; i < TILE_N / 2; i++) total[i] = fmaf(low[i], low_unit, total[i]);
            finish(total, C, {A, B, (const Line*)rows, (const Line*)columns, m, n, k}, tiles.position());
        }
    }
    sync_cluster();  // nobody uses another one's memory any more
}
