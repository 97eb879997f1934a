// C = A·B in bfloat16: one warpgroup brings slabs, the others multiply them.
//
// Words       tile         TILE_M×TILE_N elements of C, which a block computes
//             slab         what 64 steps of k of a tile need, in shared memory
//             ring, stage  the ring is room for STAGES slabs, a stage is room for one
//             mbarrier     counts threads that arrive and bytes that arrive, phase after phase (tma.cu)
//             producer     the warpgroup of which one thread issues all loads, by TMA
//             consumers    the other warpgroups: each multiplies 64 rows of the tile
//
// Idea        In tma.cu the block meets at the end of each slab, so that a thread may fill its place again.
//             Meanwhile the tensor cores have nothing to do. Here nobody meets. Each stage has two mbarriers:
//             the producer waits for `empty` and fills the stage, the consumers wait for `full` and multiply it.
//             A consumer gives the tensor cores the next slab before it waits for the last one, so that they
//             always have work.
//
//             producer     fill 0   fill 1   fill 2   wait ... fill 0    wait ... fill 1
//                             └─full──┐                 ▲                   ▲
//             consumers            wait  multiply 0   multiply 1 ──empty 0  multiply 2 ──empty 1
//                                                     wait for 0            wait for 1
//
//             Registers   All threads of a block begin with as many registers. The producer, which needs few,
//                         leaves its own to the consumers (setmaxnreg), which hold the sums.
//
// Order       Producer, for each slab s:           Consumers, for each slab s:
//               1. Wait until the stage is empty.    1. Wait until the stage is full.
//               2. Issue the loads of slab s.        2. Issue the products of slab s.
//                                                    3. Wait for the products of slab s - 1. Each warp
//                                                       arrives at the `empty` of its stage.
//
// Where       Ring, produce and multiply are in HopperTile (../hopper_tile.cuh).
//
// Takes       n and k that are multiples of 8: TMA wants rows that begin at 16 bytes.
//
// Traffic     2k(1/TILE_M + 1/TILE_N) bytes per element of C; a tile of 128×256 needs a quarter less than 128×128.
// Removes     The barrier of the block, and the tensor cores' pause at it.
// Limit       The end of a tile: its stores, and the first slabs of the next one, have no products beside
//             them, since the multiprocessor holds a single block.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
};

using Tile = HopperTile<Tiling>;

static_assert(Tile::consumers == 2, "they and the producer share 65536 registers as said below");

__device__ __forceinline__ void consume(Tile::Ring ring, Tile::Sums& sums, int slabs)
{
    // <report roles_bf16>
    for (int slab = 0; slab < slabs; slab++, ring.next()) {
        wait_for_phase(ring.full[ring.stage], ring.round);
        Tile::multiply(sums, ring.slabs[ring.stage]);
        wait_for_products<1>();
        if (slab > 0 && elected()) arrive(ring.empty[ring.last_stage()]);
    }
    // </report>
    wait_for_products<0>();
}

extern "C" __global__ void __launch_bounds__(Tile::consumer_threads + 128, 1)
roles_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
           int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[Tiling::stages], empty[Tiling::stages];
    Tile::Ring ring = {(Tile::Slab*)memory, full, empty};
    const int row = blockIdx.y * Tiling::tile_m, column = blockIdx.x * Tiling::tile_n;
    const int slabs = Tile::slabs_of(k);
    if (threadIdx.x == 0) ring.set_up(Tile::consumer_warps);
    __syncthreads();
    if (!Tile::consumes()) {
        keep_registers<40>();
        if (threadIdx.x == Tile::consumer_threads) Tile::produce(ring, {in_a, in_b}, {row, column}, 0, slabs);
    } else {
        take_registers<232>();
        Tile::Sums sums = {};
        consume(ring, sums, slabs);
        Tile::store(sums, C, m, n, row, column);
    }
}
