// Tiles of C on Hopper's tensor cores: what the kernels of gemm_bf16/, gemm_f16/, gemm_split/ and gram_bf16/ for
// compute capability 9.0a have in common. The pages of those kernels explain it, each what it brings:
//
//     Slabs                 what lies in shared memory, and its products        gemm_bf16/wgmma.cu
//     Tiles                 which tiles a block computes, in which order        gemm_bf16/persistent.cu
//     Loads                 a slab by TMA, also for other blocks of a cluster   gemm_bf16/tma.cu, persistent.cu
//     Ring                  stages between a producer and consumers             gemm_bf16/roles.cu
//     Registers             which the producer leaves to the consumers          gemm_bf16/roles.cu
//     D                     through the ring, behind a tile's slabs             gemm_bf16/persistent.cu
//     Stores                from registers, or in bands by TMA                  gemm_bf16/persistent.cu
//                           bands row by row                                    gemm_bf16/padded.cu
//     turned                columns of C are an instruction's rows              gemm_bf16/turned.cu
//     symmetric             B is A's transpose, and half of C a copy            gram_bf16/halved.cu, mirrored.cu
//     corners               tiles on the diagonal by fewer blocks               gram_bf16/corners.cu
//     compute_tiles         the life of a block that stays                      gemm_bf16/persistent.cu
//     compute_together      the life of a block that has a share of a tile      gemm_bf16/split.cu
//
// T is a kernel's tiling. At the top of its page a kernel says what its numbers are, in a `struct Tiling` that takes
// what it leaves out from HopperTiling. Threads 0 to consumer_threads - 1 multiply, in warpgroups; one thread of the
// warps behind them loads.
#pragma once

#include "epilogue.cuh"
#include "instructions.cuh"
#include "patches.cuh"

struct HopperTiling {
    using Input = __nv_bfloat16;   // an element of A and B; or __half
    using Output = __nv_bfloat16;  // of C; or float

    static constexpr int group = 64;                    // rows of C of a warpgroup, 64 or 128; turned, its columns
    static constexpr int cluster_m = 1, cluster_n = 1;  // blocks of a cluster: tiles one above the other, side by side
    static constexpr int resident = 1;                  // blocks of a multiprocessor
    static constexpr bool turned = false;               // the 64 rows of an instruction are columns of C
    static constexpr bool b_along_k = false;            // C = A·Aᵀ, all of it: the columns of B are rows of A
    static constexpr bool symmetric = false;            // C = A·Aᵀ, by the tiles of a triangle
    static constexpr bool corners = false;              // those on its diagonal shared out, four to three blocks
    static constexpr bool adds = false;                 // C = alpha·A·B + beta·D, of which each lane loads its elements
    static constexpr bool d_by_ring = false;            // the same; D comes through the ring
};

// A multiprocessor has 65536 registers, 512 for each place in a warpgroup, for its resident blocks. All threads
// begin with as many, as ptxas gives them by __launch_bounds__. What the producer does not keep is shared out
// among the consumers. They take no more than that: they would wait for ever.
template <int consumers, int resident = 1>
struct RegisterShares {
    static constexpr int initial = 512 / resident / (consumers + 1) / 8 * 8, of_producer = 32;
    static constexpr int share = (initial + (initial - of_producer) / consumers) / 8 * 8;
    static constexpr int of_consumer = share < 240 ? share : 240;

    static __device__ __forceinline__ void keep_for_producer()
    {
        if constexpr (of_consumer > initial) keep_registers<of_producer>();
    }

    static __device__ __forceinline__ void take_for_consumer()
    {
        if constexpr (of_consumer > initial) take_registers<of_consumer>();
    }
};

// Stages between a producer and consumers.
template <class Slab, int stages>
struct SlabRing {
    Slab* slabs;
    Mbarrier *full, *empty;
    int stage = 0, round = 0;  // of the next slab; the round as a parity

    __device__ void next()
    {
        if (++stage == stages) stage = 0, round ^= 1;
    }

    // This ring behind its first slabs.
    __device__ SlabRing after(int count) const
    {
        return {slabs, full, empty, count % stages, count / stages % 2};
    }

    __device__ int last_stage() const { return (stage + stages - 1) % stages; }

    // Set up the mbarriers, by one thread: so many warps arrive when a stage is empty. The block, or its cluster,
    // has to meet before others use them.
    __device__ void set_up(int warps) const
    {
        for (int stage = 0; stage < stages; stage++) {
            init_mbarrier(full[stage], 1);
            init_mbarrier(empty[stage], warps);
        }
        publish_mbarriers();
    }

