// Columns of A as residues, and elements of C from remainders: what residues.cu does before and after its products.
//
//     Moduli        which there are, and how many are taken
//     Columns       their norms, and by which powers of two they become whole numbers
//     Splitting     whole numbers as bytes: residues, or bounds
//     Combining     elements of C
#pragma once

#include "../instructions.cuh"
#include "remainders.cuh"

// ---- Moduli ----

constexpr int least_moduli = 14, native = 17;  // native: 16 are not enough

__constant__ constexpr int moduli_in_order[] = {256, 255, 253, 251, 247, 241, 239, 233,
                                               229, 227, 223, 217, 211, 199, 197, 193};

template <int i>
struct Number {
    static constexpr int is = i;
};

// Call use(Number<i>()) for i from 0 to count - 1: each modulus has code of its own.
template <int count, int i = 0, class Use>
__device__ __forceinline__ void for_each_number(Use use)
{
    if constexpr (i < count) {
        use(Number<i>());
        for_each_number<count, i + 1>(use);
    }
}

// Call use(Number<moduli>()) for the number of moduli that is taken.
template <class Use>
__device__ __forceinline__ void with_moduli(int moduli, Use use)
{
    if (moduli == 14) use(Number<14>());
    if (moduli == 15) use(Number<15>());
    if (moduli == 16) use(Number<16>());
}

// How many moduli are needed, as the norms of columns say, bounds of a sample of rows, and of all: each launch
// changes a word that no other block of it reads. Volatile, because the multiprocessor's cache may have words that the
// launch before has read, and changed.
struct Moduli {
    volatile int by_norms, by_sample, by_bounds;

    __device__ bool native_by_norms() const { return by_norms == native; }

    __device__ bool in_doubt() const { return !native_by_norms() && by_sample > least_moduli; }

    __device__ int taken() const { return native_by_norms() ? native : in_doubt() ? by_bounds : least_moduli; }
};

__device__ __forceinline__ void need(volatile int& moduli, int count) { atomicMax((int*)&moduli, count); }

// ---- Columns ----
//
// A column is multiplied by 2^exponent and rounded to whole numbers: the larger they are, the less is lost.
// But no sum of products may reach P/2, or its remainders would be those of another sum. By Cauchy and Schwarz a
// sum is at most the product of two norms. So each norm is scaled to at most √limit, and to more than half of that.
//
//     exponent = ⌊½ log2(limit / Σa²)⌋

constexpr int strip_columns = 64, strip_rows = 256;  // of A, of which a block adds squares

// Σa² beyond which powers of two, or C, might leave float64's range.
constexpr double least_square = 1e-250, most_square = 1e250;

struct Column {
    double square;  // Σa²
    // For the guard (residues.cu): the exponent of its bounds; what it adds to the left of the guard's condition, and
    // by what it multiplies the right.
    int bound_exponent;
    float error, weight;
};

__device__ __forceinline__ double power_of_two(int exponent)
{
    return __longlong_as_double((long long)(exponent + 1023) << 52);
}

template <int moduli>
__device__ __forceinline__ int exponent_of(const Column& column)
{
    return ilogb(Remainder<moduli>::limit / column.square) >> 1;
}

__device__ __forceinline__ int round_up(int number, int unit) { return (number + unit - 1) / unit * unit; }

// The sum of squares (x) and the largest absolute value (y) of part of a column.
__device__ __forceinline__ double2 both(double2 a, double2 b) { return {a.x + b.x, fmax(a.y, b.y)}; }

// Add up what the block's threads have of `width` columns; the first `width` threads get the result.
template <int width, int rows>
__device__ __forceinline__ double2 over_block(double2 own)
{
    __shared__ double2 parts[rows][width];
    parts[threadIdx.x / width][threadIdx.x % width] = own;
    __syncthreads();
    if (threadIdx.x < width)
        for (int row = 1; row < rows; row++) own = both(own, parts[row][threadIdx.x]);
    return own;
}

