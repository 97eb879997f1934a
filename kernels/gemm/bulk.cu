// C = A·B for any shape and alignment: rows of B come by bulk copies, one instruction each.
//
// Idea        In pipelined.cu all threads copy a slab of B, each 16 bytes at a time. From compute
//             capability 9.0 on a multiprocessor has a unit that copies on its own (the tensor memory
//             accelerator): one thread says where a row begins, how long it is and where it is to lie,
//             and the unit does the rest. Arrival is counted in bytes, by an mbarrier for each stage
//             of the ring: a slab's phase ends when all bytes are there that the threads which issued
//             its copies said to expect.
//
//                    slab of B: TILE_K rows of TILE_N             mbarrier of its stage
//                   ┌─────────────────────────────────┐
//                   │ row 0      a copy by warp 0     │──┐       expected  8192 bytes
//                   ├─────────────────────────────────┤  ├────►  arrived   1024 so far
//                   │ row 1      a copy by warp 1     │──┘
//                   ├─────────────────────────────────┤          all threads wait for the end
//                   │ ...                             │          of its phase, of parity 0, 1, 0 ...
//                   └─────────────────────────────────┘
//
//             Each warp issues its share of the rows, so that none comes later than the others to the
//             block's barrier. A is transposed on its way, which a copy of rows cannot do: it comes
//             word by word as before.
//
// Traffic     As pipelined.cu.
// Removes     Of the copies of B the addresses and registers of all threads but one, and the way through
//             the load/store unit. Not instructions: one of a warp moves 512 bytes there as well, 16
//             for each lane.
// Limit       Issue slots and register banks, as pipelined.cu. Of the loop's instructions some 2250 are
//             executed for 2220 there: one thread's addresses are instructions of its warp, and so is
//             the waiting for the mbarrier. A row of the tile is short for a copy in bulk.
#include "../bulk_copy.cuh"
#include "pipeline.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;        // rows and columns of C of a block
    static constexpr int tile_k = TILE_K;                         // steps of k of a slab
    static constexpr int warp_m = WARP_M, warp_n = WARP_N;        // rows and columns of C of a warp
    static constexpr int thread_m = THREAD_M, thread_n = THREAD_N;  // results of a thread, in 4×4 squares
    static constexpr int stages = STAGES;                         // slabs that the ring holds
    static constexpr int teams = 1;                               // of warps that share a tile
    static constexpr int across = ACROSS;                       // threads that copy a row of B
    static constexpr int portions = PORTIONS;                     // of a slab's copies, issued one by one
    static constexpr int xor_m = XOR_M, xor_n = XOR_N;    // where, of four, the products start
    static constexpr int resident = RESIDENT;                     // blocks of a multiprocessor
    static constexpr int patch = PATCH;                           // tile rows of a patch of C
};

using Block = BlockTile<Tiling>;

constexpr int warps = Block::threads / 32;

static_assert(Tiling::tile_k % warps == 0, "each warp issues as many rows");

__shared__ Mbarrier arrived[Tiling::stages];

// A thread's copies, of which those of B are bulk copies. A bulk copy cannot fill with zeros, so the
// ordinary copies bring the end of k: rows behind the end have to be zeros, as they are in A, since an
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

    // The slab in which k ends, and those behind it, which the loop issues as well. Their phase ends
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
    if (!rows_hold_fours(B, C, n) || col + Tiling::tile_n > n) {
        Block::compute_tile<Block::SlabCopies<false>>(A, B, C, m, n, k, row, col, ring);
    } else if constexpr (BULK_COPIES) {
        init_mbarriers(arrived, warps);
        Block::compute_tile<BulkCopies>(A, B, C, m, n, k, row, col, ring);
    } else {
        Block::compute_tile<Block::SlabCopies<true>>(A, B, C, m, n, k, row, col, ring);
    }
}
