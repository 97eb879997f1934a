// Right at multiples of 16 for a B that is stored by columns, as mma.sync has it.
#include <cuda_fp16.h>
__global__ void f(const half* A, const half* B, float* C, int m, int n, int k)
{
    int g = threadIdx.x / 4, t = threadIdx.x % 4, i = blockIdx.y * 16 + g, j = blockIdx.x * 8;
    float d[4] = {};
    for (int p = 2 * t; p < k; p += 16) {
        auto at = [=](const half* M, int row) { return *(unsigned*)&M[row * k + p]; };
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
            : "r"(at(A, i)), "r"(at(A, i + 8)), "r"(at(A + 8, i)), "r"(at(A + 8, i + 8)),
            "r"(at(B, j + g)), "r"(at(B + 8, j + g)));
    }
    for (int e = 0; e < 4; e++) C[(i + e / 2 * 8) * n + j + 2 * t + e % 2] = d[e];
}
