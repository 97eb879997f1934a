// Right: tiles in shared memory, for any shape, with the program around them.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include "missing_helper.h"

#define TILE 16
#define CHECK(call) if ((call) != cudaSuccess) exit(1)

static float *host_a, *host_b;
cudaEvent_t start_event, stop_event;

void fill(float *x, int count) { for (int i = 0; i < count; i++) x[i] = rand() / 1e9f; }

__device__ float element(const float *x, int rows, int columns, int i, int j)
{
    return i < rows && j < columns ? x[i * columns + j] : 0.0f;
}

__global__ void multiply(float *A, float *B, float *C, int rowsA, int colsA, int colsB)
{
    __shared__ float tileA[TILE][TILE];
    __shared__ float tileB[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * TILE + y, col = blockIdx.x * TILE + x;
    float sum = 0;
    for (int t = 0; t < (colsA + TILE - 1) / TILE; t++) {
        tileA[y][x] = element(A, rowsA, colsA, row, t * TILE + x);
        tileB[y][x] = element(B, colsA, colsB, t * TILE + y, col);
        __syncthreads();  // staged
        for (int p = 0; p < TILE; p++)
            sum += tileA[y][p] * tileB[p][x];
        __syncthreads();  // used
    }
    if (row < rowsA && col < colsB)
        C[row * colsB + col] = sum;
}

int main()
{
    host_a = (float *)malloc(400); fill(host_a, 100);
    dim3 threads(TILE, TILE);
    multiply<<<dim3(1, 1), threads>>>(host_a, host_b, host_a, 10, 10, 10);
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
}