    // Wait until all stages are empty: then nobody reads or writes this block's ring any more.
    __device__ void wait_until_empty()
    {
        for (int i = 0; i < stages; i++, next()) wait_for_phase(empty[stage], 1 - round);
    }
};

template <class T>
struct HopperTile {
    // ---- Slabs ----

    using Input = typename T::Input;
    using Output = typename T::Output;
    using Addition = Epilogue<T::adds, T::symmetric>;

    static constexpr int tile_k = 64;                            // steps of k of a slab, 128 bytes of a row of A
    static constexpr int panels = T::tile_n / 64;                // of 64 columns of B, 128 bytes of a row
    // Warpgroups that multiply.
    static constexpr int consumers = (T::turned ? T::tile_n : T::tile_m) / T::group;
    static constexpr int consumer_threads = 128 * consumers, consumer_warps = 4 * consumers;
    static constexpr int cluster = T::cluster_m * T::cluster_n;  // blocks
    static constexpr bool b_along_k = T::b_along_k || T::symmetric;

    static_assert(!T::symmetric || (T::cluster_n == 1 && T::cluster_m * T::tile_m == T::tile_n),
                  "the tiles of a cluster make a square, of which each has all columns");

    // Rows of 128 bytes, swizzled. Where the columns of B lie along k, each is a row of b, 64 to a panel.
    struct Slab {
        Input a[T::tile_m][tile_k];
        Input b[panels][tile_k][64];

        __device__ const Input* row(int row) const { return a[0] + row * tile_k; }  // of a, and behind it of b
    };

    // A thread's sums, of 64 rows after 64 rows; turned, of 64 columns after 64 columns.
    using SumsOf64 = float[(T::turned ? T::tile_m : T::tile_n) / 2];
    using Sums = SumsOf64[T::group / 64];

    // Where this warpgroup's rows of a tile begin; turned, its columns.
    static __device__ __forceinline__ int own_row() { return T::group * of_warp(threadIdx.x / 128); }

    // Where in a slab lies what an instruction multiplies, at the first step of k: 64 rows, from `row` of A on, and all
    // columns. Turned, its rows are columns of B, and its columns all rows of A.
    struct Operands {
        unsigned long long rows, columns;

        __device__ __forceinline__ Operands(const Slab& slab, int row = own_row())
        {
            rows = T::turned ? operand(slab.b[row / 64]) : operand(slab.row(row));
            columns = T::turned  ? operand(slab.row(0))
                      : b_along_k ? operand(slab.row(T::tile_m))
                                  : operand(slab.b, sizeof slab.b[0]);
        }
    };

    // Issue the product of 64 rows by as many columns as sums are given, 32 sums for 64 columns: 16 steps of k, from
    // a_step of the slab's A and b_step of its B on. half: so many times 64 rows behind those of the operands.
    template <int count>
    static __device__ __forceinline__ void multiply_steps(float (&sums)[count], const Operands& of, int a_step,
                                                          int b_step, bool add, int half = 0)
    {
        constexpr bool along_n = !b_along_k;  // rows of B, as it lies in memory
        const int in_a = a_step * 2, in_b = b_step * (along_n ? 128 : 2);  // bytes
        const auto rows = behind(of.rows, half * 64 * 128 + (T::turned ? in_b : in_a));
        const auto columns = behind(of.columns, T::turned ? in_a : in_b);
        multiply_tiles<Input, along_n && !T::turned, T::turned>(sums, rows, columns, add);
    }

    // sums += a·b for a slab, which all see, or sums = a·b without `add`; the products are a group that is under way.
    static __device__ __forceinline__ void multiply(Sums& sums, const Operands& of, bool add = true)
    {
        fence_products();
#pragma unroll
        for (int k = 0; k < tile_k; k += 16)
#pragma unroll
            for (int half = 0; half < T::group / 64; half++) multiply_steps(sums[half], of, k, k, add || k > 0, half);
        commit_products();
    }

    static __device__ __forceinline__ int slabs_of(int k) { return (k + tile_k - 1) / tile_k; }

    // ---- Tiles ----

    // This block's place in its cluster: blocks are numbered column by column.
    static __device__ __forceinline__ int2 place_in_cluster()
    {
        const int rank = rank_in_cluster();
        return {rank % T::cluster_m, rank / T::cluster_m};
    }

    // The order of the tiles: a cluster's are taken together, patch by patch, and in a patch column by column; of a
    // symmetric C those on the diagonal and above it.
    struct Order {
        int rows, columns;  // of clusters' tiles

        __device__ Order(int m, int n)
            : rows((m + T::cluster_m * T::tile_m - 1) / (T::cluster_m * T::tile_m)),
              columns((n + T::cluster_n * T::tile_n - 1) / (T::cluster_n * T::tile_n))
        {
        }