// The part of a strip's columns that lies in the block's rows of A.
__device__ __forceinline__ void add_squares(const double* A, double2* parts, int m, int n)
{
    constexpr int rows = 4;  // of threads
    const int strips = (n + strip_columns - 1) / strip_columns, part = blockIdx.x / strips;
    const int column = blockIdx.x % strips * strip_columns + threadIdx.x % strip_columns;
    const int end = min(m, (part + 1) * strip_rows);
    double2 own = {0, 0};
#pragma unroll 8
    for (int row = part * strip_rows + threadIdx.x / strip_columns; row < end; row += rows) {
        const double x = column < n ? A[(size_t)row * n + column] : 0;
        own = both(own, {x * x, fabs(x)});
    }
    own = over_block<strip_columns, rows>(own);
    if (threadIdx.x < strip_columns && column < n) parts[(size_t)part * n + column] = own;
}

// The least shift with which m products of two bounds of 127 >> shift add up to less than 2^31.
__device__ __forceinline__ int bound_shift(int m)
{
    int shift = 0;
    while (m > 131072LL << 2 * shift) shift++;
    return shift;
}

// All of a column from its parts.
__device__ __forceinline__ void finish_columns(const double2* parts, Column* columns, Moduli& moduli, int m, int n)
{
    constexpr int width = 32, rows = 8;
    const int index = blockIdx.x * width + threadIdx.x % width, count = (m + strip_rows - 1) / strip_rows;
    double2 own = {0, 0};
    for (int part = threadIdx.x / width; part < count; part += rows)
        if (index < n) own = both(own, parts[(size_t)part * n + index]);
    own = over_block<width, rows>(own);
    if (threadIdx.x >= width || index >= n) return;
    if (!(least_square <= own.x && own.x <= most_square)) {  // zero, too small, too large, infinite, NaN
        need(moduli.by_norms, native);
        own = {1, 1};
    }
    Column column = {own.x};
    const int exponent = exponent_of<least_moduli>(column);
    column.bound_exponent = 6 - bound_shift(m) - ilogb(own.y);
    column.error = (float)(3 * own.x * power_of_two(2 * exponent - 108));
    column.weight = (float)power_of_two(exponent - column.bound_exponent - 51);
    columns[index] = column;
}

// ---- Splitting ----
//
// A block turns panels of 256 rows and 16 columns: it reads them along rows of A, and writes bytes along columns.
//
//     A, rows of 128 bytes          shared memory                        bytes, 256 of a column
//     row 0   a b c d ...           a: row 0 to 15, a gap, 16 to 31 ..   a: piece of 16, piece, ...
//     row 1   a b c d ...    ──►    b: ...                        ──►    b: ...
//
// A thread takes a piece: 16 whole numbers of a column, of which it makes 16 bytes for each modulus. A column of bytes
// begins at a line of the caches, so that nobody stores a part of a sector, or loads two lines for 128 bytes.

constexpr int panel_columns = 16, panel_rows = 256, piece_rows = 16, pieces = panel_rows / piece_rows;
constexpr int slab_rows = 128;  // of a slab of the products, and the bytes of a line
constexpr int column_pitch = pieces * (piece_rows + 1) + 1;  // gaps keep lanes in different banks, both ways

using Piece = long long[piece_rows];

using Whole = long long[panel_columns][column_pitch];  // of a panel, in shared memory

// Of every so-manieth row of A. exponent(column): by which power of two the column is multiplied. convert(x): the
// whole number for an element then. store(piece, column, row): write a piece that begins there, row counting those
// that are taken. What is missing of a slab is zeros.
template <int every, class Exponent, class Convert, class Store>
__device__ __forceinline__ void split_columns(const double* A, const Column* columns, int m, int n, Whole& whole,
                                              Exponent exponent, Convert convert, Store store)
{
    const int rows = (m + every - 1) / every, across = (n + panel_columns - 1) / panel_columns;
    const int panels = across * ((rows + panel_rows - 1) / panel_rows), thread = threadIdx.x;
    for (int panel = blockIdx.x; panel < panels; panel += gridDim.x) {
        const int left = panel % across * panel_columns, top = panel / across * panel_rows;
        const int own = thread % panel_columns, column = left + own;
        const double scale = power_of_two(exponent(columns[min(column, n - 1)]));
        __syncthreads();  // the last panel has been read
#pragma unroll 4
        for (int i = 0; i < panel_rows; i += 16) {
            const int row = top + i + thread / 16;
            const bool inside = row < rows && column < n;
            whole[own][i / 16 * 17 + thread / 16] = inside ? convert(A[(size_t)row * every * n + column] * scale) : 0;
        }
        __syncthreads();
        const int to = left + thread / pieces, row = top + thread % pieces * piece_rows;
        if (to < n && row < round_up(rows, slab_rows)) {
            Piece numbers;
#pragma unroll
            for (int i = 0; i < piece_rows; i++) numbers[i] = whole[thread / pieces][thread % pieces * 17 + i];
            store(numbers, to, row);
        }
    }
}

