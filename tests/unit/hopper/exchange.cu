// C = A·B in bfloat16 by clusters of two blocks. Each block has a tile of 64×64 of the same rows. Its producer
// loads half of the rows of A for both, and its own columns of B. Its consumers are a warpgroup that takes A
// through registers and stores its tile by TMA.
#include "../../../kernels/instructions.cuh"

using Tile = __nv_bfloat16[64][64];

struct Stage {
    Tile a, b;
};

constexpr int stages = 2;

struct Memory {
    Stage ring[stages];
    Tile out;
};

// Where a lane finds its row of the 16×16 elements at a warp's rows and 16·step.
__device__ __forceinline__ __nv_bfloat16* matrix_row(Tile& tile, int step)
{
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 16, piece = 2 * step + threadIdx.x % 32 / 16;
    return &tile[row][(piece ^ row % 8) * 8];
}

__device__ __forceinline__ unsigned pair(float first, float second)
{
    const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
    return *(const unsigned*)&both;
}

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1)
exchange(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C, int m, int n, int k,
         const __grid_constant__ CUtensorMap in_a, const __grid_constant__ CUtensorMap in_b,
         const __grid_constant__ CUtensorMap out)
{
    extern __shared__ __align__(1024) char dynamic[];
    __shared__ Mbarrier full[stages], empty[stages];
    Memory& memory = *(Memory*)dynamic;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64, slabs = (k + 63) / 64;
    const unsigned rank = rank_in_cluster();
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; i++) {
            init_mbarrier(full[i], 1);
            init_mbarrier(empty[i], 2);
        }
        publish_mbarriers();
    }
    sync_cluster();  // until the mbarriers of both are there
    if (threadIdx.x >= 128) {
        keep_registers<40>();
        if (threadIdx.x / 32 == 4 && elected())
            for (int slab = 0; slab < slabs; slab++) {
                const int stage = slab % stages;
                wait_for_phase(empty[stage], 1 - slab / stages % 2);
                expect_bytes(full[stage], sizeof(Stage));
                load_tile_to_blocks(memory.ring[stage].a[32 * rank], in_a, full[stage], row + 32 * rank, 64 * slab, 3);
                load_tile(memory.ring[stage].b, in_b, full[stage], 64 * slab, column);
            }
        __syncwarp();
    } else {
        take_registers<232>();
        float sums[32] = {};
        for (int slab = 0; slab < slabs; slab++) {
            const int stage = slab % stages;
            wait_for_phase(full[stage], slab / stages % 2);
            unsigned a[4][4];
            for (int step = 0; step < 4; step++) load_matrices<false>(a[step], matrix_row(memory.ring[stage].a, step));
            fence_products();
#pragma unroll
            for (int step = 0; step < 4; step++)
                multiply_registers<__nv_bfloat16, true>(sums, a[step], operand(memory.ring[stage].b[16 * step]), true);
            commit_products();
            wait_for_products<0>();
            sync_at_barrier(1, 128);  // until the stage is read
            if (threadIdx.x < 2) arrive_in_block(empty[stage], threadIdx.x);
        }
#pragma unroll
        for (int step = 0; step < 4; step++) {
            const float* of = &sums[8 * step];
            const unsigned fragments[4] = {pair(of[0], of[1]), pair(of[2], of[3]), pair(of[4], of[5]), pair(of[6], of[7])};
            store_matrices<false>(fragments, matrix_row(memory.out, step));
        }
        fence_async_proxy();
        sync_at_barrier(2, 128);  // until the tile is written
        if (threadIdx.x == 0) {
            store_tile(out, memory.out, row, column);
            commit_tile_stores();
            wait_until_tiles_are_read<0>();
        }
        __syncwarp();
    }
    sync_cluster();  // until nobody needs the other's memory
}
