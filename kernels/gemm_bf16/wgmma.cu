// C = A·B in bfloat16 for any shape: the tensor cores of a multiprocessor read slabs from shared memory.
//
// Words       As in tiled.cu, and
//             warpgroup    four warps, which multiply together
//             swizzle      the pieces of a row change places by the number of the row, so that a column of
//                          pieces lies in different banks
//             panel        64 columns of a slab of B
//             async proxy  the way of its own by which tensor cores reach shared memory
//
// Idea        In tiled.cu every operand passes through registers: for 16 steps a warp loads both its operands
//             with ldmatrix, and other warps load the same rows and columns again. wgmma takes both operands
//             from shared memory. A warpgroup says where they lie, the tensor cores fetch them, and registers
//             hold only the sums. One instruction multiplies 64×16 elements by 16×TILE_N.
//
// What lies        a slab of A                  a slab of B, in panels           registers
// where            64 steps, 128 bytes          64 columns   64 columns
//               ┌────────────────────┐         ┌──────────┬──────────┐        ┌───────────────────┐
//     warp-     │ row 0  0 1 2 ... 7 │       k │ 0 1 ...  │          │        │ sums of 64×TILE_N │
//     group 0   │ row 1  1 0 3 ... 6 │       ▼ │ 1 0 ...  │          ├───┐    │ elements of C,    │
//               │ ...     (pieces)   ├──┐      │ ...      │          │   ├───►│ TILE_N / 2 for    │
//               ├────────────────────┤  └──────┼──────────┼──────────┼───┘    │ each thread       │
//     group 1   │ row 64             │         │          │          │        └───────────────────┘
//               └────────────────────┘         └──────────┴──────────┘
//
// Order       For each slab s:
//               1. Each thread waits for its copies of slab s, makes them visible to the async proxy, and
//                  meets the block: slab s is there, and nobody reads slab s - 1 any more.
//               2. It issues its copies of slab s + STAGES - 1, a piece at a time, to swizzled places.
//               3. Its warpgroup multiplies slab s and waits for the end.
//             Where rows do not begin at 16 bytes, threads load and store elements, one by one.
//
// Where       Slab, multiply and store are in HopperTile (../hopper_tile.cuh), which all further kernels share;
//             the instructions are in ../instructions.cuh, copy_pieces in ../async_copy.cuh.
//
// Traffic     Global memory: 2k(1/TILE_M + 1/TILE_N) bytes per element of C, as in tiled.cu. Shared memory:
//             for 16 steps a warpgroup reads 32(64 + TILE_N) bytes for 1024·TILE_N multiply-adds.
// Removes     The fragments: the loads by ldmatrix, their registers, and what warps loaded twice.
// Limit       The copies. All threads compute addresses and issue them between the products, and the tensor
//             cores stand still while a warpgroup waits for its own.
#include "../async_copy.cuh"
#include "../hopper_tile.cuh"

struct Tiling : HopperTiling {
    static constexpr int tile_m = TILE_M, tile_n = TILE_N;  // rows and columns of C of a block
    static constexpr int stages = STAGES;                   // slabs that the ring holds
};

using Tile = HopperTile<Tiling>;

using Matrix = Source<__nv_bfloat16>;

// A thread's copies of rows of 64 elements, of which the first begins at (row, column), to swizzled places.
template <int rows>
__device__ __forceinline__ void stage(__nv_bfloat16 (&part)[rows][64], const Matrix& from, int row, int column)
{
    constexpr int length = piece<__nv_bfloat16>;
    copy_pieces<rows, 64 / length, Tile::consumer_threads>(
        from, row, column, [&](int r, int p) { return &part[r][(p ^ r % 8) * length]; });
}

extern "C" __global__ void __launch_bounds__(Tile::consumer_threads)
wgmma_bf16(const __nv_bfloat16* __restrict__ A, const __nv_bfloat16* __restrict__ B, __nv_bfloat16* __restrict__ C,
           int m, int n, int k)
{
    extern __shared__ __align__(1024) char memory[];
    Tile::Slab* ring = (Tile::Slab*)memory;
    const Matrix in_a(A, m, k), in_b(B, k, n);
    const int row = blockIdx.y * Tiling::tile_m, column = blockIdx.x * Tiling::tile_n;
    const auto issue = [&](int slab) {
        stage(ring[slab % Tiling::stages].a, in_a, row, slab * Tile::tile_k);
        for (int panel = 0; panel < Tile::panels; panel++)
            stage(ring[slab % Tiling::stages].b[panel], in_b, slab * Tile::tile_k, column + 64 * panel);
        commit_copies();
    };
    for (int slab = 0; slab < Tiling::stages - 1; slab++) issue(slab);

    Tile::Sums sums = {};
    const int slabs = Tile::slabs_of(k);
    for (int slab = 0; slab < slabs; slab++) {
        wait_for_copies<Tiling::stages - 2>();
        fence_async_proxy();
        __syncthreads();
        issue(slab + Tiling::stages - 1);
        Tile::multiply(sums, ring[slab % Tiling::stages]);
        wait_for_products<0>();
    }
    Tile::store(sums, C, m, n, row, column);
}
