// C = A·B in bfloat16: the tensor memory accelerator (TMA) brings the slabs.
//
// Words       As in wgmma.cu, and
//             tensor map   what TMA knows of a matrix: where it is, its extents, the box that a copy moves
//             mbarrier     a counter in shared memory: it counts threads that arrive and bytes that arrive
//             phase        what an mbarrier counts at a time; phases have parity 0, 1, 0, 1 ...
//
// Idea        In wgmma.cu all threads issue copies of 16 bytes, and compute an address for each. Here one
//             thread names a corner of the slab. TMA computes the addresses, swizzles, and fills with zeros
//             what lies outside of the matrix. The host describes both matrices once, in tensor maps.
//
// What lies        tensor map of A          shared memory, the ring            mbarriers
// where            ┌────────────┐          ┌──────┬──────┬──────┬──────┐
//     thread 0     │      ▒▒▒ ──┼─────────►│ a    │ a    │      │      │   full[0]  32768 of 32768 bytes
//     names a  ──► └────────────┘   TMA    │      │      │      │      │   full[1]   8192 of 32768
//     corner       ┌────────────┐          │ b    │ b    │      │      │   full[2]  ...
//                  │   ▒▒ ──────┼─────────►│      │      │      │      │
//                  └────────────┘          └──────┴──────┴──────┴──────┘
//                  tensor map of B           ▲ is   is under way
//                                              read
//
// Order       Thread 0 sets up an mbarrier for each stage, and issues the loads of the first STAGES slabs.
//             For each slab s:
//               1. All threads wait for the phase of its stage: all its bytes are there.
//               2. The warpgroups multiply it, wait for the end, and meet: nobody reads slab s any more.
//               3. Thread 0 issues the loads of slab s + STAGES into its place.
//             The stage's phases have parity 0, 1, 0 ... as the ring goes round.
//
// Takes       TMA wants rows that begin at 16 bytes, so k and n are multiples of 8. Any m, and any edge of a
//             tile: what lies outside counts as bytes, too.
//
// Traffic     As wgmma.cu.
// Removes     The copies' instructions, their addresses and registers, and the fence: TMA writes by the proxy
//             by which the tensor cores read.
// Limit       The tensor cores wait at the end of every slab, until all warpgroups have met and begun the
//             next one; the block that waits has nothing else to multiply.
#include "../tile_copy.cuh"
#include "warpgroup_tile.cuh"

// Load a slab whose corner is at row `row` of A, column `column` of B and step `k` of both.
__device__ __forceinline__ void load(Slab& slab, Mbarrier& full, const CUtensorMap& in_a, const CUtensorMap& in_b,
                                     int row, int column, int k)
{
    expect_bytes(full, sizeof slab);
    load_tile(slab.a, in_a, full, row, k);
    for (int panel = 0; panel < TILE_N / 64; panel++) load_tile(slab.b[panel], in_b, full, k, column + 64 * panel);
}

extern "C" __global__ void __launch_bounds__(threads)
tma_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
         int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[STAGES];
    Slab* ring = (Slab*)memory;
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    const int slabs = (k + TILE_K - 1) / TILE_K;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) init_mbarrier(full[stage], 1);
        publish_mbarriers();
        for (int slab = 0; slab < min(STAGES, slabs); slab++)
            load(ring[slab], full[slab], in_a, in_b, row, column, slab * TILE_K);
    }
    __syncthreads();

    Sums sums = {};
    for (int slab = 0; slab < slabs; slab++) {
        const int stage = slab % STAGES;
        wait_for_phase(full[stage], slab / STAGES % 2);
        multiply(sums, ring[stage]);
        wait_for_products<0>();
        __syncthreads();
        if (threadIdx.x == 0 && slab + STAGES < slabs)
            load(ring[stage], full[stage], in_a, in_b, row, column, (slab + STAGES) * TILE_K);
    }
    store(sums, C, m, n, row, column);
}
