// C = A·B for an A of few rows: B is read once, at the rate of the memory.
//
// Idea        With one row of A there are two operations for each element of B, four bytes: neither
//             a tile nor shared memory raises that. What counts is that enough of B is under way at
//             any time. A block takes a strip of TILE_N columns and all of k. Its threads form groups;
//             a thread has four columns of the strip. The groups share out the rows of B, and each
//             thread issues AHEAD loads of 16 bytes before it uses the first.
//
//                        TILE_N columns                    group 0 takes rows 0, G, 2G ...
//                      ┌────┬────┬────┐                    group 1 takes rows 1, G+1 ...
//               A      │████│████│████│ B, by group 0
//             ┌─────┐  ├────┼────┼────┤                    the groups' sums are added in halves:
//             └─────┘  │░░░░│░░░░│░░░░│    by group 1      0+4, 1+5, 2+6, 3+7; 0+2, 1+3; 0+1
//                      ├────┼────┼────┤
//                      │    │    │    │    ...
//                      └────┴────┴────┘
//
//             A is small: all threads of a group need the same element of each of its TILE_M rows.
//
// Traffic     Global memory: B once, A once per strip (from the L1 mostly).
// Removes     The way through shared memory, and its ring.
// Limit       The memory's bandwidth.
#include "fours.cuh"

struct Tiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int threads = THREADS;                 // of a block
    static constexpr int ahead = AHEAD;                     // loads of a thread that are under way
    static constexpr int fours = tile_n / 4;                // threads of a group: four columns each
    static constexpr int groups = threads / fours;          // of threads that share out the rows of B
};

using T = Tiling;

static_assert(T::tile_n % 4 == 0 && T::threads % T::fours == 0, "threads cover a strip's rows");
static_assert((T::groups & (T::groups - 1)) == 0, "groups are added in halves");

using BlockSums = float[T::groups][T::fours][T::tile_m][4];

// Load four elements of B, as load_four does, but past the L1: each is used once.
template <bool vectors>
__device__ __forceinline__ float4 load_four_once(const float* from, int inside)
{
#ifdef __CUDA_ARCH__
    if (vectors) {
        float4 b = {0, 0, 0, 0};
        if (inside > 0)
            asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(b.x), "=f"(b.y), "=f"(b.z), "=f"(b.w) : "l"(from));
        return b;
    }
#endif
    return load_four<vectors>(from, inside);
}

template <bool vectors>
__device__ __forceinline__ void strip(const float* __restrict__ A, const float* __restrict__ B,
                                      float* __restrict__ C, int m, int n, int k, BlockSums& sums)
{
    const int four = threadIdx.x % T::fours, group = threadIdx.x / T::fours;
    const int col = blockIdx.x * T::tile_n + four * 4;

    float sum[T::tile_m][4] = {};
    auto load = [&](float4(&b)[T::ahead], int start) {
#pragma unroll
        for (int u = 0; u < T::ahead; u++) {
            const int p = start + u * T::groups;
            b[u] = load_four_once<vectors>(B + (size_t)p * n + col, p < k ? n - col : 0);
        }
    };
    auto add = [&](const float4(&b)[T::ahead], int start) {
#pragma unroll
        for (int u = 0; u < T::ahead; u++)
#pragma unroll
            for (int i = 0; i < T::tile_m; i++) {
                const int p = start + u * T::groups;
                const float a = p < k && i < m ? A[(size_t)i * k + p] : 0;
                sum[i][0] += a * b[u].x, sum[i][1] += a * b[u].y;
                sum[i][2] += a * b[u].z, sum[i][3] += a * b[u].w;
            }
    };
    constexpr int stride = T::groups * T::ahead;
    float4 even[T::ahead], odd[T::ahead];  // one is under way while the other is used
    load(even, group);
    for (int start = group; start < k; start += 2 * stride) {
        load(odd, start + stride);
        add(even, start);
        load(even, start + 2 * stride);
        add(odd, start + stride);
    }

    float* thread_sums = &sums[group][four][0][0];
    for (int e = 0; e < T::tile_m * 4; e++) thread_sums[e] = sum[e / 4][e % 4];
    for (int half = T::groups / 2; half > 0; half /= 2) {
        __syncthreads();
        if (group < half)
            for (int e = 0; e < T::tile_m * 4; e++) thread_sums[e] += (&sums[group + half][four][0][0])[e];
    }
    if (group > 0) return;
    for (int i = 0; i < T::tile_m && i < m; i++)
        store_four<vectors>(C + (size_t)i * n + col, *(float4*)sums[0][four][i], n - col);
}

extern "C" __global__ void __launch_bounds__(T::threads)
thin(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C,
     int m, int n, int k)
{
    __shared__ __align__(16) BlockSums sums;
    if (rows_hold_fours(B, C, n))
        strip<true>(A, B, C, m, n, k, sums);
    else
        strip<false>(A, B, C, m, n, k, sums);
}
