// Instructions that C++ has no words for: those of tensor cores, and what feeds them. Each has its PTX, and C++ in
// its place for the CPU. The sections, each with its explanation:
//
//     Products of a warp           mma.sync, ldmatrix, stmatrix; how a warp's sums lie and are stored; dp4a of a thread
//     The async proxy              the fence that shows a thread's stores to tensor cores and TMA
//     mbarriers                    counters by which threads wait for threads and bytes
//     Clusters                     blocks that reach each other's shared memory
//     Copies of tiles              loads and stores by tensor maps (TMA), also to several blocks of a cluster
//     Work of different warps      barriers of some warps, registers that move (setmaxnreg), one lane for a warp
//     Products of a warpgroup      wgmma, with operands in shared memory
//
// Products of a warp need compute capability 8.0, those of a warpgroup and setmaxnreg 9.0a, all else 9.0.
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "overlap.cuh"

#ifdef __CUDACC__
__device__ __forceinline__ unsigned address_of(const void* shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}
#endif

// ---- Products of a warp ----
//
// The warp multiplies 16×16 elements of A by 16×8 of B, and adds to 16×8 float32 sums. Each lane holds a
// fragment of each: two neighbouring elements in a register. Lane l = 4g + t holds
//
//     A (4 registers)                       B (2 registers)           sums (4 floats)
//              k 0-7      k 8-15                       column g                columns 2t, 2t+1
//     row g    2t, 2t+1   2t, 2t+1          k 0-7      2t, 2t+1       row g      0, 1
//     row g+8  2t, 2t+1   2t, 2t+1          k 8-15     2t, 2t+1       row g+8    2, 3
//     registers 0 and 2 above, 1 and 3 below
//
// ldmatrix loads 8×8 matrices just so: a lane gets elements 2t and 2t+1 of row g of each; transposed, of
// column g. A has its rows along k and is loaded straight; a row-major B has its rows across k, and is loaded
// transposed.

// Load 8×8 matrices of 16-bit elements, one for each register of `fragments`. Lane 8i + r gives the address of
// row r of matrix i, a multiple of 16 bytes.
template <bool transposed>
__device__ __forceinline__ void load_matrices(unsigned (&fragments)[4], const void* row,
                                              int line = __builtin_LINE())
{
#ifdef __CUDACC__
    const unsigned address = address_of(row);
    if constexpr (transposed)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                     : "r"(address) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(fragments[0]), "=r"(fragments[1]), "=r"(fragments[2]), "=r"(fragments[3])
                     : "r"(address) : "memory");
#else
    cuda_on_cpu::load_matrices(fragments, 4, row, transposed, line);
#endif
}

// Store them; transposed, a lane's elements 2t and 2t+1 go to column g.
template <bool transposed>
__device__ __forceinline__ void store_matrices(const unsigned (&fragments)[4], void* row, int line = __builtin_LINE())
{
#ifdef __CUDACC__
    const unsigned address = address_of(row);
    if constexpr (transposed)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(address), "r"(fragments[0]), "r"(fragments[1]), "r"(fragments[2]), "r"(fragments[3])
                     : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(address), "r"(fragments[0]), "r"(fragments[1]), "r"(fragments[2]), "r"(fragments[3])
                     : "memory");
#else
    cuda_on_cpu::store_matrices(fragments, 4, row, transposed, line);
#endif
}

// sums += A·B of bfloat16. `b` is two registers of a fragment.
__device__ __forceinline__ void multiply_bf16(float (&sums)[4], const unsigned (&a)[4], const unsigned* b,
                                              int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    cuda_on_cpu::multiply_warp(sums, a, b, false, line);
#endif
}

// Store two neighbouring sums to a C of floats or bfloat16, as far as they lie in it. Where rows have an even number
// of elements, it is one store.
template <class Number>
__device__ __forceinline__ void store_pair(Number* C, int m, int n, int row, int column, float first, float second)
{
    static_assert(std::is_same_v<Number, float> || std::is_same_v<Number, __nv_bfloat16>, "pairs as written here");
    if (row >= m || column >= n) return;
    Number* place = C + (size_t)row * n + column;
    if (n % 2 == 0) {
        if constexpr (std::is_same_v<Number, float>)
            *(float2*)place = {first, second};
        else
            *(__nv_bfloat162*)place = __floats2bfloat162_rn(first, second);
    } else {
        place[0] = Number(first);
        if (column + 1 < n) place[1] = Number(second);
    }
}

