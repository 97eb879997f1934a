#include "patches.cuh"
extern "C" __global__ void f(const double* A, double* C, int m, int n)
{
    for (int tile = 0; tile < m * (m + 1) / 2; tile++) {
        const int2 at = place_in_triangle<4>(tile, m);
        C[tile] = at.x * 100 + at.y;
    }
}
