// C = A·B in bfloat16: one warpgroup brings slabs, the others multiply them.
//
// Words       As in tma.cu, and
//             producer     the warpgroup of which one thread issues all copies
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
// Traffic     As tma.cu; the larger tile needs a quarter less.
// Removes     The barrier of the block, and the tensor cores' pause at it.
// Limit       The end of a tile: its stores, and the first slabs of the next one, have no products beside
//             them, since the multiprocessor holds a single block.
#include "../tile_copy.cuh"
#include "../warp_roles.cuh"
#include "warpgroup_tile.cuh"

static_assert(TILE_M == 128, "two consumers and a producer share 65536 registers as said here");

struct Ring {
    Slab* slabs;
    Mbarrier *full, *empty;

    // Which round through the ring the slab is in, as a parity.
    static __device__ int round(int slab) { return slab / STAGES % 2; }
};

__device__ __forceinline__ void produce(const Ring& ring, const CUtensorMap& in_a, const CUtensorMap& in_b, int row,
                                        int column, int slabs)
{
    for (int slab = 0; slab < slabs; slab++) {
        const int stage = slab % STAGES;
        Mbarrier& full = ring.full[stage];
        wait_for_phase(ring.empty[stage], 1 - Ring::round(slab));
        expect_bytes(full, sizeof(Slab));
        load_tile(ring.slabs[stage].a, in_a, full, row, slab * TILE_K);
        for (int panel = 0; panel < TILE_N / 64; panel++)
            load_tile(ring.slabs[stage].b[panel], in_b, full, slab * TILE_K, column + 64 * panel);
    }
}

__device__ __forceinline__ void consume(const Ring& ring, Sums& sums, int slabs)
{
    // <report roles_bf16>
    for (int slab = 0; slab < slabs; slab++) {
        wait_for_phase(ring.full[slab % STAGES], Ring::round(slab));
        multiply(sums, ring.slabs[slab % STAGES]);
        wait_for_products<1>();
        if (slab > 0 && elected()) arrive(ring.empty[(slab - 1) % STAGES]);
    }
    // </report>
    wait_for_products<0>();
}

extern "C" __global__ void __launch_bounds__(threads + 128, 1)
roles_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
           int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES], empty[STAGES];
    const Ring ring = {(Slab*)memory, full, empty};
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            init_mbarrier(full[stage], 1);
            init_mbarrier(empty[stage], threads / 32);
        }
        publish_mbarriers();
    }
    __syncthreads();
    if (threadIdx.x >= threads) {
        keep_registers<40>();
        if (threadIdx.x == threads) produce(ring, in_a, in_b, row, column, slabs);
    } else {
        take_registers<232>();
        Sums sums = {};
        consume(ring, sums, slabs);
        store(sums, C, m, n, row, column);
    }
}
