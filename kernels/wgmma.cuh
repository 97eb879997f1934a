// Products of a warpgroup on tensor cores (wgmma), on compute capability 9.0a. Four warps multiply 64×16
// elements of A by 16×N of B, bfloat16 or half, and add to 64×N float32 sums in their registers. B comes from
// shared memory, A from there or from registers.
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
// Operands    lie in shared memory in rows of 128 bytes, 64 elements, swizzled as by TMA (tile_copy.cuh). Eight
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
//             16 steps of k further, A is 32 bytes further in its rows, and B two patterns further down.
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

// Where an operand lies, as the tensor cores take it. stride: bytes from one eight rows to the next.
// leading: bytes from 64 columns of B to the next 64; A has none.
__device__ __forceinline__ unsigned long long operand(const void* shared, int stride, int leading = 16)
{
#ifdef __CUDACC__
    const unsigned address = (unsigned)__cvta_generic_to_shared(shared);
#else
    const unsigned address = (unsigned)cuda_on_cpu::shared_address(shared, 1);
#endif
    constexpr unsigned long long swizzle_128_bytes = 1;
    return (address >> 4 & 0x3FFF) | (unsigned long long)(leading >> 4) << 16 |
           (unsigned long long)(stride >> 4) << 32 | swizzle_128_bytes << 62;
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
#define TEN(tens) "%" tens "0, %" tens "1, %" tens "2, %" tens "3, %" tens "4, " \
                  "%" tens "5, %" tens "6, %" tens "7, %" tens "8, %" tens "9, "
#define SIXTY TEN("") TEN("1") TEN("2") TEN("3") TEN("4") TEN("5")
#define TEXT_32 TEN("") TEN("1") TEN("2") "%30, %31"
#define TEXT_64 SIXTY "%60, %61, %62, %63"
#define TEXT_96 SIXTY TEN("6") TEN("7") TEN("8") "%90, %91, %92, %93, %94, %95"
#define TEXT_128 SIXTY TEN("6") TEN("7") TEN("8") TEN("9") TEN("10") TEN("11") \
                 "%120, %121, %122, %123, %124, %125, %126, %127"
#define SUMS_4(i) "+f"(sums[i]), "+f"(sums[i + 1]), "+f"(sums[i + 2]), "+f"(sums[i + 3])
#define SUMS_16(i) SUMS_4(i), SUMS_4(i + 4), SUMS_4(i + 8), SUMS_4(i + 12)
#define SUMS_32 SUMS_16(0), SUMS_16(16)
#define SUMS_64 SUMS_32, SUMS_16(32), SUMS_16(48)
#define SUMS_96 SUMS_64, SUMS_16(64), SUMS_16(80)
#define SUMS_128 SUMS_96, SUMS_16(96), SUMS_16(112)

// An instruction for N columns, so N / 2 sums. The numbers behind these are those of the further operands, in
// the order of their use: add, A, B, transposed_b.
#define PRODUCT(n, sums, type, add_, a_, b_, transposed_) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_ ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" TEXT_##sums "}, " \
                 "%" a_ ", %" b_ ", add, 1, 1, 0, %" transposed_ ";\n}" \
                 : SUMS_##sums : "r"((int)add), "l"(a), "l"(b), "n"((int)transposed_b))
#define PRODUCT_OF_REGISTERS(n, sums, type, add_, a0, a1, a2, a3, b_, transposed_) \
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %" add_ ", 0;\n" \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " {" TEXT_##sums "}, " \
                 "{%" a0 ", %" a1 ", %" a2 ", %" a3 "}, %" b_ ", add, 1, 1, %" transposed_ ";\n}" \
                 : SUMS_##sums : "r"((int)add), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), \
                                 "n"((int)transposed_b))
#define PRODUCTS(type) \
    if constexpr (columns == 64) PRODUCT("64", 32, type, "32", "33", "34", "35"); \
    if constexpr (columns == 128) PRODUCT("128", 64, type, "64", "65", "66", "67"); \
    if constexpr (columns == 192) PRODUCT("192", 96, type, "96", "97", "98", "99"); \
    if constexpr (columns == 256) PRODUCT("256", 128, type, "128", "129", "130", "131")
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
    static_assert(columns == 64 || columns == 128 || columns == 192 || columns == 256, "as written here");
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
    product.half = std::is_same_v<Number, __half>;
    product.transposed_b = transposed_b;
    product.descriptor_b = b;
    return product;
}
#endif

// sums += A·B, or sums = A·B without `add`. transposed_b: rows of B run along n, as it lies in memory.
template <class Number, bool transposed_b, int count>
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
    cuda_on_cpu::issue_product(product);
#endif
}

// The same with A in registers, in each warp 16×16 elements as mma.cuh describes them.
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