// The lowest bytes of four words.
__device__ __forceinline__ unsigned low_bytes(unsigned a, unsigned b, unsigned c, unsigned d)
{
    return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// The lowest bytes of byte_of(x) for the numbers x of a piece.
template <class ByteOf>
__device__ __forceinline__ uint4 bytes_of(const Piece& numbers, ByteOf byte_of)
{
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = low_bytes(byte_of(numbers[4 * i]), byte_of(numbers[4 * i + 1]), byte_of(numbers[4 * i + 2]),
                             byte_of(numbers[4 * i + 3]));
    return {words[0], words[1], words[2], words[3]};
}

// What is congruent to x modulo p, from -p/2 on and below p/2.
__host__ __device__ constexpr int balanced(long long x, int p)
{
    const int residue = (int)((x % p + p) % p);
    return residue >= (p + 1) / 2 ? residue - p : residue;
}

// 256^t modulo p for t = first to first + 3, as the bytes of a word.
__host__ __device__ constexpr unsigned weights_of_bytes(int first, int p)
{
    unsigned word = 0;
    long long power = 1;
    for (int t = 0; t < first + 4; t++, power = power * 256 % p)
        if (t >= first) word |= (unsigned)(unsigned char)balanced(power, p) << 8 * (t - first);
    return word;
}

// The residue of a number x, as the lowest byte, from the bits of x + 2^63. Its eight bytes times 256^t modulo p
// add up to a number of at most 19 bits that has the same residue. In the low bits of a float of 1.5·2^23 that is
// divided by p and rounded.
template <int i>
__device__ __forceinline__ unsigned residue(unsigned long long shifted)
{
    constexpr int p = moduli_in_order[i], offset = balanced(-(1LL << 62) % p * 2, p), one_and_a_half = 0x4B400000;
    constexpr unsigned low = weights_of_bytes(0, p), high = weights_of_bytes(4, p);
    constexpr float middle = 12582912, inverse = 1.0f / p;  // the float of these bits
    int sum = add_products_of_bytes((unsigned)(shifted >> 32), high, one_and_a_half + offset);
    sum = add_products_of_bytes((unsigned)shifted, low, sum);
    const float quotient = __fmaf_rn(__int_as_float(sum) - middle, inverse, middle);
    return (unsigned)sum - (unsigned)p * (unsigned)__float_as_int(quotient);
}

// The pieces of a column at a modulus, in bytes.
__device__ __forceinline__ uint4* piece_at(void* bytes, int i, int column, int row, int m, int n)
{
    return (uint4*)((char*)bytes + ((size_t)i * n + column) * round_up(m, slab_rows) + row);
}

// Residues of A for so many moduli.
template <int moduli>
__device__ __forceinline__ void split_to_residues(const double* A, void* residues, const Column* columns, int m,
                                                  int n, Whole& whole)
{
    split_columns<1>(A, columns, m, n, whole, exponent_of<moduli>, [](double x) { return __double2ll_rn(x); },
                     [&](const Piece& numbers, int column, int row) {
        for_each_number<moduli>([&](auto i) {
            *piece_at(residues, i.is, column, row, m, n) =
                bytes_of(numbers, [](long long x) { return residue<decltype(i)::is>(x ^ 1LL << 63); });
        });
    });
}

// ---- Combining ----
//
// A block computes squares of 64×64 elements of C's lower triangle, and stores them there and in the upper one. Blocks
// that run at the same time take neighbours in a row: so the planes are read along their rows. Of the triangle's rows
// of squares the longest is followed by the shortest, the next one by the second shortest: all pairs have one length.

constexpr int square_side = 64;

struct Square {
    double c[square_side][square_side + 1];
    int row_exponents[square_side], column_exponents[square_side];
};

__device__ __forceinline__ double byte_of_word(unsigned word, int i) { return (double)(signed char)(word >> 8 * i); }

// The whole numbers below P/2 that have these remainders, for four neighbours of which each modulus has a word.
// (Σ weight·remainder) mod P: the sum of high parts is exact, and so is what is left of it after whole P.
template <int moduli>
__device__ __forceinline__ void combine(double (&c)[4], const unsigned (&words)[moduli])
{
    using Numbers = Remainder<moduli>;
    double high[4] = {}, low[4] = {};
    for_each_number<moduli>([&](auto i) {
        constexpr double high_weight = Numbers::high[i.is], low_weight = Numbers::low[i.is];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const double remainder = byte_of_word(words[i.is], j);
            high[j] = fma(high_weight, remainder, high[j]);
            low[j] = fma(low_weight, remainder, low[j]);
        }
    });
#pragma unroll
    for (int j = 0; j < 4; j++) {
        const double times = rint(high[j] * Numbers::inverse);
        c[j] = fma(-Numbers::product_low, times, fma(-Numbers::product_high, times, high[j]) + low[j]);
    }
}

