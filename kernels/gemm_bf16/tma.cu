// C = A·B in bfloat16: the tensor memory accelerator (TMA) brings the slabs.
//
// Words       tile         TILE_M×TILE_N elements of C, which a block computes, each warpgroup 64 rows
//             slab         what 64 steps of k of a tile need, in shared memory as wgmma.cu draws it
//             ring, stage  the ring is room for STAGES slabs, a stage is room for one
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
// Where       Slab, load, multiply and store are in HopperTile (../hopper_tile.cuh).
//
// Traffic     2k(1/TILE_M + 1/TILE_N) bytes per element of C.
// Removes     The copies' instructions, their addresses and registers, and the fence: TMA writes by the proxy
//             by which the tensor cores read.
// Limit       The tensor cores wait at the end of every slab, until all warpgroups have met and begun the
//             next one; the block that waits has nothing else to multiply.
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
};

using Tile = HopperTile<Tiling>;

extern "C" __global__ void __launch_bounds__(Tile::consumer_threads)
tma_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
         int m, int n, int k, const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b)
{
    extern __shared__ __align__(1024) char memory[];
    __shared__ Mbarrier full[Tiling::stages];
    Tile::Slab* ring = (Tile::Slab*)memory;
    const int row = blockIdx.y * Tiling::tile_m, column = blockIdx.x * Tiling::tile_n;
    const int slabs = Tile::slabs_of(k);
    const auto load = [&](int stage, int slab) {
        Tile::load<false>(ring[stage], full[stage], {in_a, in_b}, {row, column}, slab * Tile::tile_k);
    };
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < Tiling::stages; stage++) init_mbarrier(full[stage], 1);
        publish_mbarriers();
        for (int slab = 0; slab < min(Tiling::stages, slabs); slab++) load(slab, slab);
    }
    __syncthreads();

    Tile::Sums sums = {};
    for (int slab = 0; slab < slabs; slab++) {
        const int stage = slab % Tiling::stages;
        wait_for_phase(full[stage], slab / Tiling::stages % 2);
        Tile::multiply(sums, ring[stage]);
        wait_for_products<0>();
        __syncthreads();
        if (threadIdx.x == 0 && slab + Tiling::stages < slabs) load(stage, slab + Tiling::stages);
    }
    Tile::store(sums, C, m, n, row, column);
}