        __device__ int tiles() const
        {
            if constexpr (T::corners) return places_with_corners(rows);
            return T::symmetric ? rows * (rows + 1) / 2 : rows * columns;
        }

        // The first row and column of C that the block at this place of its cluster computes.
        __device__ int2 position(int index, int2 place) const
        {
            const int2 at = T::corners     ? place_with_corners<T::patch>(index, rows)
                            : T::symmetric ? place_in_triangle<T::patch>(index, rows)
                                           : place_in_patches<T::patch>(index, rows, columns);
            return {(at.x * T::cluster_m + place.x) * T::tile_m, (at.y * T::cluster_n + place.y) * T::tile_n};
        }
    };

    // The tiles of this block, one after the other.
    struct Tiles {
        Order order;
        int index = blockIdx.x / cluster, turn = 0;
        int2 place = place_in_cluster(), first;  // the tile's first row and column of C

        __device__ Tiles(int m, int n) : order(m, n)
        {
            find();
        }

        __device__ bool more() const { return index < order.tiles(); }

        __device__ void next()
        {
            index += gridDim.x / cluster, turn++;
            find();
        }

        __device__ void find()
        {
            if (more()) first = order.position(index, place);
        }

        // Whether the sums of this tile begin at the end of k. Those of all of C = A·Aᵀ do not, as it is symmetric to the
        // bit: element (j, i) is summed in the order of (i, j).
        __device__ bool backwards() const { return !T::b_along_k && turn % 2; }
    };

    // Whether it is a corner of a symmetric C with a quarter of another one.
    static __device__ __forceinline__ bool is_corner(int2 tile) { return T::corners && tile.x > tile.y; }

    // Whether a tile of a symmetric C is of a cluster's square on the diagonal: its rows of A are columns of B too.
    static __device__ __forceinline__ bool on_diagonal(int2 tile, int2 place)
    {
        return T::symmetric && tile.x - place.x * T::tile_m == tile.y;
    }

    // ---- Loads ----

    static constexpr int rows_of_a = T::tile_m / T::cluster_n;  // a block's part
    static constexpr int rows_of_b = (b_along_k ? T::tile_n : tile_k) / T::cluster_m;

    // The slab's row at which the block's rows of A begin.
    static __device__ __forceinline__ int row_of_a(int2 tile, int2 place)
    {
        if (is_corner(tile)) return T::tile_m;
        return on_diagonal(tile, place) ? (1 + place.x) * T::tile_m : 0;
    }

    // What A and B look like to TMA; with T::d_by_ring also D, in boxes of a band.
    struct Inputs {
        const CUtensorMap &a, &b;
        const CUtensorMap* d = nullptr;
        float alpha = 1, beta = 0;

        __device__ void prefetch() const { prefetch_map(a), prefetch_map(b); }
    };

    // Load a part of a slab, for `blocks` of the cluster, as bits, or for this block alone.
    template <bool shared>
    static __device__ __forceinline__ void load_part(void* part, const CUtensorMap& map, Mbarrier& full, int row,
                                                     int column, unsigned short blocks)
    {
        if constexpr (shared)
            load_tile_to_blocks(part, map, full, row, column, blocks);
        else
            load_tile(part, map, full, row, column);
    }

    // Load the slab from step k on of the tile at row tile.x and column tile.y. `shared`: this block's parts of it,
    // for all blocks that need them; else all parts, for this block.
    template <bool shared>
    static __device__ __forceinline__ void load(Slab& slab, Mbarrier& full, const Inputs& in, int2 tile, int k,
                                                int2 place = {0, 0})
    {
        constexpr unsigned column = (1u << T::cluster_m) - 1, row = ((1u << cluster) - 1) / column;  // blocks, as bits
        const bool without_a = on_diagonal(tile, place);
        expect_bytes(full, (without_a ? 0 : sizeof slab.a) + sizeof slab.b);
        for (int part = shared ? place.y : 0; part < (shared ? place.y + 1 : T::cluster_n) && !without_a; part++)
            load_part<shared && (T::cluster_n > 1)>(slab.a[part * rows_of_a], in.a, full, tile.x + part * rows_of_a, k,
                                                    row << place.x);
        for (int panel = 0; panel < (b_along_k ? 1 : panels); panel++)
            for (int part = shared ? place.x : 0; part < (shared ? place.x + 1 : T::cluster_m); part++) {
                const int first = part * rows_of_b;
                const int2 at = b_along_k ? int2{tile.y + first, k} : int2{k + first, tile.y + 64 * panel};
                load_part<shared && (T::cluster_m > 1)>(slab.b[panel][0] + 64 * first, in.b, full, at.x, at.y,
                                                        column << place.y * T::cluster_m);
            }
    }

