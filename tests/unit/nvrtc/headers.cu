// What the kernels take from nvcc's and gcc's headers.
#include <cuda.h>
#include <stdint.h>
#include <type_traits>
constexpr int twice(int x) { return 2 * x; }
extern "C" __global__ void mine(CUtensorMap map, float* x)
{
    static_assert(std::is_same_v<uint32_t, unsigned> && sizeof(map) == 128);
    static_assert(alignof(CUtensorMap) == 128, "as for nvcc");
    __shared__ float s[twice(16)];
    static_assert(std::is_same_v<decltype(__cvta_generic_to_shared(s)), size_t>);
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[31 - threadIdx.x] < INFINITY ? 1 : 0;
}
