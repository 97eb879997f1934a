// Copies of tiles between global and shared memory by the tensor memory accelerator (TMA), from compute
// capability 9.0 on. A tensor map describes a matrix: where it is, its extents and strides, the box that a
// copy moves, and how the box lies in shared memory. The host makes it (`tensor_maps` of the catalogue), and
// a kernel takes it as `const __grid_constant__ CUtensorMap`. One thread issues a copy and goes on.
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
#pragma once

#include <cuda.h>

#include "mbarrier.cuh"

#ifdef __CUDACC__
__device__ __forceinline__ unsigned tile_address(const void* shared)
{
    return (unsigned)__cvta_generic_to_shared(shared);
}
#endif

// Load a tile of a matrix. Its bytes arrive at the mbarrier, which somebody has let expect them.
__device__ __forceinline__ void load_tile(void* shared, const CUtensorMap& map, Mbarrier& mbarrier, int row,
                                          int column)
{
#ifdef __CUDACC__
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 :: "r"(tile_address(shared)), "l"(&map), "r"(address_of(mbarrier)), "r"(column), "r"(row)
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
                 :: "r"(tile_address(shared)), "l"(&map), "r"(address_of(mbarrier)), "r"(column), "r"(row),
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
                 :: "r"(tile_address(shared)), "l"(&map), "r"(address_of(mbarrier)), "r"(column), "r"(row),
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
                 :: "r"(tile_address(shared)), "l"(&map), "r"(address_of(mbarrier)), "r"(column), "r"(row),
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
                 :: "l"(&map), "r"(tile_address(shared)), "r"(column), "r"(row) : "memory");
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