    // ---- Ring ----

    using Ring = SlabRing<Slab, T::stages>;
    using Registers = RegisterShares<consumers, T::resident>;

    // Whether this warp multiplies.
    static __device__ __forceinline__ bool consumes() { return of_warp(threadIdx.x) < consumer_threads; }

    // Whether this thread is the one that issues all loads.
    static __device__ __forceinline__ bool produces()
    {
        return threadIdx.x / 32 == consumer_threads / 32 && elected();
    }

    // Load slabs of a tile into the first stages of a ring that nobody has used yet, whole ones: a block loads them
    // before it knows that the others of its cluster have mbarriers.
    static __device__ __forceinline__ void load_early(const Ring& ring, const Inputs& in, int2 tile, int slabs,
                                                      int2 place)
    {
#pragma unroll 1
        for (int s = 0; s < slabs; s++) load<false>(ring.slabs[s], ring.full[s], in, tile, s * tile_k, place);
    }

    // Load slabs of a tile, each as soon as its stage is empty: numbers begin + step·s for s from `first` to end - 1.
    static __device__ __forceinline__ void produce(Ring& ring, const Inputs& in, int2 tile, int first, int end,
                                                   int2 place = {0, 0}, int begin = 0, int step = 1)
    {
#pragma unroll 1
        for (int s = first; s < end; s++, ring.next()) {
            wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
            load<true>(ring.slabs[ring.stage], ring.full[ring.stage], in, tile, (begin + step * s) * tile_k, place);
        }
    }

    // Call find(slab)(add) for the next slabs of the ring: what it returns multiplies a slab, whose operands find() has
    // found while the slab comes. leave(stage): tell whoever fills it that a stage is empty.
    template <class Find, class Leave>
    static __device__ __forceinline__ void consume_by(Ring& ring, int slabs, Leave leave, Find find)
    {
        for (int s = 0, last = 0; s < slabs; s++, last = ring.stage, ring.next()) {
            const auto multiply = find(ring.slabs[ring.stage]);
            wait_for_phase(ring.full[ring.stage], ring.round);
            multiply(s > 0);
            wait_for_products<1>();
            if (s > 0) leave(last);
        }
        wait_for_products<0>();
        leave(ring.last_stage());
    }

    // Multiply the next slabs of the ring: sums = a·b.
    template <class Leave>
    static __device__ __forceinline__ void consume(Ring& ring, Sums& sums, int slabs, Leave leave, int row_of_a = 0)
    {
        const int row = row_of_a + own_row();
        consume_by(ring, slabs, leave, [&](const Slab& slab) {
            return [&sums, of = Operands(slab, row)](bool add) { multiply(sums, of, add); };
        });
    }

    // ---- Corners ----

    // Whether a consumer's quarters do not lie side by side: the second consumer's of a corner.
    static __device__ __forceinline__ bool has_quarters(int2 tile)
    {
        return is_corner(tile) && of_warp(threadIdx.x) >= 128;
    }

    // Where in C they begin: the corner's own one, or that of another corner, of which three blocks have one each.
    static __device__ __forceinline__ int2 quarter(int2 tile, bool own)
    {
        const int number = tile.y / T::tile_m % 4;
        return own ? int2{tile.y + 64, tile.y + 64} : int2{tile.x + number / 2 * 64, tile.x + (number + 1) / 2 * 64};
    }

    using SumsOfQuarter = float[32];

    // Multiply the next slabs of the ring for these quarters.
    template <class Leave>
    static __device__ __forceinline__ void consume_quarters(Ring& ring, SumsOfQuarter& own, SumsOfQuarter& other, int2 tile,
                                                            int slabs, Leave leave)
    {
        const int2 at = quarter(tile, false);
        consume_by(ring, slabs, leave, [&](const Slab& slab) {
            const auto rows = [&](int first) { return operand(slab.row(first)); };
            return [&own, &other, corner = rows(T::tile_m + 64), across = rows(at.x - tile.x),
                    down = rows(at.y - tile.x)](bool add) {
                fence_products();
#pragma unroll
                for (int k = 0; k < tile_k; k += 16) {
                    const auto at_k = [&](unsigned long long rows) { return behind(rows, k * 2); };
                    multiply_tiles<Input, false>(own, at_k(corner), at_k(corner), add || k > 0);
                    multiply_tiles<Input, false>(other, at_k(across), at_k(down), add || k > 0);
                }
                commit_products();
            };
        });
    }