// Store a square that begins at (top, left), and its mirror image.
__device__ __forceinline__ void store_both(const Square& square, double* C, int n, int top, int left)
{
    const int column = threadIdx.x % square_side;
#pragma unroll 4
    for (int row = threadIdx.x / square_side; row < square_side; row += blockDim.x / square_side) {
        if (top + row < n && left + column < n) C[(size_t)(top + row) * n + left + column] = square.c[row][column];
        if (top != left && left + row < n && top + column < n)
            C[(size_t)(left + row) * n + top + column] = square.c[column][row];
    }
}

// Compute a square that begins at (top, left).
template <int moduli>
__device__ __forceinline__ void combine_square(Square& square, const void* remainders, const Column* columns, int n,
                                               int top, int left)
{
    const int pitch = round_up(n, slab_rows), column = threadIdx.x % 16 * 4;
    if (threadIdx.x < square_side) {
        square.row_exponents[threadIdx.x] = exponent_of<moduli>(columns[min(top + (int)threadIdx.x, n - 1)]);
        square.column_exponents[threadIdx.x] = exponent_of<moduli>(columns[min(left + (int)threadIdx.x, n - 1)]);
    }
    __syncthreads();
    for (int row = threadIdx.x / 16; row < square_side; row += blockDim.x / 16) {
        if (top + row >= n || left + column >= n) continue;
        const char* from = (const char*)remainders + (size_t)(top + row) * pitch + left + column;
        unsigned words[moduli];
#pragma unroll
        for (int i = 0; i < moduli; i++) words[i] = *(const unsigned*)(from + (size_t)i * n * pitch);
        double c[4];
        combine<moduli>(c, words);
#pragma unroll
        for (int j = 0; j < 4; j++)
            square.c[row][column + j] =
                c[j] * power_of_two(-square.row_exponents[row] - square.column_exponents[column + j]);
    }
    __syncthreads();
}

template <int moduli>
__device__ __forceinline__ void combine_squares(const void* remainders, const Column* columns, double* C, int n,
                                                Square& square)
{
    const int side = (n + square_side - 1) / square_side, squares = side * (side + 1) / 2;
    for (int index = blockIdx.x; index < squares; index += gridDim.x) {
        const int pair = index / (side + 1), within = index % (side + 1), length = side - pair;  // of the longer row
        const int top = (within < length ? length - 1 : pair) * square_side;
        const int left = (within < length ? within : within - length) * square_side;
        combine_square<moduli>(square, remainders, columns, n, top, left);
        store_both(square, C, n, top, left);
        __syncthreads();  // it has been read
    }
}