// Store a lane's four sums of 16×8: two neighbours at (row, column), and two eight rows below.
template <class Number>
__device__ __forceinline__ void store_fragment(Number* C, int m, int n, int row, int column, const float* sums)
{
    store_pair(C, m, n, row, column, sums[0], sums[1]);
    store_pair(C, m, n, row + 8, column, sums[2], sums[3]);
}

// c and the products of the four bytes of `a`, from 0 to 255, by those of `b`, from -128 to 127. CUDA's own __dp4a
// takes no such mix.
__device__ __forceinline__ int add_products_of_bytes(unsigned a, unsigned b, int c)
{
#ifdef __CUDACC__
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
    return c;
#else
    return (int)cuda_on_cpu::sum_of_bytes<uint8_t, int8_t>(a, b, c);
#endif
}

// ---- The async proxy ----
//
// The way of its own by which the tensor cores (wgmma) and the tensor memory accelerator (TMA) reach shared memory.
// What a thread has stored is visible there only after a fence. The other way round an mbarrier or a wait for a group
// is enough.
//
//     threads store a tile ──► each: fence_async_proxy() ──► barrier ──► one reads it by wgmma or TMA

// Make this thread's stores to shared memory visible to the async proxy.
__device__ __forceinline__ void fence_async_proxy()
{
#ifdef __CUDACC__
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
    cuda_on_cpu::fence_async_proxy();
#endif
}

// ---- mbarriers ----
//
// Counters in shared memory by which threads wait for threads and for bytes. They count phase after phase; the
// first phase has parity 0, the next one parity 1, then 0 again. A phase ends when as many threads have arrived as
// the mbarrier was set up for, and as many bytes as they said.
//
//     phase of parity 0                                   phase of parity 1
//     ├─ arrive ─── expect 8192 bytes, arrive ─── 8192 ──┼─ ...
//                                                bytes    wait_for_phase(…, 0) returns from here on
//
// Ring        A ring of stages has two mbarriers for each: `full`, for which the reader waits, and `empty`,
//             for which the writer waits. In the n-th round through the ring, n = 0, 1, ..., the reader waits
//             for the phase of parity n % 2. The writer waits for parity 1 - n % 2: the phase before the
//             first counts as ended, so in the first round it does not wait.
//
// `line` is that of the call, for what the CPU has to report.

using Mbarrier = unsigned long long;

// Set up an mbarrier whose phases take so many arrivals. One thread does it for all.
__device__ __forceinline__ void init_mbarrier(Mbarrier& mbarrier, int arrivals)
{
#ifdef __CUDACC__
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address_of(&mbarrier)), "r"(arrivals) : "memory");
#else
    cuda_on_cpu::init_mbarrier(&mbarrier, arrivals);
#endif
}

// Make the mbarriers that this thread has set up visible to TMA, and to the other blocks of the cluster.
// A barrier of the block, or of the cluster, has to follow.
__device__ __forceinline__ void publish_mbarriers()
{
#ifdef __CUDACC__
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
    fence_async_proxy();
}

__device__ __forceinline__ void arrive(Mbarrier& mbarrier)
{
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address_of(&mbarrier)) : "memory");
#else
    cuda_on_cpu::arrive(&mbarrier);
#endif
}

// Arrive at the mbarrier that lies at the same place in another block of the cluster, or in this one. What this
// thread has written need not be visible there: a release for the cluster would wait for all of its stores.
__device__ __forceinline__ void arrive_in_block(Mbarrier& mbarrier, unsigned rank)
{
#ifdef __CUDACC__
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}"
                 :: "r"(address_of(&mbarrier)), "r"(rank) : "memory");
#else
    cuda_on_cpu::arrive(cuda_on_cpu::in_block(&mbarrier, rank));
#endif
}

// Arrive, and let the phase wait for so many more bytes, which copies bring.
__device__ __forceinline__ void expect_bytes(Mbarrier& mbarrier, int bytes)
{
#ifdef __CUDACC__
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(address_of(&mbarrier)), "r"(bytes) : "memory");
#else
    cuda_on_cpu::arrive(&mbarrier, bytes);
#endif
}

