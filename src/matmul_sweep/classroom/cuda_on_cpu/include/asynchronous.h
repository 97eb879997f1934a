// What Hopper does beside its threads, on the CPU: mbarriers, tile copies by the tensor memory accelerator
// (TMA), products by the tensor cores (wgmma), named barriers and clusters. By the PTX ISA 9.0.
//
// Idea. What is asynchronous takes effect as late as it may, or at a drawn earlier time:
//     a tile's load       when no thread can go on without it
//     a tile's store      when its group is waited for
//     a product           when its group is waited for
// So a missing wait reads what was there before, a buffer that is filled again too early spoils a
// product, and a wait for the wrong phase lets a thread pass too early or never.
//
// Tensor cores and TMA read shared memory in a way of their own, the async proxy. It sees what a thread
// has stored only after fence.proxy.async. Here it has a copy of the shared memory, which such a fence
// renews; a fence of one thread counts for all.
#pragma once

#include "barriers.h"
#include "copies.h"
#include "cuda.h"
#include "warp_matrices.h"

namespace cuda_on_cpu {

// ---- Addresses --------------------------------------------------------------------------------

// What lies at an address in a block's shared memory.
UNWATCHED inline unsigned char* at_address(const Block& block, size_t address)
{
    const Wait& wait = block.fibers[0].wait;
    if (cluster_size > 1 && wait.over == with_the_block && wait.line == next_block && has_met(block))
        misuse("the shared memory of a block of its cluster that has ended");
    return memory_of(block) + (address + shared_base() - reinterpret_cast<uintptr_t>(shared_segment().begin));
}

// Swizzling permutes the 16-byte pieces of a row of `width` bytes (32, 64 or 128) by the number of the
// row: piece p of row r lies at p ^ r.
UNWATCHED inline size_t swizzled(size_t address, size_t width)
{
    return width ? address ^ (address / 128 % (width / 16)) * 16 : address;
}

// ---- The async proxy --------------------------------------------------------------------------

UNWATCHED inline void fence_async_proxy() { current->block->fenced = true; }

// A block's shared memory as tensor cores and tile copies see it, from address 0 on.
UNWATCHED inline unsigned char* seen_by_async_proxy(Block& block)
{
    const Segment& shared = shared_segment();
    if (!block.seen) block.seen = new unsigned char[shared.bytes];
    if (!block.sees) poison(block.seen, shared.bytes);
    if (block.fenced) copy(block.seen, memory_of(block), shared.bytes);
    block.sees = true;
    block.fenced = false;
    return block.seen - (reinterpret_cast<uintptr_t>(shared.begin) - shared_base());
}

// What TMA writes is seen by threads too.
UNWATCHED inline void write_shared(Block& block, size_t address, const volatile unsigned char* from,
                                   size_t bytes)
{
    copy(seen_by_async_proxy(block) + address, from, bytes);
    copy(at_address(block, address), from, bytes);
}

// ---- mbarriers --------------------------------------------------------------------------------

// The 8 bytes of an mbarrier: what its phase still waits for, what each phase waits for, and the phase's
// parity. Shared memory that nobody has written has all bits set, so `unset` too.
struct Mbarrier {
    int64_t bytes : 22;
    uint64_t pending : 20, arrivals : 20, parity : 1, unset : 1;
};

UNWATCHED inline Mbarrier& mbarrier_at(void* place)
{
    auto& found = *static_cast<Mbarrier*>(place);
    if (found.unset) misuse("an mbarrier that was not initialised");
    return found;
}

UNWATCHED inline const char* tag_of(const void* mbarrier, unsigned parity)
{
    return static_cast<const char*>(mbarrier) + parity;
}

UNWATCHED inline void end_phase_if_complete(Mbarrier& mbarrier)
{
    if (mbarrier.pending || mbarrier.bytes) return;
    mbarrier.parity ^= 1;
    mbarrier.pending = mbarrier.arrivals;
}

UNWATCHED inline void init_mbarrier(void* place, unsigned arrivals)
{
    auto& mbarrier = *static_cast<Mbarrier*>(place);
    if (arrivals < 1 || arrivals >= 1 << 20) misuse("an mbarrier takes 1 to 1048575 arrivals");
    mbarrier.bytes = 0;
    mbarrier.pending = mbarrier.arrivals = arrivals;
    mbarrier.parity = mbarrier.unset = 0;
}

// Expects `bytes` more bytes, and arrives once.
UNWATCHED inline void arrive(void* place, int bytes = 0)
{
    Mbarrier& mbarrier = mbarrier_at(place);
    if (!mbarrier.pending) misuse("more arrivals than the mbarrier's phase takes");
    released(tag_of(place, mbarrier.parity));
    mbarrier.bytes += bytes;
    --mbarrier.pending;
    end_phase_if_complete(mbarrier);
}

UNWATCHED inline bool phase_has_ended(const void* place, size_t parity)
{
    return static_cast<const Mbarrier*>(place)->parity != parity;
}

UNWATCHED inline void wait_for_phase(void* place, unsigned parity, size_t line)
{
    mbarrier_at(place);
    if (!phase_has_ended(place, parity))
        wait_for({line, parity ? "a phase of parity 1" : "a phase of parity 0", phase_has_ended, place,
                  parity});
    acquired(tag_of(place, parity));
}

// ---- Copies of tiles --------------------------------------------------------------------------

struct TileCopy {
    CUtensorMap map;
    int from[5];  // indices of the box's first element, the contiguous dimension first
    size_t address;
    Block* block;           // whose threads issued it
    size_t mbarrier;        // address of a load's
    unsigned blocks;        // a bit for each block of the cluster that a load goes to
    Fiber* fiber;           // whose store it is; a load has none
    size_t group;           // of a store
    const Fiber* issuer;    // and where and when, by its clock, it did so
    Place place;
    unsigned clock;
};

constexpr size_t most_copies = 4096;
inline TileCopy copies[most_copies];
inline size_t copy_count;

// The bytes of a box, element by element: `move` gets the place of each in global memory, or null where
// it lies outside, and its address in shared memory.
template <typename Move>
UNWATCHED void each_element(const TileCopy& tile, Move move)
{
    const CUtensorMap& map = tile.map;
    size_t elements = 1;
    for (size_t d = 0; d < map.rank; ++d) elements *= map.box[d];
    for (size_t i = 0; i < elements; ++i) {
        char* place = map.data;
        for (size_t d = 0, left = i; d < map.rank; left /= map.box[d++]) {
            const long index = tile.from[d] + long(left % map.box[d]);
            const bool inside = 0 <= index && index < long(map.extents[d]);
            place = place && inside ? place + index * long(d ? map.strides[d] : map.element_bytes) : nullptr;
        }
        move(place, swizzled(tile.address + i * map.element_bytes, map.swizzle));
    }
}

UNWATCHED inline size_t box_bytes(const CUtensorMap& map)
{
    size_t bytes = map.element_bytes;
    for (size_t d = 0; d < map.rank; ++d) bytes *= map.box[d];
    return bytes;
}

// Tells the watcher of a load that was issued, or has landed.
UNWATCHED inline void note_load(const TileCopy& tile, bool landed)
{
    for (size_t rank = 0; rank < cluster_size; ++rank) {
        if (!(tile.blocks >> rank & 1)) continue;
        auto* to = reinterpret_cast<char*>(at_address(blocks[rank], tile.address));
        const auto* mbarrier = at_address(blocks[rank], tile.mbarrier);
        note_copy(
            {to, nullptr, unsigned(box_bytes(tile.map)), 0, mbarrier, 0, tile.place, tile.clock},
            *tile.issuer, landed);
        if (landed)
            released_by(*tile.issuer, tile.clock,
                        tag_of(mbarrier, reinterpret_cast<const Mbarrier*>(mbarrier)->parity));
    }
}

UNWATCHED inline void load_tile(const TileCopy& tile)
{
    note_load(tile, true);
    static const unsigned char zeros[8] = {};
    const size_t element = tile.map.element_bytes;
    for (size_t rank = 0; rank < cluster_size; ++rank) {
        if (!(tile.blocks >> rank & 1)) continue;
        Block& block = blocks[rank];
        each_element(tile, [&](const char* place, size_t address) UNWATCHED {
            const auto* from = place ? reinterpret_cast<const unsigned char*>(place) : zeros;
            write_shared(block, address, from, element);
        });
        Mbarrier& mbarrier = mbarrier_at(at_address(block, tile.mbarrier));
        mbarrier.bytes -= box_bytes(tile.map);
        end_phase_if_complete(mbarrier);
    }
}

UNWATCHED inline void store_tile(const TileCopy& tile)
{
    const unsigned char* seen = seen_by_async_proxy(*tile.block);
    const size_t element = tile.map.element_bytes;
    each_element(tile, [&](char* place, size_t address) UNWATCHED {
        if (!place) return;
        copy(reinterpret_cast<unsigned char*>(place), seen + address, element);
        note_write(place, element, *tile.issuer, tile.clock, tile.place);
    });
    --tile.fiber->stores;
}

UNWATCHED inline void finish_copy(size_t which)
{
    const TileCopy tile = copies[which];
    copies[which] = copies[--copy_count];
    if (tile.fiber) store_tile(tile);
    else load_tile(tile);
}

UNWATCHED inline void issue_copy(TileCopy tile, const void* shared, const CUtensorMap& map,
                                 const int* from, Place place)
{
#if defined(OVERLAPS)
    if (!current->block->waited) misuse("a copy before wait_for_last_launch()");
#endif
    if (copy_count == most_copies) finish_copy(draw() % copy_count);
    tile.map = map;
    tile.address = shared_address(shared, box_bytes(map));
    tile.block = current->block;
    if (map.rank > 1 && tile.address % 128)
        misuse("a tile copy wants shared memory at a multiple of 128 bytes");
    for (size_t d = 0; d < map.rank; ++d) tile.from[d] = from[d];
    tile.issuer = current;
    tile.place = place;
    tile.clock = own_clock();
    if (tile.fiber) watch(shared, box_bytes(map), false, place);
    else note_load(tile, false);
    tick();
    copies[copy_count++] = tile;
    if (draw() >> 30 == 0) finish_copy(copy_count - 1);
}

// `blocks`: of the cluster; 0 is the own one alone.
UNWATCHED inline void issue_load(void* shared, const CUtensorMap& map, void* mbarrier, const int* from,
                                 unsigned blocks, Place place = nullptr)
{
    if (!place) place = HERE;
    mbarrier_at(mbarrier);
    TileCopy tile = {};
    tile.mbarrier = shared_address(mbarrier, 8);
    tile.blocks = blocks ? blocks : 1u << current->block->rank;
    if (tile.blocks >> cluster_size) misuse("a copy to a block that its cluster does not have");
    const auto* seen = seen_by_async_proxy(*current->block) + tile.mbarrier;
    if (reinterpret_cast<const Mbarrier*>(seen)->unset)
        misuse("the async proxy does not see the mbarrier: a fence after its initialisation is missing");
    issue_copy(tile, shared, map, from, place);
}

// A row of bytes is a tile of one dimension.
UNWATCHED inline void issue_row(void* shared, const void* global, size_t bytes, void* mbarrier)
{
    const auto begin = reinterpret_cast<uintptr_t>(global), end = reinterpret_cast<uintptr_t>(shared);
    if (bytes % 16 || begin % 16 || end % 16) misuse("a bulk copy wants multiples of 16 bytes");
    CUtensorMap row = {};
    row.data = static_cast<char*>(const_cast<void*>(global));
    row.element_bytes = 4;
    row.rank = 1;
    row.extents[0] = row.box[0] = bytes / 4;
    const int from[] = {0};
    issue_load(shared, row, mbarrier, from, 0, HERE);
}

UNWATCHED inline void issue_store(const CUtensorMap& map, const void* shared, const int* from)
{
    TileCopy tile = {};
    tile.fiber = current;
    tile.group = current->store_groups;
    ++current->stores;
    issue_copy(tile, shared, map, from, HERE);
}

UNWATCHED inline void commit_stores() { ++current->store_groups; }

// Returns when at most `groups` of this thread's groups are under way.
UNWATCHED inline void wait_for_stores(size_t groups)
{
    for (size_t i = copy_count; i-- > 0;)
        if (copies[i].fiber == current && copies[i].group + groups < current->store_groups) finish_copy(i);
}

UNWATCHED inline bool progress(bool early)
{
    if (!copy_count || (early && draw() >> 29)) return false;
    finish_copy(draw() % copy_count);
    return true;
}

// ---- Products of a warpgroup ------------------------------------------------------------------

// A matrix in shared memory as wgmma takes it (PTX ISA, "Matrix descriptor format").
struct Descriptor {
    size_t address, leading, stride, width;  // in bytes; width: of the swizzle

