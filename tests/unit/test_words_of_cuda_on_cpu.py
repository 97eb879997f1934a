"""What the CPU runs of CUDA beside the words of the catalogue's kernels: shuffles, votes, atomics,
half and bfloat16, cooperative groups, printf."""

import re

import numpy as np
import pytest
from emulated import LANES, kernel, launched

from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.operations.dtypes import DTYPES

pytestmark = pytest.mark.usefixtures("unoptimised")

NEIGHBOURS = LANES + 1 - 2 * (LANES % 2)
LANES_REVERSED = np.array([int(f"{i:06b}"[::-1], 2) for i in range(64)])


# What each of two warps does, and C.
WORDS = [
    ("C[i] = __shfl_sync(all, A[i], 3);", LANES // 32 * 32 + 3),
    ("C[i] = __shfl_sync(all, A[i], 3, 8);", LANES // 8 * 8 + 3),
    ("C[i] = __shfl_up_sync(all, A[i], 1, 4);", LANES - (LANES % 4 > 0)),
    ("C[i] = __shfl_down_sync(all, A[i], 2, 4);", LANES + 2 * (LANES % 4 < 2)),
    ("C[i] = __shfl_xor_sync(all, A[i], 1);", NEIGHBOURS),
    ("C[i] = i < 32 ? __shfl_sync(all, A[i], 7) : 0; __syncthreads();", 7 * (LANES < 32)),
    ("C[i] = i % 32 < 16 ? __shfl_sync(0xFFFF, A[i], 0) : 0;", 32 * (LANES // 16 == 2)),
    ("C[i] = __ballot_sync(all, i % 32 < 3);", 7),
    ("C[i] = 2 * __any_sync(all, i == 40) + __all_sync(all, i >= 32);", 3 * (LANES >= 32)),
    ("C[i] = __syncthreads_count(i % 4 == 0);", 16),
    ("C[i] = 2 * __syncthreads_or(i == 9) + __syncthreads_and(i != 9);", 2),
    ("s[i] = A[i]; __syncwarp(); C[i] = s[i ^ 1];", NEIGHBOURS),
    ("s[i] = 0; __syncthreads(); atomicAdd(s, A[i]); __syncthreads(); C[i] = s[0];", LANES.sum()),
    (
        "if (i < 2) t[i] = 0; __syncthreads(); atomicMax(t, i); atomicCAS(t + 1, 0, i + 1);"
        " __syncthreads(); C[i] = t[0] + (t[1] > 0);",
        64,
    ),
    (
        "auto block = cg::this_thread_block(); auto tile = cg::tiled_partition<8>(block);"
        " auto both = cg::tiled_partition<64>(block); s[i] = A[i]; both.sync();"
        " const float other = s[63 - i]; block.sync(); s[i] = other; block.sync();"
        " C[i] = tile.shfl(s[i], 0) + tile.thread_rank();",
        63 - LANES // 8 * 8 + LANES % 8,
    ),
    ("C[i] = __umul24(blockDim.x, 2) + __mul24(-2, i) + two[1];", 130 - 2 * LANES),
    ("C[i] = __dp4a(-1 - i, 0x01020304, 9) + __dp4a(0xFFu, 2u, 1u);", 510 - 4 * LANES),
    ("C[i] = __byte_perm(0x03020100 + i, 0x07060504, 0x5140) & 0xFFFF;", 0x400 + LANES),
    (
        "C[i] = __umulhi(1u << 31, 2 * i) + __double2ll_rn(i + 0.5) - __double2ll_rn(-1.75);",
        LANES + 2 + LANES + LANES % 2,
    ),
    (
        "C[i] = __longlong_as_double((1023LL + i) << 52) / __longlong_as_double(1023LL << 52);",
        2.0**LANES,
    ),
    ("C[i] = __int_as_float(127 + i << 23) + (__float_as_int(1.5f) - 0x3FC00000);", 2.0**LANES),
    (
        "C[i] = __popc(i) + 100 * __clz(i | 1) + 10000 * __ffs(i);",
        [
            i.bit_count() + 100 * (32 - (i | 1).bit_length()) + 10000 * (i & -i).bit_length()
            for i in range(64)
        ],
    ),
    ("C[i] = (__brev(i) >> 26) + __byte_perm(i, 0, 0x4404);", LANES_REVERSED + 256 * LANES),
    ("C[i] = __mulhi(i << 24, -256) + __umulhi(i << 24, 256);", [-i + i for i in range(64)]),
    (
        "C[i] = __saturatef((A[i] - 20) / 2) + __fdividef(A[i], 4);",
        np.clip((LANES - 20) / 2, 0, 1) + LANES / 4,
    ),
    ("if (i % 2) C[i] = __popc(__activemask()); else C[i] = -1;", np.where(LANES % 2, 16, -1)),
    (
        "unsigned m = __activemask(); C[i] = __reduce_add_sync(m, i) + __reduce_max_sync(m, i);",
        np.where(LANES < 32, 496 + 31, 496 + 32 * 32 + 63),
    ),
    (
        "const float4 v = __ldcs((const float4*)A + i / 4); __stcg(C + i, v.x + v.w);",
        8 * (LANES // 4) + 3,
    ),
    (
        "const uint4 v = {1, 2, 3, unsigned(i)}; char4 c = make_char4(1, 2, 3, -4); ushort2"
        " s = make_ushort2(7, 8);"
        " C[i] = v.w + c.w + s.y + make_double2(1, 2).y;",
        LANES - 4 + 8 + 2,
    ),
    (
        "half2 h = __floats2half2_rn(i % 20, 2); h = h * h +"
        " __half2half2(__float2half(1.0f)); h += h; C[i] = __low2float(h)"
        " + __high2float(h);",
        2 * ((LANES % 20) ** 2 + 1) + 10,
    ),
    (
        "__builtin_assume(i < 64); __nanosleep(20); C[i] = (clock64() > 0) + 2 *"
        " __isGlobal(A) + 4 * __isShared(s);",
        7,
    ),
    ("dim3 grid = gridDim; uint3 own = dim3(2, 3); C[i] = grid.y + own.y + own.z;", 5),
    (
        "auto tile = cg::tiled_partition<4>(cg::this_thread_block());"
        " C[i] = cg::reduce(tile, A[i], cg::plus<float>());",
        4 * (LANES // 4 * 4) + 6,
    ),
]
TOP = """#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__constant__ float two[2] = {1, 2};"""


@pytest.mark.parametrize("watch", [False, True])
def test_a_word_means_what_cuda_says(watch, tmp_path):
    """Each word in a block of its own, for one compilation."""
    cases = "".join(f"case {b}: {{ {body} break; }}\n" for b, (body, _) in enumerate(WORDS))
    text = kernel(
        "const int i = threadIdx.x; const unsigned all = ~0u; C += 64 * blockIdx.x;"
        f" __shared__ float s[64]; __shared__ int t[2]; switch (blockIdx.x) {{ {cases} }}",
        TOP,
    )
    found = launched(text, tmp_path, watch, blocks=len(WORDS))
    if watch:
        assert found.findings == ()
        found = found.c
    rows = zip(WORDS, found.reshape(-1)[: 64 * len(WORDS)].reshape(-1, 64), strict=True)
    assert not {body: got for (body, wanted), got in rows if (got != wanted).any()}


@pytest.mark.parametrize(("name", "header"), [("float16", "fp16"), ("bfloat16", "bf16")])
def test_short_floats_round_like_ieee(name, header, tmp_path):
    """Sums, products and conversions, bit for bit, of numbers that need rounding."""
    kind, cpp = np.dtype(name), DTYPES[name].cpp
    body = (
        f"const int i = threadIdx.x; {cpp} x = A[i]; {cpp} y = float(x) / 3.0f + 1e-6f * i;"
        " C[i] = __hfma(x, y, __hadd(x, y)); C[i] += y;"
    )
    text = kernel(body, f"#include <cuda_{header}.h>", cpp)
    y = (LANES / np.float32(3) + np.float32(1e-6) * LANES).astype(kind)
    x = LANES.astype(kind)
    wide = x.astype(np.float64) * y.astype(np.float64)
    total = (wide + (x + y).astype(np.float64)).astype(np.float32).astype(kind)
    np.testing.assert_array_equal(launched(text, tmp_path, dtype=name).ravel(), total + y)


def test_a_half_rounds_as_numpy_does(tmp_path):
    """Zeros, ties, denormals, what overflows, infinities and NaN too."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    rng = np.random.default_rng(0)
    others = np.ldexp(rng.uniform(-1, 1, 1 << 16), rng.integers(-30, 20, 1 << 16))
    with np.errstate(all="ignore"):
        ties = (every[:-1] + every[1:]) / 2
        values = np.concatenate([every, others, ties, [1e9]]).astype(np.float32)
        rounded = values.astype(np.float16).astype(np.float32)
    body = "for (int i = 0; i < n * n; i++) C[i] = __half2float(__float2half(A[i]));"
    c = launched(kernel(body, "#include <cuda_fp16.h>"), tmp_path, threads=1, values=values)
    np.testing.assert_array_equal(c.ravel()[: values.size], rounded)


def test_a_lane_that_others_wait_for_in_vain_is_reported(tmp_path):
    text = kernel("if (threadIdx.x != 5) C[threadIdx.x] = __shfl_sync(~0u, A[0], 0);")
    said = r"divergent warp in block .* waits at line 4"
    [finding] = launched(text, tmp_path, watch=True).findings
    assert re.search(said, finding["text"])
    with pytest.raises(EmulationError, match=said):
        launched(text, tmp_path)
