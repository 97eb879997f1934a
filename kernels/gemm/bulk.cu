// C = A·B for any shape and alignment: rows of B come by bulk copies, one instruction each.
//
// Words       As in pipelined.cu, and
//             bulk copy    a copy of a whole row, which the tensor memory accelerator (TMA) does on its own
//             mbarrier     a counter in shared memory: it counts threads that arrive and bytes that arrive
//             phase        what an mbarrier counts at a time; phases have parity 0, 1, 0, 1 ...
//
// Idea        In pipelined.cu all threads copy a slab of B, 16 bytes at a time. From compute capability 9.0
//             on a multiprocessor has a unit that copies on its own, the TMA. One thread says where a row
//             begins, how long it is and where it goes, and the unit does the rest.
//
// What lies   As in pipelined.cu, and an mbarrier for each stage of the ring.
// where
//                    slab of B: TILE_K rows of TILE_N             mbarrier of its stage
//                   ┌─────────────────────────────────┐
//                   │ row 0    is copied by warp 0    │──┐       expected  8192 bytes
//                   ├─────────────────────────────────┤  ├────►  arrived   1024 bytes so far
//                   │ row 1    is copied by warp 1    │──┘
//                   ├─────────────────────────────────┤          all threads wait for the end
//                   │ ...                             │          of the phase
//                   └─────────────────────────────────┘
//
// Order       As in pipelined.cu, with these differences:
//             Block   sets up the mbarriers: each phase takes one arrival of each warp.
//               1. Each thread waits for its copies of A, and for the end of the phase of slab s + 1. The
//                  phase ends when all warps have arrived and all bytes that they expect are there.
//               3. With the first portion one thread of each warp arrives at the mbarrier of slab
//                  s + STAGES - 1, says how many bytes to expect, and issues the copies of its warp's rows.
//                  All warps issue as many, so that none comes late to the block's barrier. A copy of rows
//                  cannot transpose, so A comes word by word as before.
//             The slab in which k ends, and those after it, come by ordinary copies: they fill with zeros.
//             Tiles at the right edge of C, and matrices whose rows do not begin at 16 bytes, take the way
//             of pipelined.cu.
//
// Where       BulkCopies below has both differences; the instructions are in ../bulk_copy.cuh, the rest is
//             in pipeline.cuh.
//
// Traffic     As pipelined.cu.
// Removes     For B, the addresses and registers of all threads but one of a warp, and the way through the
//             load/store unit. It removes no instructions: a copy by a whole warp also moves 512 bytes, 16
//             for each lane.
// Limit       Issue slots and register banks, as pipelined.cu. The loop executes some 2250 instructions for
//             2220 there: the addresses of one thread are instructions of its warp, and so is the waiting
//             for the mbarrier. A row of the tile is short for a bulk copy.
#include "../bulk_copy.cuh"
#include "pipeline.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;          // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                           // steps of k of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;          // rows and columns of C of a warp
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // and of a thread, in squares of 4×4
    static constexpr int stages = STAGES;                           // slabs that the ring holds
    static constexpr int teams = 1;                                 // teams of warps that share a tile
    static constexpr int across = ACROSS;                           // threads that copy a row of B
    static constexpr int portions = PORTIONS;                       // parts of a slab's copies
    static constexpr int xor_m = XOR_M, xor_n = XOR_N;              // order of products: i ^ xor_m, j ^ xor_n
    static constexpr int resident = RESIDENT;                       // blocks of a multiprocessor
    static constexpr int patch = PATCH;                             // tile rows of a patch of C
};

using Block = BlockTile<Tiling>;

constexpr int warps = Block::threads / 32;

static_assert(Tiling::tile_k % warps == 0, "each warp issues as many rows");

__shared__ Mbarrier arrived[Tiling::stages];

// A thread's copies, of which those of B are bulk copies. A bulk copy cannot fill with zeros, so the
// ordinary copies bring the end of k: rows past the end have to be zeros, as they are in A, since an
// infinity or NaN that an earlier slab left there would be NaN even times zero.
struct BulkCopies : Block::SlabCopies<true> {
    using SlabCopies::SlabCopies;

    unsigned parity = 0;  // of the phase in which the next slab arrives

    __device__ __forceinline__ void issue(Block::Slab* ring, int stage, int portion)
    {
        if (portion == 0) {
            if (remaining_k_of_b + OfB::row() < Tiling::tile_k)
                fill_rows(ring[stage], arrived[stage]);
            else if (elected())
                issue_rows(ring[stage], arrived[stage]);
        }
        SlabCopies::issue<Block::copies_of_a>(ring, stage, portion);
    }

    __device__ __forceinline__ void wait(int stage)
    {
        SlabCopies::wait(stage);
        wait_for_phase(arrived[stage], parity);
        if (stage == Tiling::stages - 1) parity ^= 1;
    }

private:
    // One thread issues its warp's rows of the next slab. All threads have loaded what lay there before,
    // and met at a barrier since.
    __device__ __forceinline__ void issue_rows(Block::Slab& slab, Mbarrier& mbarrier)
    {
        const float* rows = slab_of_b();
        expect_bytes(mbarrier, sizeof(slab.b) / warps);
#pragma unroll
        for (int i = 0; i < Tiling::tile_k / warps; i++) {
            const int p = threadIdx.x / 32 + i * warps;
            copy_bulk(slab.b[p], rows + (unsigned)(p * n), sizeof(slab.b[p]), mbarrier);
        }
    }

    // The slab in which k ends, and those after it, which the loop issues as well. Their phase ends
    // without a byte: the threads wait for these rows as for their copies of A.
    __device__ __forceinline__ void fill_rows(Block::Slab& slab, Mbarrier& mbarrier)
    {
        issue_some(slab, Block::copies_of_a, Block::copies_of_a + copies_of_b);
        if (elected()) expect_bytes(mbarrier, 0);
    }
};

extern "C" __global__ void __launch_bounds__(Block::threads, Tiling::resident)
bulk(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     int m, int n, int k)
{
    extern __shared__ __align__(128) float4 memory[];  // each row begins a sector of 32 bytes
    const int2 tile = Block::tile_position(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    const int row = tile.x * Tiling::tile_m, col = tile.y * Tiling::tile_n;
    Block::Slab* ring = (Block::Slab*)memory;
    if (!Block::takes_fours(B, C, n, col)) {
        Block::compute_tile<Block::SlabCopies<false>>(A, B, C, m, n, k, row, col, ring);
    } else if (col + Tiling::tile_n <= n) {
        init_mbarriers(arrived, warps);
        Block::compute_tile<BulkCopies>(A, B, C, m, n, k, row, col, ring);
    } else {
        Block::compute_tile<Block::SlabCopies<true>>(A, B, C, m, n, k, row, col, ring);
    }
}