// Wait until the phase of this parity has ended. The loop is written in PTX: ptxas would split the code
// around a loop in C++.
__device__ __forceinline__ void wait_for_phase(Mbarrier& mbarrier, unsigned parity,
                                               int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("{\n"
                 ".reg .pred ended;\n"
                 "again: mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@!ended bra again;\n"
                 "}"
                 :: "r"(address_of(&mbarrier)), "r"(parity) : "memory");
#else
    cuda_on_cpu::wait_for_phase(&mbarrier, parity, line);
#endif
}

// ---- Clusters ----
//
// Blocks that run at the same time on neighbouring multiprocessors, and reach each other's shared memory. A kernel
// says how many with __cluster_dims__, and its catalogue entry with `cluster`.
//
//     A block's shared memory has to be there while others use it: the cluster meets before a block uses
//     another one's, so that all have begun. Before a block returns, it meets again, or the block knows by its
//     mbarriers that the others are done.

// This block's number in its cluster.
__device__ __forceinline__ unsigned rank_in_cluster()
{
#ifdef __CUDACC__
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
#else
    return cuda_on_cpu::current->block->rank;
#endif
}

// Come to the cluster's barrier; what this thread did before is visible to those that have waited.
__device__ __forceinline__ void arrive_at_cluster()
{
#ifdef __CUDACC__
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#else
    cuda_on_cpu::arrive_cluster();
#endif
}

// Wait until all threads of the cluster have come.
__device__ __forceinline__ void wait_for_cluster(int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    cuda_on_cpu::wait_for_cluster(line);
#endif
}

__device__ __forceinline__ void sync_cluster(int line = __builtin_LINE())
{
    arrive_at_cluster();
    wait_for_cluster(line);
}

// Wait until all blocks of the cluster have begun and published their mbarriers. Other stores need not be visible
// then, so this is sooner done.
__device__ __forceinline__ void meet_cluster(int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#else
    cuda_on_cpu::arrive_cluster();
#endif
    wait_for_cluster(line);
}

// A variable of this block's shared memory as it is in another block of the cluster.
template <class Value>
__device__ __forceinline__ Value* in_block(Value* shared, unsigned rank)
{
#ifdef __CUDACC__
    Value* remote;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(remote) : "l"(shared), "r"(rank));
    return remote;
#else
    return (Value*)cuda_on_cpu::in_block(shared, rank);
#endif
}

// ---- Copies of tiles ----
//
// Copies between global and shared memory by the tensor memory accelerator (TMA). A tensor map describes a matrix:
// where it is, its extents and strides, the box that a copy moves, and how the box lies in shared memory. The host
// makes it (`tensor_maps` of the catalogue), and a kernel takes it as `const __grid_constant__ CUtensorMap`. One
// thread issues a copy and goes on.
//
//     load    what lies outside of the matrix comes as zeros, and counts as bytes that have come
//     store   what lies outside is not written
//
// Indices     are those of the box's first element, in C's order: row, column; or plane, row, column.
// Swizzle     Rows of 128 bytes begin in the same banks, so a warp that reads a column of 16-byte pieces would
//             meet a conflict. Swizzled, piece p of row r lies at p ^ (r % 8):
//
//                 row 0   0 1 2 3 4 5 6 7        row 2   2 3 0 1 6 7 4 5
//                 row 1   1 0 3 2 5 4 7 6        ...     and again from row 8 on
//
//             The pattern goes by the address, so a tile begins at a multiple of 1024 bytes.

// Load a tile of a matrix. Its bytes arrive at the mbarrier, which somebody has let expect them.
__device__ __forceinline__ void load_tile(void* shared, const CUtensorMap& map, Mbarrier& mbarrier, int row,
                                          int column)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(address_of(shared)), "l"(&map), "r"(address_of(&mbarrier)), "r"(column), "r"(row)
                 : "memory");
#else
    const int from[] = {column, row};
    cuda_on_cpu::issue_load(shared, map, &mbarrier, from, 0);
#endif
}

__device__ __forceinline__ void load_tile(void* shared, const CUtensorMap& map, Mbarrier& mbarrier, int plane,
                                          int row, int column)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(address_of(shared)), "l"(&map), "r"(address_of(&mbarrier)), "r"(column), "r"(row),
                    "r"(plane) : "memory");
#else
    const int from[] = {column, row, plane};
    cuda_on_cpu::issue_load(shared, map, &mbarrier, from, 0);
#endif
}

