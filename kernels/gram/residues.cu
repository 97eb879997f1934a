// C = Aᵀ·A in float64 for any A of m×n, by products of bytes on the tensor cores.
//
// Words       modulus      one of 14 to 16 numbers up to 256 without a common factor; P is their product
//             residue      of a whole number x at a modulus p: the smallest number that differs from x by a
//                          multiple of p. It fits a byte
//             remainder    the residue of an element of C
//             plane        the residues of all of A at one modulus, or the remainders of C
//             native       by the fp64 tensor cores, as in tensor_streamed.cu
//
// Idea        The tensor cores multiply bytes 30 times as fast as numbers in float64, and without rounding. So
//             columns of A become whole numbers of some 55 bits. A sum of their products has 110 bits, but any
//             whole number below P/2 in absolute value is known by its residues (Chinese remainder theorem), and
//             residues may be taken before sums and products as well as after. One product of long numbers so
//             becomes 14 products of bytes that have nothing to do with each other. Slices of 7 bits would take 28,
//             because each slice meets each other one.
//
//             An example with the moduli 7, 8 and 9, so P = 504, and sums from -252 to 251:
//
//                 a = (13, -6)               Σa² = 169 + 36 = 205
//
//                 modulus                    7                8                 9
//                 residues of a              -1, 1            -3, 2             4, 3
//                 their Σa²                  1 + 1 = 2        9 + 4 = 13        16 + 9 = 25
//                 remainder                  2                -3                -2
//                 weight                     -216             -63               -224
//
//                 2·(-216) + (-3)·(-63) + (-2)·(-224) = 205
//
//             A weight is 1 at its own modulus and 0 at the others: -63 = 8·(-8) + 1 = 7·(-9). Where the sum leaves
//             -252 to 251, a multiple of 504 is taken off.
//
// Order       Each launch waits for the one before it (../overlap.cuh). With N moduli:
//
//             launch              what it does                                       bytes read      written
//             norms               squares of columns, in parts                       8mn             mn/16
//             finish_norms        norms, and by which powers of two columns are      mn/16           24n
//                                 multiplied (residues_columns.cuh, Columns)
//             bounds_of_sample    Guard: an eighth of A as numbers of 7 bits         mn              mn/8
//             test_sample         Guard: whether 14 moduli are enough                mn/8, again     -
//             bounds              Guard, if not: all of A as numbers of 7 bits       8mn             mn
//             test_bounds         Guard, if not: how many moduli are, or native      mn, again       -
//             split               residues of A (residues_columns.cuh, Splitting)    8mn             Nmn
//             residues            their products, and remainders (residues_tile.cuh) Nmn, again      Nn²/2
//             combine             C from remainders (residues_columns.cuh,           Nn²/2           8n²
//                                 Combining)
//             gram_native         C, if it is native
//
//             How many moduli are taken stands in global memory, where launches read it: the host never waits for
//             it. Launches that are not needed return at once, and their grids have few blocks a multiprocessor,
//             because a block that only returns takes its time too.
//
// Guard       Rounding to whole numbers changes an element of C by rounding errors of one column times the other:
//             σ = 1/√12·√(‖aᵢ‖²/4^eⱼ + ‖aⱼ‖²/4^eᵢ), where column i was multiplied by 2^eᵢ. That is a share of
//             ‖aᵢ‖‖aⱼ‖. Sums in float64 err by a share of Σ|a||b|, which is smaller where large elements meet small
//             ones. So that sum is bounded from below: each column of |a| is scaled until its largest element is 64
//             to 127, and cut off to whole numbers. The product of these bounds is exact, and an element passes if
//
//                 6σ ≤ 2^-48·(the sum of products of bounds, scaled back)
//
//             Bounds of some rows are less than those of all, so what passes by them passes; for most data an
//             eighth is enough. Two more moduli lose 3 and 7 bits less, so the test of all rows chooses among 14,
//             15, 16 and native.
//             Columns of zeros or with norms beyond 1e±125 are native, and so are sums of less than 128 terms, which
//             float64 rounds too seldom. Without GUARD these alone are, and 14 moduli are taken for all others.
//
// Error       With the guard 2^-48 + 2^-52 of Σ|a||b|: 6σ, and two roundings at the end. Errors of elements were
//             below 5.8σ for every kind of data that was tried, and are mostly a hundredth of that bound. Without
//             the guard 6σ, some 2^-52 of ‖aᵢ‖‖aⱼ‖. C is symmetric to the bit, and has the same bits for any
//             order of the rows of A, unless a norm's own rounding decides about its power of two.
//
// Source      K. Ozaki, Y. Uchino and T. Imamura, Ozaki Scheme II, arXiv 2504.08009. Moduli, and weights in two
//             parts, as in GEMMul8, arXiv 2508.03984. These cut numbers off; rounding them is worth a modulus.
//
// Removes     The rate of float64's own tensor cores.
// Limit       residues: power, because random bytes alone bring the tensor cores to the card's limit; below
//             n = 4096 the end of a tile, too. All other launches: bytes.
#include "residues_columns.cuh"
#include "residues_tile.cuh"
#include "tensor_streamed.cuh"

