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
constexpr int SLICES = 1;  // one team of warps
#include "../bulk_copy.cuh"
#include "pipeline.cuh"

constexpr int WARPS = THREADS / 32;

static_assert(TILE_K % WARPS == 0, "each warp issues as many rows");

__shared__ Mbarrier arrived[STAGES];

// Copies of which those of B are bulk copies. The end of k is for the ordinary ones: a bulk copy cannot
// fill with zeros, and what lies in the rows behind the end must be zero, as it is in A, lest an
// infinity or NaN of an earlier slab, or of the last row, times zero be added to the sums.
struct BulkCopies : Copies<true> {
    using Copies::Copies;

    unsigned parity = 0;  // of the phase in which the next slab arrives

    __device__ __forceinline__ void issue(Slab* ring, int stage, int portion)
    {
        if (portion == 0) {
            if (left_b + Rows::row() < TILE_K)
                fill_rows(ring[stage], arrived[stage]);
            else if (elected())
                issue_rows(ring[stage], arrived[stage]);
        }
        Copies::issue<OF_A>(ring, stage, portion);
    }

    __device__ __forceinline__ void wait(int stage)
    {
        Copies::wait(stage);
        wait_for_phase(arrived[stage], parity);
        if (stage == STAGES - 1) parity ^= 1;
    }

private:
    // Of the next slab those of this warp, by one of its threads. All threads have read what lay in the
    // slab and met at a barrier since.
    __device__ __forceinline__ void issue_rows(Slab& slab, Mbarrier& mbarrier)
    {
        const float* rows = B - (size_t)Rows::row() * n - Rows::col();  // from the slab's first word on
        expect_bytes(mbarrier, sizeof(slab.b) / WARPS);
#pragma unroll
        for (int i = 0; i < TILE_K / WARPS; i++) {
            const int p = threadIdx.x / 32 + i * WARPS;
            copy_bulk(slab.b[p], rows + (unsigned)(p * n), sizeof(slab.b[p]), mbarrier);
        }
    }

    // The last slab, where k ends in it, and those behind it, which the loop issues as well. Their
    // phase ends without a byte, and they are waited for with the copies of A.
    __device__ __forceinline__ void fill_rows(Slab& slab, Mbarrier& mbarrier)
    {
        issue_some(slab, OF_A, OF_A + OF_B);
        if (elected()) expect_bytes(mbarrier, 0);
    }
};

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT)
bulk(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     int m, int n, int k)
{
    extern __shared__ __align__(128) float4 memory[];  // no row is to begin within a sector
    const int2 where = place(blockIdx.y * gridDim.x + blockIdx.x, gridDim.y, gridDim.x);
    const int row = where.x * TILE_M, col = where.y * TILE_N;
    if (!in_fours(B, C, n) || col + TILE_N > n) {
        tile<Copies<false>>(A, B, C, m, n, k, row, col, (Slab*)memory);
    } else if constexpr (BULK_COPIES) {
        init_mbarriers(arrived, WARPS);
        tile<BulkCopies>(A, B, C, m, n, k, row, col, (Slab*)memory);
    } else {
        tile<Copies<true>>(A, B, C, m, n, k, row, col, (Slab*)memory);
    }
}