// Load a tile into several blocks of the cluster, one for each bit of `blocks`: into the same place of each,
// and its bytes arrive at the mbarrier at the same place of each.
__device__ __forceinline__ void load_tile_to_blocks(void* shared, const CUtensorMap& map, Mbarrier& mbarrier,
                                                    int row, int column, unsigned short blocks)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(address_of(shared)), "l"(&map), "r"(address_of(&mbarrier)), "r"(column), "r"(row),
                    "h"(blocks) : "memory");
#else
    const int from[] = {column, row};
    cuda_on_cpu::issue_load(shared, map, &mbarrier, from, blocks);
#endif
}

__device__ __forceinline__ void load_tile_to_blocks(void* shared, const CUtensorMap& map, Mbarrier& mbarrier,
                                                    int plane, int row, int column, unsigned short blocks)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;"
                 :: "r"(address_of(shared)), "l"(&map), "r"(address_of(&mbarrier)), "r"(column), "r"(row),
                    "r"(plane), "h"(blocks) : "memory");
#else
    const int from[] = {column, row, plane};
    cuda_on_cpu::issue_load(shared, map, &mbarrier, from, blocks);
#endif
}

// Store a tile. The threads that wrote it to shared memory have fenced (fence_async_proxy) and met since.
__device__ __forceinline__ void store_tile(const CUtensorMap& map, const void* shared, int row, int column)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 :: "l"(&map), "r"(address_of(shared)), "r"(column), "r"(row) : "memory");
#else
    const int from[] = {column, row};
    cuda_on_cpu::issue_store(map, shared, from);
#endif
}

// The stores that this thread has issued since the last group are a group.
__device__ __forceinline__ void commit_tile_stores()
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#else
    cuda_on_cpu::commit_stores();
#endif
}

// Wait until at most `groups` of this thread's groups have yet to read shared memory: its newest ones. Then
// the others' tiles may be overwritten. Before it returns, a thread waits for all.
template <int groups>
__device__ __forceinline__ void wait_until_tiles_are_read()
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(groups) : "memory");
#else
    cuda_on_cpu::wait_for_stores(groups);
#endif
}

// Fetch a tensor map, so that the first copy need not wait for it.
__device__ __forceinline__ void prefetch_map(const CUtensorMap& map)
{
#ifdef __CUDACC__
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
#endif
}

// ---- Work of different warps ----
//
// What warps need that have different work in one block: barriers of some of the warps, registers that one
// warpgroup leaves to another, and one lane that acts for its warp.

// Wait until `threads` threads (whole warps) have come to the barrier of this number, here or by
// arrive_at_barrier. Numbers are 1 to 15; 0 is __syncthreads().
__device__ __forceinline__ void sync_at_barrier(int number, int threads, int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("barrier.cta.sync.aligned %0, %1;" :: "r"(number), "r"(threads) : "memory");
#else
    cuda_on_cpu::sync_named(number, threads, line);
#endif
}

// Come to it without waiting.
__device__ __forceinline__ void arrive_at_barrier(int number, int threads)
{
#ifdef __CUDACC__
    asm volatile("barrier.cta.arrive.aligned %0, %1;" :: "r"(number), "r"(threads) : "memory");
#else
    cuda_on_cpu::arrive_named(number, threads);
#endif
}

// Leave this warpgroup so many registers per thread (a multiple of 8), and give the rest back. All its warps
// call it. A kernel begins with as many as its __launch_bounds__ allow, which have to name the blocks of a
// multiprocessor, too; else ptxas ignores these calls (C7508).
template <int registers>
__device__ __forceinline__ void keep_registers()
{
    static_assert(registers % 8 == 0 && 24 <= registers && registers <= 256, "as setmaxnreg takes them");
#ifdef __CUDACC__
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(registers));
#endif
}

// Take registers that others have given back, up to so many, and wait until they have.
template <int registers>
__device__ __forceinline__ void take_registers()
{
    static_assert(registers % 8 == 0 && 24 <= registers && registers <= 256, "as setmaxnreg takes them");
#ifdef __CUDACC__
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(registers));
#endif
}

// Whether this thread is the one of its warp that acts for it. By elect.sync ptxas knows that there is only
// one; by a comparison of the thread's index it would put a loop over the lanes around each copy.
__device__ __forceinline__ bool elected()
{
#ifdef __CUDACC__
    unsigned chosen;
    asm volatile("{\n"
                 ".reg .pred one;\n"
                 "elect.sync _|one, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, one;\n"
                 "}"
                 : "=r"(chosen));
    return chosen;
#else
    return threadIdx.x % 32 == 0;
#endif
}

