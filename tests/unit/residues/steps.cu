#include "gram/residues_tile.cuh"
struct Tiling {
    static constexpr int side = 128, stages = 2, patch = 8, portion = 1, apart = 0, in_step = 1;
};
__device__ unsigned begun;
extern "C" __global__ void f(const double* A, double* C, int m, int n)
{
    for (ByteTile<Tiling>::Tiles tile(n, 1); tile.more(); tile.next()) {
        tile.keep_step(&begun);
        if (rank_in_cluster() == 0) C[tile.index] = begun;
    }
}
