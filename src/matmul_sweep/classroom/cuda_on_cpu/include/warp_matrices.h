// Matrices that the lanes of a warp hold and multiply together, on the CPU: ldmatrix, stmatrix and
// mma.sync, by the PTX ISA 9.0.
#pragma once

#include "cuda_fp16.h"

namespace cuda_on_cpu {

// Brings a value to all 32 lanes, which instructions of a whole warp need.
UNWATCHED inline const char (*meet_whole_warp(const void* value, size_t bytes, size_t line))[64]
{
    if (thread_count - thread_number() / warp_threads * warp_threads < warp_threads)
        (Line() << "divergent warp in block " << blockIdx << ": thread " << threadIdx << " comes to line " << line
                << " in a warp of fewer than 32 threads").leave(Stuck);
    return meet_warp(value, bytes, line);
}

UNWATCHED inline float value_of(uint16_t bits, bool half)
{
    if (half) {
        __half value;
        value.bits = bits;
        return value;
    }
    __nv_bfloat16 value;
    value.bits = bits;
    return value;
}

// The first or second element that a lane has of matrix i of some 8×8 matrices, of which lane 8i + r gives
// row r in `rows`. Transposed, the lane's two elements lie below each other.
UNWATCHED inline uint16_t* element_of(const char (*rows)[64], int i, int half, bool transposed, Place place)
{
    const size_t lane = lane_number();
    const size_t along = lane % 4 * 2 + half, across = lane / 4;
    const size_t r = transposed ? along : across, c = transposed ? across : along;
    auto* row = *reinterpret_cast<uint16_t* const*>(rows[8 * i + r]);
    if (reinterpret_cast<uintptr_t>(row) % 16) misaligned("ldmatrix row", 16, place);
    return row + c;
}

UNWATCHED inline void load_matrices(uint32_t* fragments, int count, const void* row, bool transposed,
                                    size_t line, Place place = nullptr)
{
    if (!place) place = HERE;
    const auto* rows = meet_whole_warp(&row, sizeof row, line);
    for (int i = 0; i < count; ++i) {
        fragments[i] = 0;
        for (int half = 0; half < 2; ++half) {
            const uint16_t* element = element_of(rows, i, half, transposed, place);
            watch(element, sizeof *element, false, place);
            fragments[i] |= uint32_t(*element) << 16 * half;
        }
    }
}

UNWATCHED inline void store_matrices(const uint32_t* fragments, int count, void* row, bool transposed,
                                     size_t line, Place place = nullptr)
{
    if (!place) place = HERE;
    const auto* rows = meet_whole_warp(&row, sizeof row, line);
    for (int i = 0; i < count; ++i)
        for (int half = 0; half < 2; ++half) {
            uint16_t* element = element_of(rows, i, half, transposed, place);
            watch(element, sizeof *element, true, place);
            *element = uint16_t(fragments[i] >> 16 * half);
        }
}

// sums += A·B of a warp, A of rows×depth and B of depth×8. Lane 4g + t has rows g and g + 8. A word of A or B
// has `packed` neighbours along the depth, from packed·t on, in each 4·packed of it; `value` is that of one of
// them. The lane's sums are of columns 2t and 2t + 1.
template <typename Sum, typename Word, typename Value>
UNWATCHED void multiply_warp(Sum* sums, const Word* a, const Word* b, size_t rows, size_t depth,
                             size_t packed, const Value& value, size_t line)
{
    const size_t halves = rows / 8, of_b = depth / packed / 4, of_a = halves * of_b;
    Word own[64 / sizeof(Word)];
    for (size_t i = 0; i < of_a; ++i) own[i] = a[i];
    for (size_t i = 0; i < of_b; ++i) own[of_a + i] = b[i];
    const auto* lanes = meet_whole_warp(own, (of_a + of_b) * sizeof(Word), line);
    const size_t lane = lane_number();
    const auto element = [&](size_t other, size_t word, size_t k) UNWATCHED {
        return value(reinterpret_cast<const Word*>(lanes[other])[word], k % packed);
    };
    for (size_t i = 0; i < halves; ++i)
        for (size_t j = 0; j < 2; ++j)
            for (size_t k = 0; k < depth; ++k) {
                const size_t t = k / packed % 4, step = k / packed / 4;
                sums[2 * i + j] += element(lane / 4 * 4 + t, i + halves * step, k) *
                                   element((lane % 4 * 2 + j) * 4 + t, of_a + step, k);
            }
}

// The same of 16×16 and 16×8 half or bfloat16, with sums in float32.
UNWATCHED inline void multiply_warp(float* sums, const uint32_t* a, const uint32_t* b, bool half, size_t line)
{
    const auto value = [=](uint32_t word, size_t i) UNWATCHED { return value_of(uint16_t(word >> 16 * i), half); };
    multiply_warp(sums, a, b, 16, 16, 2, value, line);
}

}  // namespace cuda_on_cpu