// A number that all lanes of a warp have. ptxas learns it here, and computes once for the warp what follows from it, where
// else 32 lanes do: operands of the tensor cores, above all. Branches have to follow from such numbers too.
__device__ __forceinline__ int of_warp(int number)
{
#ifdef __CUDACC__
    return __shfl_sync(0xffffffff, number, 0);
#else
    return number;
#endif
}

// ---- Products of a warpgroup ----
//
// Four warps multiply 64×16 elements of A by 16×N of B, bfloat16 or half, and add to 64×N float32 sums in their
// registers. B comes from shared memory, A from there or from registers. Of whole numbers of a byte it is 64×32 by
// 32×N, with int32 sums.
//
// Sums        Warp w has rows 16w to 16w + 15. Its lane l = 4g + t has of each eight columns four sums:
//
//                 sums[4j], sums[4j + 1]        row g        columns 8j + 2t, 8j + 2t + 1
//                 sums[4j + 2], sums[4j + 3]    row g + 8    the same columns
//
// Order       A product is asynchronous. Before the first, and after the sums have been read or written, comes
//             fence_products(). commit_products() makes a group of those since the last one, and
//             wait_for_products<g>() waits until at most g groups are under way. Until then nobody touches the
//             sums, the registers of A, or the operands in shared memory.
//
// Operands    lie in shared memory in rows of 128 bytes, 64 elements, swizzled as by TMA (above). Eight
//             such rows are a pattern of 1024 bytes, where the tile begins too.
//
//                 A, 64 rows along k:          B as it lies in memory, rows along n:
//                      k ► 64 elements               n ► 64 elements     the next 64 columns
//                    ┌────────────────┐            ┌────────────────┐   ┌────────────────┐
//                  m │ 8 rows         │          k │ 8 rows         │   │                │
//                  ▼ ├────────────────┤ stride   ▼ ├────────────────┤   ├────────────────┤
//                    │ 8 rows         │            │ 8 rows         │   │                │
//                    └────────────────┘            └────────────────┘   └────────────────┘
//                                                   stride: down         leading: across
//
//             16 steps of k further, A is 32 bytes further in its rows, and B two patterns further down. Bytes lie
//             along k in both, 128 in a row, and 32 steps further is 32 bytes further in the rows.

// Where an operand lies, as the tensor cores take it. leading: bytes from 64 columns of B to the next 64; A has none.
__device__ __forceinline__ unsigned long long operand(const void* shared, int leading = 16)
{
    constexpr unsigned long long stride = 1024, swizzle_128_bytes = 1;
#ifdef __CUDACC__
    const unsigned address = address_of(shared);
#else
    const unsigned address = (unsigned)cuda_on_cpu::shared_address(shared, 1);
#endif
    return (address >> 4 & 0x3FFF) | (unsigned long long)(leading >> 4) << 16 | stride >> 4 << 32 |
           swizzle_128_bytes << 62;
}

// An operand that lies so many bytes behind another one: an addition, where operand() takes five instructions.
__device__ __forceinline__ unsigned long long behind(unsigned long long operand, int bytes)
{
    return operand >> 32 << 32 | ((unsigned)operand + (bytes >> 4));
}

__device__ __forceinline__ void fence_products()
{
#ifdef __CUDACC__
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
    cuda_on_cpu::fence_products();
#endif
}

__device__ __forceinline__ void commit_products()
{
#ifdef __CUDACC__
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
    cuda_on_cpu::commit_products();
#endif
}

template <int groups>
__device__ __forceinline__ void wait_for_products(int line = __builtin_LINE())
{
#ifdef __CUDACC__
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(groups) : "memory");
#else
    cuda_on_cpu::wait_for_products(groups, line);
#endif
}

#ifdef __CUDACC__
// The operands of an instruction that has up to 128 sums: %0, %1, ... in its text, and the sums themselves.
#define LAST_TEN(tens) "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, " \
                       "%" tens "5, %" tens "6, %" tens "7, %" tens "8, %" tens "9"