struct Tiling {
    static constexpr int side = SIDE;        // rows and columns of C of a cluster
    static constexpr int stages = STAGES;    // slabs that the ring holds
    static constexpr int patch = PATCH;      // rows of tiles of a patch
    static constexpr int portion = PORTION;  // slabs whose sums of products are less than 2^31
};

using Tile = ByteTile<Tiling>;

// gram_tensor_streamed/128-patch8, which needs the least energy for a product.
struct NativeTiling {
    static constexpr int tile = 128, tile_k = 16, warp_m = 64, warp_n = 32, step = 8, stages = 4, portions = 4;
    static constexpr int blocks = MULTIPROCESSORS, least = 8, patch = 8;
};

using Native = StreamedGram<NativeTiling>;

__device__ unsigned flags[NativeTiling::blocks];
__device__ Native::Sums partial_sums[NativeTiling::blocks];
__device__ unsigned begun;  // tiles of residues, for clusters in step

constexpr int fewest_terms = 128;

#define OPERANDS const double *__restrict__ A, double *__restrict__ C, int m, int n, void *__restrict__ parts, \
    void *__restrict__ columns, void *__restrict__ moduli, void *__restrict__ residues_of_a, \
    void *__restrict__ remainders, const __grid_constant__ CUtensorMap planes

// Wait for the launch before this one, and for what it says of the moduli.
__device__ __forceinline__ Moduli& known(void* moduli)
{
    wait_for_last_launch();
    return *(Moduli*)moduli;
}

extern "C" __global__ void __launch_bounds__(256) norms(OPERANDS)
{
    Moduli& needed = known(moduli);
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        needed.by_norms = m < fewest_terms ? native : least_moduli;
        needed.by_sample = needed.by_bounds = least_moduli;
    }
    add_squares(A, (double2*)parts, m, n);
}

extern "C" __global__ void __launch_bounds__(256) finish_norms(OPERANDS)
{
    finish_columns((const double2*)parts, (Column*)columns, known(moduli), m, n);
}

// ---- Guard ----

constexpr int sample = 8;  // every so-manieth row of A

template <int every>
__device__ __forceinline__ void split_to_bounds(const double* A, void* bytes, const Column* columns, int m, int n,
                                                Whole& whole)
{
    split_columns<every>(A, columns, m, n, whole, [](const Column& column) { return column.bound_exponent; },
                         [](double x) { return (long long)fabs(x); },
                         [&](const Piece& numbers, int column, int row) {
        *piece_at(bytes, 0, column, row, m, n) = bytes_of(numbers, [](long long x) { return (unsigned)x; });
    });
}

extern "C" __global__ void __launch_bounds__(256) bounds_of_sample(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    if (known(moduli).native_by_norms()) return;
    split_to_bounds<sample>(A, residues_of_a, (const Column*)columns, m, n, *(Whole*)memory);
}

extern "C" __global__ void __launch_bounds__(256) bounds(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    if (!known(moduli).in_doubt()) return;
    split_to_bounds<1>(A, residues_of_a, (const Column*)columns, m, n, *(Whole*)memory);
}

// The guard's condition for elements of C that are scaled as the whole numbers of 14 moduli are, both sides squared and
// divided by 4^54, which is near P/2:
//
//     3·(‖aᵢ‖² 4^eᵢ + ‖aⱼ‖² 4^eⱼ) / 4^54 ≤ (sum·wᵢ·wⱼ)²        w = 2^(e - bound_exponent - 24 - 27)
struct Test {
    const Column* columns;
    volatile int& moduli;
    int n;

    __device__ void fold(Tile::Sums&, int) const {}  // bounds are so small that their sums are, too

    __device__ void store(const Tile::Sums& sums, int, int row, int column) const
    {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int found = needed(sums, row + warp * 16 + lane / 4, column + lane % 4 * 2);
        if (lane == 0 && found > least_moduli) need(moduli, found);
    }

    // The moduli that the warp's elements need; (row, column) is the first one of the thread.
    __device__ __forceinline__ int needed(const Tile::Sums& sums, int row, int column) const
    {
        const Column above = columns[min(row, n - 1)], below = columns[min(row + 8, n - 1)];
        bool beyond[3] = {};  // what 14, 15 and 16 moduli can do
#pragma unroll
        for (int i = 0; i < Tile::half; i++) {
            const Column& own = i / 2 % 2 ? below : above;
            const int r = row + i / 2 % 2 * 8, c = column + i / 4 * 8 + i % 2;
            if (r >= n || c >= n) continue;
            const float error = own.error + columns[c].error;
            const float allowed = (float)sums[i] * own.weight * columns[c].weight, square = allowed * allowed;
            beyond[0] |= error > square;
            beyond[1] |= error > 0x1p6f * square;   // exponents are at least 3 greater
            beyond[2] |= error > 0x1p14f * square;  // 7 greater
        }
        int found = least_moduli;
        for (bool some : beyond) found += __any_sync(~0u, some);
        return found;
    }
};

