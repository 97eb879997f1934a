// Products of a warp on tensor cores (mma.sync), and the loads of their operands from shared memory
// (ldmatrix); from compute capability 8.0 on, stores by stmatrix from 9.0 on.
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
#pragma once

#ifndef __CUDACC__
#include <asynchronous.h>
#endif

// Load 8×8 matrices of 16-bit elements, one for each register of `fragments`. Lane 8i + r gives the address of
// row r of matrix i, a multiple of 16 bytes.
template <bool transposed>
__device__ __forceinline__ void load_matrices(unsigned (&fragments)[4], const void* row,
                                              int line = __builtin_LINE())
{
#ifdef __CUDACC__
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
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

// Store them.
template <bool transposed>
__device__ __forceinline__ void store_matrices(const unsigned (&fragments)[4], void* row,
                                               int line = __builtin_LINE())
{
#ifdef __CUDACC__
    const unsigned address = (unsigned)__cvta_generic_to_shared(row);
    if constexpr (transposed)
        asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(address), "r"(fragments[0]), "r"(fragments[1]), "r"(fragments[2]),
                        "r"(fragments[3]) : "memory");
    else
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                     :: "r"(address), "r"(fragments[0]), "r"(fragments[1]), "r"(fragments[2]),
                        "r"(fragments[3]) : "memory");
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