#define TEN(tens) LAST_TEN(tens) ", "
#define SIXTY TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5")
#define EIGHTY SIXTY TEN("6") TEN("7")
#define HUNDRED EIGHTY TEN("8") TEN("9")
#define TEXT_32 TEN("") TEN("1") TEN("2") "%30, %31"
#define TEXT_64 SIXTY "%60, %61, %62, %63"
#define TEXT_72 SIXTY TEN("6") "%70, %71"
#define TEXT_80 SIXTY TEN("6") LAST_TEN("7")
#define TEXT_88 EIGHTY "%80, %81, %82, %83, %84, %85, %86, %87"
#define TEXT_96 EIGHTY TEN("8") "%90, %91, %92, %93, %94, %95"
#define TEXT_104 HUNDRED "%100, %101, %102, %103"
#define TEXT_112 HUNDRED TEN("10") "%110, %111"
#define TEXT_120 HUNDRED TEN("10") LAST_TEN("11")
#define TEXT_128 HUNDRED TEN("10") TEN("11") "%120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_4(kind, i) kind(sums[i]), kind(sums[i + 1]), kind(sums[i + 2]), kind(sums[i + 3])
#define SUMS_8(kind, i) SUMS_4(kind, i), SUMS_4(kind, i + 4)
#define SUMS_16(kind, i) SUMS_8(kind, i), SUMS_8(kind, i + 8)
#define SUMS_32(kind) SUMS_16(kind, 0), SUMS_16(kind, 16)
#define SUMS_64(kind) SUMS_32(kind), SUMS_16(kind, 32), SUMS_16(kind, 48)
#define SUMS_72(kind) SUMS_64(kind), SUMS_8(kind, 64)
#define SUMS_80(kind) SUMS_64(kind), SUMS_16(kind, 64)
#define SUMS_88(kind) SUMS_80(kind), SUMS_8(kind, 80)
#define SUMS_96(kind) SUMS_80(kind), SUMS_16(kind, 80)
#define SUMS_104(kind) SUMS_96(kind), SUMS_8(kind, 96)
#define SUMS_112(kind) SUMS_96(kind), SUMS_16(kind, 96)
#define SUMS_120(kind) SUMS_112(kind), SUMS_8(kind, 112)
#define SUMS_128(kind) SUMS_112(kind), SUMS_16(kind, 112)

// An instruction for N columns, so N / 2 sums. The numbers behind these are those of the further operands, in
// the order of their use: add, A, B, transposed_a, transposed_b.
#define PRODUCT(n, sums, type, add_, a_, b_, transposed_a_, transposed_b_) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_ ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" TEXT_##sums "}, " \
                 "%" a_ ", %" b_ ", add, 1, 1, %" transposed_a_ ", %" transposed_b_ ";\n}" \
                 : SUMS_##sums("+f") : "r"((int)add), "l"(a), "l"(b), "n"((int)transposed_a), "n"((int)transposed_b))
#define PRODUCT_OF_REGISTERS(n, sums, type, add_, a0, a1, a2, a3, b_, transposed_) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_ ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" TEXT_##sums "}, " \
                 "{%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b_ ", add, 1, 1, %" transposed_ ";\n}" \
                 : SUMS_##sums("+f") : "r"((int)add), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), \
                                 "n"((int)transposed_b))
#define PRODUCT_OF_INTEGERS(n, sums, add_, a_, b_) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_ ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n "k32.s32.s8.s8 {" TEXT_##sums "}, " \
                 "%" a_ ", %" b_ ", add;\n}" \
                 : SUMS_##sums("+r") : "r"((int)add), "l"(a), "l"(b))
#define PRODUCTS(type) \
    if constexpr (columns == 64) PRODUCT("64", 32, type, "32", "33", "34", "35", "36"); \
    if constexpr (columns == 128) PRODUCT("128", 64, type, "64", "65", "66", "67", "68"); \
    if constexpr (columns == 144) PRODUCT("144", 72, type, "72", "73", "74", "75", "76"); \
    if constexpr (columns == 160) PRODUCT("160", 80, type, "80", "81", "82", "83", "84"); \
    if constexpr (columns == 176) PRODUCT("176", 88, type, "88", "89", "90", "91", "92"); \
    if constexpr (columns == 192) PRODUCT("192", 96, type, "96", "97", "98", "99", "100"); \
    if constexpr (columns == 208) PRODUCT("208", 104, type, "104", "105", "106", "107", "108"); \
    if constexpr (columns == 224) PRODUCT("224", 112, type, "112", "113", "114", "115", "116"); \
    if constexpr (columns == 240) PRODUCT("240", 120, type, "120", "121", "122", "123", "124"); \
    if constexpr (columns == 256) PRODUCT("256", 128, type, "128", "129", "130", "131", "132")