    explicit Descriptor(uint64_t bits)
        : address((bits & 0x3FFF) << 4), leading((bits >> 16 & 0x3FFF) << 4),
          stride((bits >> 32 & 0x3FFF) << 4), width(bits >> 62 ? 256 >> (bits >> 62) : 0)
    {
    }

    // The address of an element of `bytes`: `k` counts along the sum, `i` along rows of A or columns of B.
    // Eight rows of `width` bytes are a pattern. A row runs along k, or (transposed) along i.
    UNWATCHED size_t of(size_t i, size_t k, bool transposed, size_t bytes) const
    {
        const size_t across = width / bytes;  // elements of a row
        const size_t at = transposed
            ? i / across * leading + k / 8 * stride + k % 8 * width + i % across * bytes
            : i / 8 * stride + i % 8 * width + k * bytes;
        return swizzled(address + at, width);
    }
};

struct Product {
    enum Kind { bfloats, halves, bytes };

    void* sums;  // float, of bytes int32
    size_t columns;
    Kind kind;
    bool add, transposed_a, transposed_b;
    bool a_in_registers;
    const uint32_t* a[4];  // of the four lanes that share rows of A
    uint64_t descriptor_a, descriptor_b;
    size_t group;
    Place place;
};

// Of one thread: those under way, and what tells whether its warpgroup does the same.
struct Products {
    static constexpr size_t most = 256;
    Product queue[most];
    size_t count, groups;
    bool fenced;
    uint64_t trace;
};

UNWATCHED inline Products& own_products()
{
    if (!current->products) current->products = new Products();
    return *current->products;
}

// A thread's part of sums (+)= A·B with `depth` terms: rows r and r + 8, of each eight columns two.
// a_at(i, k), b_at(j, k): elements of the thread's two rows and of its columns, j counting those.
template <typename Sum, size_t depth, typename A, typename B>
UNWATCHED void multiply(const Product& product, A a_at, B b_at)
{
    Sum a[2][depth];
    for (size_t i = 0; i < 2; ++i)
        for (size_t k = 0; k < depth; ++k) a[i][k] = a_at(i, k);
    for (size_t j = 0; j < product.columns / 8 * 2; ++j) {
        Sum sums[2] = {};
        for (size_t k = 0; k < depth; ++k) {
            const Sum b = b_at(j, k);
            for (size_t i = 0; i < 2; ++i) sums[i] += a[i][k] * b;
        }
        for (size_t i = 0; i < 2; ++i) {
            Sum& sum = static_cast<Sum*>(product.sums)[j / 2 * 4 + i * 2 + j % 2];
            sum = product.add ? sum + sums[i] : sums[i];
        }
    }
}

UNWATCHED inline void multiply(const Product& product)
{
    const unsigned char* seen = seen_by_async_proxy(*current->block);
    const size_t thread = (current - current->block->fibers) % 128, column = thread % 4 * 2;
    const size_t row = thread / 32 * 16 + thread % 32 / 4;
    const Descriptor in_a(product.descriptor_a), in_b(product.descriptor_b);
    const auto see = [&](size_t address, size_t bytes) UNWATCHED {
        watch(at_address(*current->block, address), bytes, false, product.place);
        return address;
    };
    const auto see_b = [&](size_t j, size_t k, size_t bytes) UNWATCHED {
        const size_t address = in_b.of(j / 2 * 8 + column + j % 2, k, product.transposed_b, bytes);
        // Lanes that share columns share the watching too.
        return j / 2 % 8 == thread % 32 / 4 ? see(address, bytes) : address;
    };
    if (product.kind == Product::bytes) {
        const auto at = [&](size_t address) UNWATCHED { return unsigned(int(int8_t(seen[address]))); };
        multiply<unsigned, 32>(
            product, [&](size_t i, size_t k) UNWATCHED { return at(see(in_a.of(row + 8 * i, k, false, 1), 1)); },
            [&](size_t j, size_t k) UNWATCHED { return at(see_b(j, k, 1)); });
        return;
    }
    const bool half = product.kind == Product::halves;
    const auto at = [&](size_t address) UNWATCHED {
        return value_of(*reinterpret_cast<const uint16_t*>(seen + address), half);
    };
    multiply<float, 16>(
        product,
        [&](size_t i, size_t k) UNWATCHED {
            return product.a_in_registers
                ? value_of(uint16_t(product.a[k % 8 / 2][i + k / 8 * 2] >> k % 2 * 16), half)
                : at(see(in_a.of(row + 8 * i, k, product.transposed_a, 2), 2));
        },
        [&](size_t j, size_t k) UNWATCHED { return at(see_b(j, k, 2)); });
}

// Ends the oldest products until `left` are under way.
UNWATCHED inline void finish_products(Products& own, size_t left)
{
    const size_t done = own.count - left;
    for (size_t i = 0; i < done; ++i) multiply(own.queue[i]);
    for (size_t i = 0; i < left; ++i) own.queue[i] = own.queue[i + done];
    own.count = left;
}

UNWATCHED inline void fence_products() { own_products().fenced = true; }

UNWATCHED inline void check_operand(uint64_t bits)
{
    const Descriptor operand(bits);
    if (!operand.width) misuse("an operand of wgmma that is not swizzled, which has no meaning here");
    if (operand.address % (8 * operand.width) >= operand.width)
        misuse("an operand of wgmma that does not begin where the swizzle's pattern does");
}

UNWATCHED inline void issue_product(Product product, Place place = nullptr)
{
    product.place = place ? place : HERE;
    Products& own = own_products();
    if (size_t(current - current->block->fibers) / 128 == thread_count / 128)
        misuse("wgmma is of 128 threads, and the block's last ones are fewer");
    if (!own.fenced) misuse("wgmma without a fence before it");
    check_operand(product.descriptor_b);
    if (!product.a_in_registers) check_operand(product.descriptor_a);
    if (own.count == Products::most) finish_products(own, Products::most - 1);
    product.group = own.groups;
    own.trace = (own.trace ^ product.descriptor_a ^ product.descriptor_b << 7) * 0x100000001B3 + 1;
    own.queue[own.count++] = product;
    if (draw() >> 30 == 0) finish_products(own, 0);
}

// The same with A in registers, `a`, of which four lanes share the rows.
UNWATCHED inline void issue_product_of_registers(Product product, const uint32_t* a, size_t line)
{
    const auto* lanes = meet_warp(&a, sizeof a, line);
    const size_t lane = (current - current->block->fibers) % 32;
    product.a_in_registers = true;
    for (size_t i = 0; i < 4; ++i)
        product.a[i] = *reinterpret_cast<const uint32_t* const*>(lanes[lane / 4 * 4 + i]);
    issue_product(product, HERE);
}

UNWATCHED inline void commit_products() { ++own_products().groups; }

// Returns when at most `groups` of the warp's groups are under way: its lanes wait as one.
UNWATCHED inline void wait_for_products(size_t groups, size_t line)
{
    Products& own = own_products();
    size_t left = 0;
    while (left < own.count && own.queue[own.count - 1 - left].group + groups >= own.groups) ++left;
    finish_products(own, left);
    own.fenced = false;
    meet_warp(nullptr, 0, line);
}

UNWATCHED inline void check_return()
{
    if (current->products && current->products->count) misuse("it returns before its wgmma have ended");
    if (current->stores) misuse("it returns before its stores of tiles have read shared memory");
}

// Launches run one after the other here, so there is nothing to wait for.
UNWATCHED inline void wait_for_last_launch() { current->block->waited = true; }

UNWATCHED inline void check_end(const Block& block)
{
#if defined(OVERLAPS)
    if (!block.waited)
        (Line() << "block " << block.index << ": it ends without wait_for_last_launch()").leave(Misused);
#endif
    for (size_t i = 0; i < thread_count; ++i) {
        const Products *own = block.fibers[i].products, *first = block.fibers[i / 128 * 128].products;
        if ((own ? own->trace : 0) != (first ? first->trace : 0))
            (Line() << "block " << block.index << ": thread " << block.fibers[i].index
                    << " does other wgmma than the first of its warpgroup").leave(Misused);
    }
    for (size_t i = 0; i < copy_count; ++i)
        if (copies[i].block == &block)
            (Line() << "block " << block.index << ": it ends while tiles are copied to it").leave(Misused);
    for (size_t i = 0; i < thread_count; ++i)
        if (block.fibers[i].products) block.fibers[i].products->trace = 0;
}

inline const bool watched = (asynchronous = {check_return, progress, check_end}, true);

// ---- Barriers of some warps, and of a cluster -------------------------------------------------

UNWATCHED inline size_t arrive_named(int id, int threads)
{
    if (id < 1 || id > 15 || threads < 32 || threads % 32)
        misuse("a named barrier has a number from 1 to 15, and whole warps");
    return arrive(current->block->named[id], threads);
}

UNWATCHED inline void sync_named(int id, int threads, size_t line)
{
    const size_t number = arrive_named(id, threads);
    wait_at(current->block->named[id], number, "a named barrier", line);
}

UNWATCHED inline void arrive_cluster()
{
    current->cluster_phase = arrive(cluster_barrier, cluster_size * thread_count);
}

UNWATCHED inline void wait_for_cluster(size_t line)
{
    wait_at(cluster_barrier, current->cluster_phase, "its cluster", line);
}

// The place of a variable in another block's shared memory.
UNWATCHED inline void* in_block(const void* place, unsigned rank)
{
    if (rank >= cluster_size) misuse("a block that its cluster does not have");
    return at_address(blocks[rank], shared_address(place));
}

}  // namespace cuda_on_cpu
