// A block's share of C = Aᵀ·A on the fp64 tensor cores. The first page of tensor_streamed.cu explains it.
//
// T is a kernel's tiling: `struct Tiling` in tensor_streamed.cu says what each of its numbers is.
#pragma once

#include "../patches.cuh"
#include "../stream_k.cuh"
#include "tensor.cuh"

template <class T>
struct StreamedGram {
    using Block = GramTile<T>;

    // What StreamK shares out: tiles off the diagonal are heavy, those on it light. A slab costs the time of
    // the warps with the most rows of products.
    struct Shares : EachBlock {
        static constexpr int blocks = T::blocks, threads = Block::threads, least = T::least;
        static constexpr int heavy_cost = Block::template most_rows<false>;
        static constexpr int light_cost = Block::template most_rows<true>;
    };

    using Stream = StreamK<Shares>;
    using Sums = double[T::tile * T::tile];

    // In global memory, what each block leaves for others, and a flag that says that it is there.
    struct Left {
        Sums* partial_sums;
        unsigned* flags;
    };

    // How many tiles lie on the diagonal, and how many above it.
    static __device__ __forceinline__ int on_diagonal(int n) { return (n + T::tile - 1) / T::tile; }
    static __device__ __forceinline__ int off_diagonal(int n) { return on_diagonal(n) * (on_diagonal(n) - 1) / 2; }

    // The position of a tile, in tiles, by its number: first the tiles above the diagonal, patch by patch and
    // in a patch by columns, then those on the diagonal.
    static __device__ int2 tile_position(int tile, int n)
    {
        if (tile >= off_diagonal(n)) return {tile - off_diagonal(n), tile - off_diagonal(n)};
        const int2 at = place_in_triangle<T::patch>(tile, on_diagonal(n) - 1);
        return {at.x, at.y + 1};
    }

    // Compute a part of a tile. The part with the tile's last slab adds what earlier stretches have left, and
    // is stored; any other part is left for another block.
    template <bool pairs, bool diagonal>
    static __device__ __forceinline__ void run(const double* A, double* C, int m, int n,
                                               typename Block::SlabPair* ring, const Left& left,
                                               const typename Stream::Schedule& schedule,
                                               const typename Stream::Part& part)
    {
        typename Block::template ThreadSums<diagonal> sums = {};
        {
            const int2 at = tile_position(part.tile, n);
            const int row = at.x * T::tile, col = at.y * T::tile, begin = part.begin, end = part.end;
            Block::template multiply_slabs<pairs, diagonal>(A, m, n, row, col, begin, end, ring, sums);
        }
        constexpr int count = Block::template most_rows<diagonal> * Block::products_n * 4;
        if (schedule.leaves(part)) {
            Stream::template leave_sums<count>(&sums[0][0][0], left.partial_sums, left.flags, schedule);
        } else {
            Stream::template add_left_sums<count>(&sums[0][0][0], left.partial_sums, left.flags,
                                                  schedule.first_stretch(part), schedule.stretch);
            const int2 at = tile_position(part.tile, n);  // anew: registers are scarce while a tile is multiplied
            const int row = at.x * T::tile, col = at.y * T::tile;
            if constexpr (pairs)  // store_rows would change ptxas's order of the loops for pairs, 10% at 4096
                Block::template store_squares<pairs, diagonal>(sums, C, n, row, col);
            else
                Block::template store_rows<pairs, diagonal>(sums, C, n, row, col, (double*)ring);
        }
    }

    // ring: shared memory from a multiple of 128 bytes on, so that each row begins a sector of 32 bytes.
    static __device__ __forceinline__ void compute(const double* A, double* C, int m, int n,
                                                   typename Block::SlabPair* ring, const Left& left)
    {
        const int slabs = (m + T::tile_k - 1) / T::tile_k;
        Stream::each_part(off_diagonal(n), on_diagonal(n), slabs,
                          [&](const typename Stream::Schedule& schedule, const typename Stream::Part& part) {
            const bool on = part.tile >= off_diagonal(n);
            Block::choose(Block::rows_hold_pairs(A, C, n), on, [&](auto pairs, auto diagonal) {
                run<pairs.is, diagonal.is>(A, C, m, n, ring, left, schedule, part);
            });
        });
    }
};