#define PRODUCTS_OF_REGISTERS(type) \
    if constexpr (columns == 64) \
        PRODUCT_OF_REGISTERS("64", 32, type, "32", "33", "34", "35", "36", "37", "38"); \
    if constexpr (columns == 128) \
        PRODUCT_OF_REGISTERS("128", 64, type, "64", "65", "66", "67", "68", "69", "70"); \
    if constexpr (columns == 192) \
        PRODUCT_OF_REGISTERS("192", 96, type, "96", "97", "98", "99", "100", "101", "102"); \
    if constexpr (columns == 256) \
        PRODUCT_OF_REGISTERS("256", 128, type, "128", "129", "130", "131", "132", "133", "134")
#endif

template <class Number, int columns>
__device__ __forceinline__ constexpr void check_product()
{
    static_assert(columns == 64 || (columns % 16 == 0 && 128 <= columns && columns <= 256), "as written here");
    static_assert(std::is_same_v<Number, __half> || std::is_same_v<Number, __nv_bfloat16>, "16-bit numbers");
}

#ifndef __CUDACC__
// All of a product but A.
template <class Number, bool transposed_b, int count>
cuda_on_cpu::Product product_on_cpu(float (&sums)[count], unsigned long long b, bool add)
{
    cuda_on_cpu::Product product = {};
    product.sums = sums;
    product.columns = 2 * count;
    product.add = add;
    product.kind = std::is_same_v<Number, __half> ? cuda_on_cpu::Product::halves : cuda_on_cpu::Product::bfloats;
    product.transposed_b = transposed_b;
    product.descriptor_b = b;
    return product;
}
#endif

// sums += A·B, or sums = A·B without `add`. transposed_b: rows of B run along n, as it lies in memory; transposed_a:
// those of A along m.
template <class Number, bool transposed_b, bool transposed_a = false, int count>
__device__ __forceinline__ void multiply_tiles(float (&sums)[count], unsigned long long a,
                                               unsigned long long b, bool add)
{
    constexpr int columns = 2 * count;
    check_product<Number, columns>();
#ifdef __CUDACC__
    if constexpr (std::is_same_v<Number, __half>) {
        PRODUCTS("f16");
    } else {
        PRODUCTS("bf16");
    }
#else
    auto product = product_on_cpu<Number, transposed_b>(sums, b, add);
    product.descriptor_a = a;
    product.transposed_a = transposed_a;
    cuda_on_cpu::issue_product(product);
#endif
}

// The same with A in registers, in each warp 16×16 elements as under Products of a warp.
template <class Number, bool transposed_b, int count>
__device__ __forceinline__ void multiply_registers(float (&sums)[count], const unsigned (&a)[4],
                                                   unsigned long long b, bool add,
                                                   int line = __builtin_LINE())
{
    constexpr int columns = 2 * count;
    check_product<Number, columns>();
#ifdef __CUDACC__
    if constexpr (std::is_same_v<Number, __half>) {
        PRODUCTS_OF_REGISTERS("f16");
    } else {
        PRODUCTS_OF_REGISTERS("bf16");
    }
#else
    cuda_on_cpu::issue_product_of_registers(product_on_cpu<Number, transposed_b>(sums, b, add), a, line);
#endif
}

// sums += A·B, or sums = A·B without `add`, of whole numbers from -128 to 127 that lie along k in both. Sums wrap.
template <int count>
__device__ __forceinline__ void multiply_tiles(int (&sums)[count], unsigned long long a, unsigned long long b,
                                               bool add)
{
    constexpr int columns = 2 * count;
    static_assert(columns == 128 || columns == 256, "as written here");
#ifdef __CUDACC__
    if constexpr (columns == 128) PRODUCT_OF_INTEGERS("128", 64, "64", "65", "66");
    if constexpr (columns == 256) PRODUCT_OF_INTEGERS("256", 128, "128", "129", "130");
#else
    cuda_on_cpu::Product product = {};
    product.sums = sums;
    product.columns = columns;
    product.add = add;
    product.kind = cuda_on_cpu::Product::bytes;
    product.descriptor_a = a;
    product.descriptor_b = b;
    cuda_on_cpu::issue_product(product);
#endif
}
