// C = A·B in float32 by three products of halves on the tensor cores.
//
// Words       line         a row of A or a column of B
//             high, low    the two halves of a float: x·2^exponent = high + low·2^-12 (halves.cuh); the exponent
//                          is the line's
//             slab         32 steps of k: highs and lows of the tile's rows of A and columns of B
//             doubt        an element of C for which halves may have lost too much (halves.cuh)
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
//             split_factors    Lines, highs and lows of A and B go to the workspace (halves.cuh).
//             three_products   Blocks that stay, as in ../gemm_bf16/persistent.cu. The producer, for each slab:
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
// Traffic     4 bytes are read, and again where there was no room to keep them, and 4 are written for each element of A
//             and B. Then 4k(1/TILE_M + 1/(CLUSTER_M·TILE_N)) bytes from the L2 per element of C.
// Removes     The limit of float32's own units.
// Limit       Power. In small products the launches, the splitting, and the end of a tile.
#include "../hopper_tile.cuh"
#include "halves.cuh"

struct Tiling : HopperTiling {
    using Input = __half;
    using Output = float;

    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
    static constexpr int cluster_m = CLUSTER_M;             // blocks of a cluster, one above the other
    static constexpr int patch = PATCH;                     // rows of clusters' tiles of a patch
    static constexpr int move = MOVE;                       // slabs whose sums of highs move together
};

using Tile = HopperTile<Tiling>;
using Sums = Tile::SumsOf64;

static_assert(2 * slab_steps == Tile::tile_k, "highs and lows are as long as a slab");

#define OPERANDS const float *__restrict__ A, const float *__restrict__ B, float *__restrict__ C, int m, int n, int k, \
    void *__restrict__ halves_of_a, void *__restrict__ halves_of_b, void *__restrict__ rows, \
    void *__restrict__ columns, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b

extern "C" __global__ void __cluster_dims__(sharers, 1, 1) __launch_bounds__(splitting_threads, 2)
split_factors(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    Kept& kept = *(Kept*)memory;
    let_next_launch_begin();
    wait_for_last_launch();
    const int strips = (n + 31) / 32, strip = blockIdx.x / sharers;
    if (strip < strips)
        split_columns(B, (__half*)halves_of_b, (Line*)columns, n, k, 32 * strip, kept);
    else
        split_rows(A, (__half*)halves_of_a, (Line*)rows, m, k, rows_of_block * (blockIdx.x - sharers * strips), kept);
}

// sums += a·b of a slab: `a` and `b` are the first steps of its highs or lows.
__device__ __forceinline__ void multiply(Sums& sums, const Tile::Operands& of, int a, int b, bool add)
{
#pragma unroll
    for (int step = 0; step < slab_steps; step += 16)
        Tile::multiply_steps(sums, of, a + step, b + step, add || step > 0);
    commit_products();
}

// Multiply a tile's slabs. leave(stage): tell the producers of the cluster that a stage is empty.
template <class Leave>
__device__ __forceinline__ void consume(Tile::Ring& ring, Sums& total, Sums& low, int slabs, Leave leave)
{
    constexpr int highs = 0, lows = slab_steps;
    const int row = Tile::own_row();
    Sums high;
    // <report three_products>
    for (int s = 0; s < slabs; s += Tiling::move) {
#pragma unroll
        for (int i = 0; i < Tiling::move; i++, ring.next()) {
            const Tile::Operands of(ring.slabs[ring.stage], row);
            wait_for_phase(ring.full[ring.stage], ring.round);
            fence_products();
            multiply(high, of, highs, highs, i > 0);
            multiply(low, of, highs, lows, true);
            multiply(low, of, lows, highs, true);
            wait_for_products<2>();  // the last two
            if (s + i > 0) leave(ring.last_stage());
        }
#pragma unroll
        for (int i = 0; i < Tiling::tile_n / 2; i++) total[i] += high[i];
    }
    // </report>
    wait_for_products<0>();
    leave(ring.last_stage());
}

// Take the lines' exponents back.
__device__ __forceinline__ void unscale(Sums& sums, const Factors& of, Lane lane)
{
#pragma unroll
    for (int i = 0; i < Tiling::tile_n / 2; i++) {
        const int row = min(lane.row_of(i), of.m - 1), column = min(lane.column_of(i), of.n - 1);
        const Scale scale(max(-of.rows[row].exponent - of.columns[column].exponent, -252));
        sums[i] = scale.of(sums[i]);
    }
}

// The end of a tile, whose sums are scaled.
__device__ __forceinline__ void finish(Sums& sums, float* C, const Factors& of, int2 tile)
{
    const int warp = threadIdx.x / 32, thread = threadIdx.x % 32, row = tile.x + 16 * warp;
    const Lane lane = {row + thread / 4, tile.y + thread % 4 * 2};
    unsigned long long doubtful = 0;
    if (anything_lost(of, row, tile.y, Tiling::tile_n)) doubtful = doubts(sums, of, lane);
    const int count = of_warp(doubts_of_warp(doubtful));
    if (count > few_doubts) compute(sums, of, lane);
    else unscale(sums, of, lane);
#pragma unroll
    for (int i = 0; i < Tiling::tile_n / 2; i += 2)
        store_pair(C, of.m, of.n, lane.row_of(i), lane.column_of(i), sums[i], sums[i + 1]);
    if (0 < count && count <= few_doubts) settle<Tiling::tile_n / 2>(doubtful, C, of, lane);
}

extern "C" __global__ void __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)
three_products(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[Tiling::stages], empty[Tiling::stages];
    Tile::Ring ring = {(Tile::Slab*)memory, full, empty};
    let_next_launch_begin();
    Tile::Tiles tiles(m, n);
    const int slabs = round_up(k, slab_steps * Tiling::move) / slab_steps;
    if (threadIdx.x == 0) ring.set_up(Tile::warps_that_leave);
    sync_cluster();  // the mbarriers of all blocks are there
    if (!Tile::consumes()) {
        keep_registers<40>();
        if (threadIdx.x == Tile::consumer_threads) {
            wait_for_last_launch();
            for (; tiles.more(); tiles.next())
                Tile::produce(ring, {in_a, in_b}, tiles.first, 0, slabs, tiles.place);
        }
        __syncwarp();
    } else {
        take_registers<232>();
        const int lane = threadIdx.x % 32;
        const auto leave = [&](int stage) {
            if (lane < Tile::cluster) arrive_in_block(empty[stage], lane);
        };
        for (; tiles.more(); tiles.next()) {
            Sums total = {}, low = {};
            consume(ring, total, low, slabs, leave);
#pragma unroll
            for (int i = 0; i < Tiling::tile_n / 2; i++) total[i] = fmaf(low[i], low_unit, total[i]);
            finish(total, C, {A, B, (const Line*)rows, (const Line*)columns, m, n, k}, tiles.first);
        }
    }
    sync_cluster();  // nobody uses another one's memory any more
}