    // Blocks that share what they load lie in one row or one column of the cluster. A stage is empty when all warps
    // that multiply have left it, in all these blocks.
    static constexpr int warps_that_leave = (T::cluster_m + T::cluster_n - 1) * consumer_warps;

    // Whether the block of this lane's number loads for this block: the lane tells it that a stage is empty.
    static __device__ __forceinline__ bool serves()
    {
        const int lane = threadIdx.x % 32;
        const int2 place = place_in_cluster();
        return lane < cluster && (lane % T::cluster_m == place.x || lane / T::cluster_m == place.y);
    }

    // ---- D ----

    // A part of a tile, 64 rows and 64 columns: of D on its way to the sums; rounded and on its way to C.
    using Band = Output[64][64];

    // How many rows of the tile, from `row` on, the band there has: turned, the last one may have fewer.
    static __device__ constexpr int rows_of_band(int row) { return T::turned ? min(64, T::tile_m - row) : 64; }

    // Eight elements of a row of a band, which is swizzled as TMA takes it.
    static __device__ __forceinline__ Output* piece(Band& band, int row, int piece)
    {
        return &band[row][(piece ^ row % 8) * 8];
    }

    static __device__ __forceinline__ Output& element(Band& band, int row, int column)
    {
        return piece(band, row, column / 8)[column % 8];
    }

    // Behind a tile's last slab a few stages have its bands of D, as many columns of bands as find room in a stage.
    static constexpr int bands_of_column = (T::tile_m + 63) / 64;
    static constexpr int room_for_columns = (int)(sizeof(Slab) / sizeof(Band)) / bands_of_column;
    static constexpr int columns_of_d = room_for_columns < panels ? room_for_columns : panels;

    // Load the tile's bands of D.
    static __device__ __forceinline__ void load_d(Ring& ring, const Inputs& in, int2 tile)
    {
        if (in.beta == 0) return;
        for (int first = 0; first < panels; first += columns_of_d, ring.next()) {
            Mbarrier& full = ring.full[ring.stage];
            const int bands = min(columns_of_d, panels - first) * bands_of_column;
            wait_for_phase(ring.empty[ring.stage], 1 - ring.round);
            expect_bytes(full, bands * sizeof(Band));
            for (int i = 0; i < bands; i++) {
                int2 at = {tile.x + 64 * (i % bands_of_column), tile.y + 64 * (first + i / bands_of_column)};
                if (is_corner(tile)) at = i == 1 ? quarter(tile, false) : int2{at.x - tile.x + tile.y, at.y};
                load_tile(((Band*)&ring.slabs[ring.stage])[i], *in.d, full, at.x, at.y);
            }
        }
    }

