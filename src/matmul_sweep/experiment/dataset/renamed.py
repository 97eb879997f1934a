"""Names of variants before version 1.0.0, which spelled out the parameters of a tiling."""

SINCE = "1.0.0"
RENAMED = {
    "naive[TILE_WIDTH=32]": "naive/32",
    "naive[TILE_WIDTH=16]": "naive/16",
    "naive_rect[TILE_WIDTH=32]": "naive_rect/32",
    "shared[TILE_WIDTH=32]": "shared/32",
    "shared[TILE_WIDTH=16]": "shared/16",
    "shared_rect[TILE_WIDTH=32]": "shared_rect/32",
    "shared_rect_split[TILE_WIDTH=32]": "shared_rect_split/32",
    "register_column[TILE_M=64,TILE_N=64,TILE_K=8,ROWS=8]": "register_column/64x64",
    "register_tile[TILE=128,TILE_K=8,R=8]": "register_tile/128",
    "vectors[TILE=128,TILE_K=8]": "vectors/128",
    "pipelined[TILE_M=128,TILE_N=128,TILE_K=16,WARP_M=64,WARP_N=64,THREAD_M=8,THREAD_N=16,"
    "STAGES=4,ABREAST=8,PORTIONS=2,ORDER=49,RESIDENT=2,GROUP=8,LEVEL=1]": "pipelined/128x128",
    "bulk[TILE_M=128,TILE_N=128,TILE_K=16,WARP_M=64,WARP_N=64,THREAD_M=8,THREAD_N=16,"
    "STAGES=4,ABREAST=8,PORTIONS=2,ORDER=49,RESIDENT=2,GROUP=8,LEVEL=1]": "bulk/128x128",
    "streamed[TILE_M=128,TILE_N=128,TILE_K=16,WARP_M=64,WARP_N=64,THREAD_M=8,THREAD_N=16,"
    "STAGES=3,ABREAST=8,PORTIONS=2,ORDER=49,SLICES=1,CHAINS=1,RESIDENT=2,"
    "MULTIPROCESSORS=132,LEAST=4,GROUP=8,LEVEL=1]": "streamed/128x128",
    "thin[TILE_M=1,TILE_N=64,THREADS=512,AHEAD=8]": "thin/64",
    "gram_naive[TILE_WIDTH=16]": "gram_naive/16",
    "gram_register_tile[TILE_WIDTH=48,BLOCK_WIDTH=16]": "gram_register_tile/48",
    "gram_register_tile[TILE_WIDTH=32,BLOCK_WIDTH=16]": "gram_register_tile/32",
    "gram_register_tile[TILE_WIDTH=64,BLOCK_WIDTH=16]": "gram_register_tile/64",
    "gram_register_tile[TILE_WIDTH=96,BLOCK_WIDTH=16]": "gram_register_tile/96",
    "gram_register_tile[TILE_WIDTH=128,BLOCK_WIDTH=16]": "gram_register_tile/128",
    "gram_tensor[TILE=128,TILE_K=16,WARP_M=64,WARP_N=32,STEP=8,STAGES=3,PORTIONS=4,"
    "RESIDENT=1]": "gram_tensor/128",
    "gram_tensor_streamed[TILE=128,TILE_K=16,WARP_M=64,WARP_N=32,STEP=8,STAGES=4,"
    "PORTIONS=4,RESIDENT=1,MULTIPROCESSORS=132,LEAST=2,GROUP=16]": "gram_tensor_streamed/128",
}
