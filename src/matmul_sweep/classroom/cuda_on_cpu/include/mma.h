// nvcuda::wmma on the CPU: matrices that the lanes of a warp hold together.
//
// CUDA leaves open which lane has which element. Here a fragment has its elements in row-major order, as
// many in each lane as a GPU's have; where that is more than there are, further lanes hold the same again.
#pragma once

#include "warp_matrices.h"

namespace nvcuda::wmma {

#define CALLER size_t line = __builtin_LINE()

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

namespace precision {
struct tf32;  // a float of which the lower 13 bits do not count
}

template <typename Number>
struct Stored { using type = Number; };
template <>
struct Stored<precision::tf32> { using type = float; };

// Of a product of m×n matrices with k terms.
template <typename Use, int m, int n, int k, typename Number, typename Layout = void>
struct fragment {
    static constexpr bool sums = std::is_same_v<Use, accumulator>, left = std::is_same_v<Use, matrix_a>;
    static constexpr int rows = std::is_same_v<Use, matrix_b> ? k : m, columns = left ? k : n;
    static constexpr bool halves = std::is_same_v<Number, __half> && !sums;
    static_assert((m * n * k == 4096 && m >= 8 && n >= 8 && k == 16) || (m == 16 && n == 16 && k == 8) ||
                      (m == 8 && n == 8 && k == 4),
                  "a shape that wmma has not");

    using element_type = Number;
    using storage_element_type = typename Stored<Number>::type;
    static constexpr int num_elements = halves ? 16 : rows * columns / 32;
    storage_element_type x[num_elements];
};

inline float __float_to_tf32(float value)  // to nearest, ties away from zero
{
    return __builtin_bit_cast(float, (__builtin_bit_cast(uint32_t, value) + 0x1000u) & ~0x1FFFu);
}

// What a lane's element number i is of the matrix, row by row.
template <typename Fragment>
int element_of(const Fragment&, int lane, int i)
{
    return (lane * Fragment::num_elements + i) % (Fragment::rows * Fragment::columns);
}

// Calls `move` with each element of a lane and its place in memory; `by_columns`: how it lies there.
template <typename Fragment, typename Value, typename Move>
UNWATCHED void each_element(Fragment& own, Value* from, unsigned stride, bool by_columns, size_t line,
                            cuda_on_cpu::Place place, const Move& move)
{
    cuda_on_cpu::meet_whole_warp(nullptr, 0, line);
    const bool aligned = reinterpret_cast<uintptr_t>(from) % 16 == 0 && stride * sizeof(Value) % 16 == 0;
    if (!aligned) cuda_on_cpu::misaligned("wmma row", 16, place);
    const int lane = int(cuda_on_cpu::lane_number());
    for (int i = 0; i < Fragment::num_elements; ++i) {
        const int element = element_of(own, lane, i);
        const size_t row = element / Fragment::columns, column = element % Fragment::columns;
        move(own.x[i], from + (by_columns ? column * stride + row : row * stride + column));
    }
    cuda_on_cpu::meet_whole_warp(nullptr, 0, line);
}

template <typename Fragment, typename Value>
UNWATCHED void load(Fragment& to, const Value* from, unsigned stride, bool by_columns, size_t line)
{
    each_element(to, from, stride, by_columns, line, HERE, [place = HERE](auto& own, const Value* there) UNWATCHED {
        cuda_on_cpu::watch(there, sizeof *there, false, place);
        own = *there;
    });
}

template <typename Use, int m, int n, int k, typename Number, typename Layout, typename Value>
__forceinline__ void load_matrix_sync(fragment<Use, m, n, k, Number, Layout>& to, const Value* from, unsigned stride,
                                      CALLER)
{
    load(to, from, stride, std::is_same_v<Layout, col_major>, line);
}

template <int m, int n, int k, typename Number>
__forceinline__ void load_matrix_sync(fragment<accumulator, m, n, k, Number>& to, const Number* from, unsigned stride,
                                      layout_t layout, CALLER)
{
    load(to, from, stride, layout == mem_col_major, line);
}

template <int m, int n, int k, typename Number>
UNWATCHED void store(Number* to, const fragment<accumulator, m, n, k, Number>& from, unsigned stride, bool by_columns,
                     size_t line)
{
    each_element(from, to, stride, by_columns, line, HERE, [place = HERE](const Number& own, Number* there) UNWATCHED {
        cuda_on_cpu::watch(there, sizeof *there, true, place);
        *there = own;
    });
}

template <int m, int n, int k, typename Number>
__forceinline__ void store_matrix_sync(Number* to, const fragment<accumulator, m, n, k, Number>& from, unsigned stride,
                                       layout_t layout, CALLER)
{
    store(to, from, stride, layout == mem_col_major, line);
}

template <typename Use, int m, int n, int k, typename Number, typename Layout>
inline void fill_fragment(fragment<Use, m, n, k, Number, Layout>& filled,
                          const typename Stored<Number>::type& value)
{
    for (auto& each : filled.x) each = value;
}

// d = A·B + c
template <int m, int n, int k, typename Number, typename LayoutA, typename LayoutB, typename SumD, typename SumC>
UNWATCHED void mma_sync(fragment<accumulator, m, n, k, SumD>& d, const fragment<matrix_a, m, n, k, Number, LayoutA>& a,
                        const fragment<matrix_b, m, n, k, Number, LayoutB>& b,
                        const fragment<accumulator, m, n, k, SumC>& c, CALLER)
{
    using Sum = std::conditional_t<std::is_same_v<SumD, __half>, float, SumD>;
    struct Factors {
        decltype(a.x) of_a;
        decltype(b.x) of_b;
    } own;
    static_assert(sizeof own <= 64, "what lanes bring when they meet");
    __builtin_memcpy(own.of_a, a.x, sizeof a.x);
    __builtin_memcpy(own.of_b, b.x, sizeof b.x);
    const auto* lanes = cuda_on_cpu::meet_whole_warp(&own, sizeof own, line);
    const auto factor = [](auto value) UNWATCHED {
        if constexpr (std::is_same_v<Number, precision::tf32>)
            return __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, value) & ~0x1FFFu);
        else
            return Sum(value);
    };
    const int lane = int(cuda_on_cpu::lane_number());
    for (int i = 0; i < d.num_elements; ++i) {
        const int element = element_of(d, lane, i), row = element / n, column = element % n;
        Sum sum = Sum(c.x[i]);
        for (int p = 0; p < k; ++p) {
            const int in_a = row * k + p, in_b = p * n + column;
            sum += factor(reinterpret_cast<const Factors*>(lanes[in_a / a.num_elements])->of_a[in_a % a.num_elements]) *
                   factor(reinterpret_cast<const Factors*>(lanes[in_b / b.num_elements])->of_b[in_b % b.num_elements]);
        }
        d.x[i] = SumD(sum);
    }
}

#undef CALLER

}  // namespace nvcuda::wmma