    // Where a lane has a row of one of four matrices of a band, two one above the other and two beside them: those of 16
    // columns of a warpgroup's sums, from 16·j on. Transposed, the band's rows are these columns.
    template <bool transposed>
    static __device__ __forceinline__ Output* matrix_row(Band& band, int j)
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
        return transposed ? piece(band, 16 * j + lane / 16 * 8 + lane % 8, 2 * warp + lane / 8 % 2)
                          : piece(band, warp * 16 + lane % 16, 2 * j + lane / 16);
    }

    // Add beta·D to a warpgroup's sums of a band, 64 columns or fewer.
    static __device__ __forceinline__ void add_band(float* sums, Band& band, float beta, int columns = 64)
    {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (16 * j >= columns) break;
            unsigned pairs[4];
            load_matrices<T::turned>(pairs, matrix_row<T::turned>(band, j));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 two = __bfloat1622float2(*(const __nv_bfloat162*)&pairs[i]);
                sums[8 * j + 2 * i] = fmaf(beta, two.x, sums[8 * j + 2 * i]);
                sums[8 * j + 2 * i + 1] = fmaf(beta, two.y, sums[8 * j + 2 * i + 1]);
            }
        }
    }

    template <int count>
    static __device__ __forceinline__ void scale(float (&sums)[count], float alpha)
    {
#pragma unroll
        for (float& sum : sums) sum *= alpha;
    }

    // Call use(bands, first) for the next stages of the ring, which have bands of D: columns of them from `first` on.
    template <class Leave, class Use>
    static __device__ __forceinline__ void each_stage_of_d(Ring& ring, const Inputs& in, Leave leave, Use use)
    {
        if (in.beta == 0) return;
#pragma unroll
        for (int first = 0; first < panels; first += columns_of_d) {
            wait_for_phase(ring.full[ring.stage], ring.round);
            use((Band*)&ring.slabs[ring.stage], first);
            fence_async_proxy();  // TMA writes there next
            __syncwarp();
            leave(ring.stage);
            ring.next();
        }
    }

    // sums = alpha·sums + beta·D, for a consumer's rows of a tile, or its columns.
    template <class Leave>
    static __device__ __forceinline__ void add_d(Ring& ring, Sums& sums, const Inputs& in, Leave leave)
    {
        if constexpr (T::d_by_ring) {
            for (SumsOf64& half : sums) scale(half, in.alpha);
            each_stage_of_d(ring, in, leave, [&](Band* bands, int first) {
                const auto band = [&](int row, int column) -> Band& {
                    return bands[(column - first) * bands_of_column + row];
                };
                if constexpr (T::turned) {
#pragma unroll
                    for (int half = 0; half < T::group / 64; half++) {
                        const int column = T::group / 64 * of_warp(threadIdx.x / 128) + half;
                        if (first <= column && column < first + columns_of_d)
#pragma unroll
                            for (int row = 0; row < T::tile_m; row += 64)
                                add_band(&sums[half][row / 2], band(row / 64, column), in.beta, rows_of_band(row));
                    }
                } else {
#pragma unroll
                    for (int column = first; column < min(first + columns_of_d, panels); column++)
#pragma unroll
                        for (int half = 0; half < T::group / 64; half++) {
                            const int row = T::group / 64 * (threadIdx.x / 128) + half;
                            add_band(&sums[half][32 * column], band(row, column), in.beta);
                        }
                }
            });
        }
    }

    // The same for its quarters, a corner's last band and the one that nobody else has use for.
    template <class Leave>
    static __device__ __forceinline__ void add_d(Ring& ring, SumsOfQuarter& own, SumsOfQuarter& other, const Inputs& in,
                                                 Leave leave)
    {
        if constexpr (T::d_by_ring) {
            scale(own, in.alpha), scale(other, in.alpha);
            each_stage_of_d(ring, in, leave, [&](Band* bands, int) {
                add_band(own, bands[3], in.beta);
                add_band(other, bands[1], in.beta);
            });
        }
    }

    // ---- Stores ----

    // Store a tile that begins at (row, column), each thread its sums. A warpgroup has 64 rows.
    static __device__ __forceinline__ void store(const Sums& sums, Output* C, int m, int n, int row, int column)
    {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int j = 0; j < T::tile_n / 8; j++)
            store_fragment(C, m, n, row + 16 * warp + lane / 4, column + 8 * j + lane % 4 * 2, &sums[0][4 * j]);
    }

    static __device__ __forceinline__ unsigned rounded(const float* two)
    {
        const __nv_bfloat162 both = __floats2bfloat162_rn(two[0], two[1]);
        return *(const unsigned*)&both;
    }

    // Write 64 columns of a warpgroup's sums, or fewer, to a band; transposed, they are its rows.
    template <bool transposed = false>
    static __device__ __forceinline__ void write(Band& band, const float* sums, int columns = 64)
    {
        static_assert(std::is_same_v<Output, __nv_bfloat16>, "stmatrix takes two elements in a register");
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (16 * j >= columns) break;
            const float* own = &sums[8 * j];
            const unsigned fragments[4] = {rounded(own), rounded(own + 2), rounded(own + 4), rounded(own + 6)};
            store_matrices<transposed>(fragments, matrix_row<transposed>(band, j));
        }
    }

    // Whether this thread gives TMA the bands of its warpgroup.
    static __device__ __forceinline__ bool stores() { return threadIdx.x % 128 == 0; }

    // A warpgroup meets at a barrier of its own.
    static __device__ __forceinline__ void sync_group() { sync_at_barrier(1 + threadIdx.x / 128, 128); }

    // Store a band by TMA, while the warpgroup goes on: the places for bands are taken by turns, and one is written
    // while the others are stored. write(band): write it. `turn`: of the next band, counted over all tiles.
    template <int places, class Write>
    static __device__ __forceinline__ void store_band(Band (&bands)[places], int& turn, const CUtensorMap& out,
                                                      int row, int column, Write write, int rows)
    {
        Band& band = bands[turn++ % places];
        if (stores()) wait_until_tiles_are_read<places - 1>();
        sync_group();
        write(band);
        fence_async_proxy();
        sync_group();
        if (stores()) {
            constexpr int box = T::turned ? 16 : 64;  // rows of C
            for (int first = 0; first < rows; first += box) store_tile(out, band[first], row + first, column);
            commit_tile_stores();
        }
    }

    // Call use(sums, row, column) for each band of a consumer's part of a tile: its sums, and where in C it begins.
    template <class SumsOfTile, class Use>
    static __device__ __forceinline__ void each_band(SumsOfTile& sums, int2 tile, Use use)
    {
        const int own = own_row();
        if constexpr (T::turned) {
#pragma unroll
            for (int half = 0; half < T::group / 64; half++)
#pragma unroll
                for (int first = 0; first < T::tile_m; first += 64)
                    use(&sums[half][first / 2], tile.x + first, tile.y + own + 64 * half);
        } else {
#pragma unroll
            for (int half = 0; half < T::group / 64; half++)
#pragma unroll
                for (int panel = 0; panel < panels; panel++)
                    use(&sums[half][32 * panel], tile.x + own + 64 * half, tile.y + 64 * panel);
        }
    }

    // Call compute(store_band), and wait for the bands that a consumer has stored by store_band(row, column, write).
    // Its places for bands lie behind the ring.
    template <class Compute>
    static __device__ __forceinline__ void with_bands(Slab* slabs_of_ring, const CUtensorMap& out, Compute compute)
    {
        using Bands = Band[T::bands];
        Bands& bands = ((Bands*)(slabs_of_ring + T::stages))[threadIdx.x / 128];
        int turn = 0;
        compute([&](int row, int column, auto write, int rows = 64) {
            store_band(bands, turn, out, row, column, write, rows);
        });
        if (consumes() && stores()) wait_until_tiles_are_read<0>();
    }

    // Call compute(store), which calls store(sums, tile) for each tile of a consumer.
    template <class Compute>
    static __device__ __forceinline__ void compute_by_bands(Slab* slabs_of_ring, const CUtensorMap& out, Compute compute)
    {
        with_bands(slabs_of_ring, out, [&](auto store_band) {
            compute([&](Sums& sums, int2 tile) {
                const auto store = [&](float* own, int row, int column) {
                    const int rows = rows_of_band(row - tile.x);
                    store_band(row, column, [&](Band& band) { write<T::turned>(band, own, rows); }, rows);
                };
                each_band(sums, tile, store);
            });
        });
    }

    // Store elements of a row of a band from `column` of C on, by a warp: pairs where rows of C have an even number of
    // elements. `to`: the row of C, of n elements.
    static __device__ __forceinline__ void store_row(Band& band, int row, Output* to, int n, int column)
    {
        const int lane = threadIdx.x % 32;
        if (n % 2 == 0) {
            const int first = 2 * lane;
            if (column + first >= n) return;
            *(__nv_bfloat162*)&to[column + first] = *(__nv_bfloat162*)&element(band, row, first);
        } else {
            for (int e = lane; e < 64; e += 32)
                if (column + e < n) to[column + e] = element(band, row, e);
        }
    }

    // ---- Blocks that stay ----

    // Fill the ring with the slabs of all tiles but the first `early` ones, and stay until its last ones are read: then
    // nobody writes to this block's shared memory any more.
    static __device__ __forceinline__ void produce_tiles(Ring ring, Tiles tiles, const Inputs& in, int slabs, int early)
    {
        for (; tiles.more(); tiles.next(), early = 0) {
            const int begin = tiles.backwards() ? slabs - 1 : 0, step = tiles.backwards() ? -1 : 1;
            produce(ring, in, tiles.first, early, slabs, tiles.place, begin, step);
            if constexpr (T::d_by_ring) load_d(ring, in, tiles.first);
        }
        ring.wait_until_empty();
    }

    // Compute a consumer's part of a tile.
    template <class Leave, class Store>
    static __device__ __forceinline__ void compute_tile(Ring& ring, const Tiles& tiles, Sums& sums, int slabs,
                                                        const Inputs& in, Leave leave, Store store)
    {
        const int2 tile = {of_warp(tiles.first.x), of_warp(tiles.first.y)};
        if constexpr (T::corners)
            if (has_quarters(tile)) {
                SumsOfQuarter own, other;
                consume_quarters(ring, own, other, tile, slabs, leave);
                add_d(ring, own, other, in, leave);
                return store(own, other, tile);
            }
        consume(ring, sums, slabs, leave, row_of_a(tile, tiles.place));
        add_d(ring, sums, in, leave);
        store(sums, tile);
    }

    // Compute this block's tiles. store(sums, tile): store a tile that begins at row tile.x and column tile.y; with
    // T::corners it also takes the sums of two quarters.
    template <class Store>
    static __device__ __forceinline__ void compute_tiles(Slab* slabs_of_ring, const Inputs& in, int m, int n, int k,
                                                         Store store)
    {
        __shared__ Mbarrier full[T::stages], empty[T::stages];
        Ring ring = {slabs_of_ring, full, empty};
        if constexpr (T::resident == 1) let_next_launch_begin();
        if (produces()) in.prefetch();
        Tiles tiles(m, n);  // the first one is found while the maps come
        const int slabs = slabs_of(k);
        const int early = tiles.more() ? min(slabs, T::early) : 0;
        if (produces()) {
            ring.set_up(warps_that_leave);
            wait_for_last_launch();
            load_early(ring, in, tiles.first, early, tiles.place);
        }
        __syncwarp();
        meet_cluster();  // the mbarriers of all blocks are there
        if (!consumes()) {
            Registers::keep_for_producer();
            if (produces()) produce_tiles(ring.after(early), tiles, in, slabs, early);
        } else {
            Registers::take_for_consumer();
            const bool served = serves();
            const auto leave = [&](int stage) {
                if (served) arrive_in_block(empty[stage], threadIdx.x % 32);
            };
            Sums sums = {};
            for (; tiles.more(); tiles.next()) compute_tile(ring, tiles, sums, slabs, in, leave, store);
        }
    }

    // ---- Blocks that share a tile ----

    // The tile of this block's cluster, where the grid has a cluster for each tile of C.
    static __device__ __forceinline__ int2 tile_of_cluster()
    {
        return {(int)blockIdx.y * T::tile_m, (int)(blockIdx.x / T::splits) * T::tile_n};
    }

    // Sums of all consumers of a block: of each eight columns four of a thread.
    using BlockSums = float4[T::tile_n / 8][consumer_threads];

    // Write a thread's sums to the ring's memory, for all blocks of the cluster.
    static __device__ __forceinline__ void leave_sums(const Sums& sums, BlockSums& block_sums)
    {
        static_assert(sizeof(BlockSums) <= T::stages * sizeof(Slab), "the sums find room in the ring");
        sync_at_barrier(1, consumer_threads);  // nobody reads the ring any more
#pragma unroll
        for (int j = 0; j < T::tile_n / 8; j++)
            block_sums[j][threadIdx.x] =
                make_float4(sums[0][4 * j], sums[0][4 * j + 1], sums[0][4 * j + 2], sums[0][4 * j + 3]);
    }

    static constexpr int own_columns = T::tile_n / T::splits;  // of a tile, that a block adds and stores

    // Add what all blocks have left of this block's columns, and call store(sums, row, column): a lane's fragments side
    // by side, of the first one the first element's place in C.
    template <class Store>
    static __device__ __forceinline__ void store_total(BlockSums& block_sums, int2 tile, Store store)
    {
        static_assert(own_columns % 8 == 0, "four sums of a thread lie in eight columns");
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, own = rank_in_cluster() * own_columns;
        float total[own_columns / 8][4] = {};
#pragma unroll
        for (int i = 0; i < T::splits; i++) {  // each begins at its own, so that all have another's
            const auto* theirs = in_block(&block_sums[own / 8], (rank_in_cluster() + i) % T::splits);
#pragma unroll
            for (int j = 0; j < own_columns / 8; j++) {
                const float4 sums = theirs[j][threadIdx.x];
                total[j][0] += sums.x, total[j][1] += sums.y, total[j][2] += sums.z, total[j][3] += sums.w;
            }
        }
        store(total[0], tile.x + 16 * warp + lane / 4, tile.y + own + lane % 4 * 2);
    }

    // Compute the tile of this block's cluster of T::splits blocks, which begins at row tile.x and column tile.y. store:
    // as store_total calls it.
    template <class Store>
    static __device__ __forceinline__ void compute_together(Slab* slabs_of_ring, const Inputs& in, int2 tile, int k,
                                                            Store store)
    {
        __shared__ Mbarrier full[T::stages], empty[T::stages];
        Ring ring = {slabs_of_ring, full, empty};
        BlockSums& block_sums = *(BlockSums*)slabs_of_ring;
        if constexpr (T::resident == 1) let_next_launch_begin();
        const int slabs = slabs_of(k), rank = rank_in_cluster();
        const int begin = slabs * rank / T::splits, end = slabs * (rank + 1) / T::splits;
        if (produces()) in.prefetch();
        if (threadIdx.x == 0) ring.set_up(consumer_warps);
        __syncthreads();
        if (!consumes()) {
            Registers::keep_for_producer();
            if (produces()) {
                wait_for_last_launch();
                produce(ring, in, tile, begin, end);
            }
            __syncwarp();
            sync_cluster();
        } else {
            Registers::take_for_consumer();
            const auto leave = [&](int stage) {
                if (elected()) arrive(empty[stage]);
            };
            Sums sums = {};
            if (begin < end) consume(ring, sums, end - begin, leave, row_of_a(tile, {0, 0}));
            leave_sums(sums, block_sums);
            sync_cluster();  // all sums of the tile are there
            store_total(block_sums, tile, store);
        }
        sync_cluster();
    }
};