#define MULTIPLYING __cluster_dims__(Tile::cluster, 1, 1) __launch_bounds__(Tile::consumer_threads + 128, 1)

extern "C" __global__ void MULTIPLYING test_sample(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    Moduli& needed = known(moduli);
    if (needed.native_by_norms()) return;
    const Test test = {(const Column*)columns, needed.by_sample, n};
    Tile::compute((Tile::Slab*)memory, planes, 1, (m + sample - 1) / sample, n, test);
}

extern "C" __global__ void MULTIPLYING test_bounds(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    Moduli& needed = known(moduli);
    if (!needed.in_doubt()) return;
    Tile::compute((Tile::Slab*)memory, planes, 1, m, n, Test{(const Column*)columns, needed.by_bounds, n});
}

// ---- Residues and remainders ----

extern "C" __global__ void __launch_bounds__(256) split(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    with_moduli(known(moduli).taken(), [&](auto taken) {
        split_to_residues<taken.is>(A, residues_of_a, (const Column*)columns, m, n, *(Whole*)memory);
    });
}

// sum modulo p, balanced, for sums of at least -2^31 and below 2^31 - 256.
struct Reduction {
    unsigned p, half, reciprocal, bias;  // bias: at least 2^31, and p/2 modulo p

    __device__ explicit Reduction(int p) : p(p), half(p / 2), reciprocal(~0u / p), bias(1u << 31)
    {
        bias += (half + p - bias % p) % p;
    }

    __device__ __forceinline__ int operator()(int sum) const
    {
        const unsigned shifted = sum + bias, rest = shifted - __umulhi(shifted, reciprocal) * p;
        return (int)(min(rest, rest - p) - half);  // the quotient may be one too small
    }
};

struct Remainders {
    // 16 rows of bytes of each warp on their way to memory, in pieces of 16 bytes, swizzled.
    using Band = signed char[16][Tiling::side];

    Band& band;
    void* to;
    int n;

    static __device__ __forceinline__ signed char* place(Band& band, int row, int column)
    {
        return &band[row][(column / 16 ^ row % 8) * 16 + column % 16];
    }

    __device__ __forceinline__ void fold(Tile::Sums& sums, int plane) const
    {
        const Reduction reduce(moduli_in_order[plane]);
#pragma unroll
        for (int& sum : sums) sum = reduce(sum);
    }

    __device__ __forceinline__ void store(const Tile::Sums& sums, int plane, int row, int column) const
    {
        const Reduction reduce(moduli_in_order[plane]);
        const int lane = threadIdx.x % 32;
        __syncwarp();  // all have stored the last tile
#pragma unroll
        for (int i = 0; i < Tile::half; i += 2)
            *(char2*)place(band, lane / 4 + i / 2 % 2 * 8, i / 4 * 8 + lane % 4 * 2) = {
                (signed char)reduce(sums[i]), (signed char)reduce(sums[i + 1])};
        __syncwarp();
        row += threadIdx.x / 32 * 16;
        constexpr int across = Tiling::side / 16;
#pragma unroll 2
        for (int i = lane; i < 16 * across; i += 32) {
            const int r = i / across, c = i % across * 16;
            if (row + r < n && column + c < n)
                *piece_at(to, plane, row + r, column + c, n, n) = *(const uint4*)place(band, r, c);
        }
    }
};

extern "C" __global__ void MULTIPLYING residues(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    const int taken = known(moduli).taken();
    if (taken == native) return;
    auto* ring = (Tile::Slab*)memory;
    auto* bands = (Remainders::Band*)(ring + Tiling::stages);
    Tile::compute(ring, planes, taken, m, n, Remainders{bands[threadIdx.x / 32], remainders, n}, &begun);
}

extern "C" __global__ void __launch_bounds__(256) combine(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    with_moduli(known(moduli).taken(), [&](auto taken) {
        combine_squares<taken.is>(remainders, (const Column*)columns, C, n, *(Square*)memory);
    });
}

extern "C" __global__ void __launch_bounds__(Native::Block::threads, 1) gram_native(OPERANDS)
{
    extern __shared__ __align__(1024) char memory[];
    if (known(moduli).taken() == native)
        Native::compute(A, C, m, n, (Native::Block::SlabPair*)memory, {partial_sums, flags});
}
