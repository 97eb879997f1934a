"""What the CPU runs of CUDA beside the words of the catalogue's kernels: shuffles, votes, atomics,
half and bfloat16, cooperative groups, printf."""

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation, watched
from matmul_sweep.classroom.cuda_on_cpu.emulation import WATCH, EmulationError
from matmul_sweep.operations.gram import GRAM, Gram

pytestmark = pytest.mark.usefixtures("unoptimised")

LANES = np.arange(64, dtype=np.float32)
WARPS = LANES.reshape(2, 32)


def kernel(body: str, top: str = "", type_: str = "float") -> str:
    parameters = f"const {type_}* A, {type_}* C, int m, int n"
    return f'{top}\nextern "C" __global__ void f({parameters})\n{{\n{body}\n}}\n'


def launched(
    text: str, folder: Path, sanitizer: str | None = None, threads: int = 64, blocks: int = 1,
    dtype: str = "float32", values: np.ndarray = LANES,
) -> Any:  # fmt: skip
    """C, or what a watched launch did, with 64 elements for each block or one for each value of
    A."""
    source, executable = folder / "f.cu", folder / f"f-{sanitizer}"
    source.write_text(text)
    operation = replace(GRAM, dtype=dtype, output=dtype, sums="float32")
    emulation.build(source, ["f"], operation, {}, executable, sanitizer)
    n = math.isqrt(max(64 * blocks, values.size) - 1) + 1  # of the rows and columns of A and C
    a = np.resize(values.astype(dtype), (n, n))
    plan = Plan((Launch((blocks, 1, 1), (threads, 1, 1)),))
    launch = (executable, plan, Gram(*a.shape), (a,), np.zeros((n, n), a.dtype))
    return watched.launch(*launch, seconds=10) if sanitizer == WATCH else emulation.launch(*launch)


def pairs(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1, 2)[:, ::-1].ravel()


WORDS = {
    "shfl": ("C[i] = __shfl_sync(all, A[i], 3);", np.repeat(WARPS[:, 3], 32)),
    "shfl in eights": ("C[i] = __shfl_sync(all, A[i], 3, 8);", LANES // 8 * 8 + 3),
    "shfl_up": ("C[i] = __shfl_up_sync(all, A[i], 1, 4);", LANES - (LANES % 4 > 0)),
    "shfl_down": ("C[i] = __shfl_down_sync(all, A[i], 2, 4);", LANES + 2 * (LANES % 4 < 2)),
    "shfl_xor": ("C[i] = __shfl_xor_sync(all, A[i], 1);", pairs(LANES)),
    "one warp alone": (
        "C[i] = 0; if (i < 32) C[i] = __shfl_sync(all, A[i], 7); __syncthreads();",
        np.where(LANES < 32, 7, 0)),
    "half a warp": (
        "C[i] = 0; if (i % 32 < 16) C[i] = __shfl_sync(0xFFFF, A[i], 2);",
        np.where(LANES % 32 < 16, LANES // 32 * 32 + 2, 0)),
    "ballot": ("C[i] = __ballot_sync(all, i % 32 < 3);", np.full(64, 7)),
    "any and all": (
        "C[i] = 2 * __any_sync(all, i == 40) + __all_sync(all, i >= 32);",
        np.where(LANES < 32, 0, 3)),
    "count of a block": ("C[i] = __syncthreads_count(i % 4 == 0);", np.full(64, 16)),
    "or and and of a block": (
        "C[i] = 2 * __syncthreads_or(i == 9) + __syncthreads_and(i != 9);", np.full(64, 2)),
    "syncwarp": (
        "__shared__ float s[64]; s[i] = A[i]; __syncwarp(); C[i] = s[i ^ 1];", pairs(LANES)),
    "atomicAdd": (
        "__shared__ float s; if (i == 0) s = 0; __syncthreads(); atomicAdd(&s, A[i]);"
        " __syncthreads(); C[i] = s;", np.full(64, LANES.sum())),
    "atomicMax and atomicCAS": (
        "__shared__ int s[2]; if (i < 2) s[i] = 0; __syncthreads(); atomicMax(&s[0], i);"
        " atomicCAS(&s[1], 0, i + 1); __syncthreads(); C[i] = s[0] + (s[1] > 0);", np.full(64, 64)),
    "cooperative groups": (
        "namespace cg = cooperative_groups; auto block = cg::this_thread_block();"
        " auto tile = cg::tiled_partition<8>(block); __shared__ float s[64]; s[i] = A[i];"
        " block.sync(); float x = s[63 - i]; C[i] = tile.shfl(x, 0) + tile.thread_rank();",
        63 - LANES // 8 * 8 + LANES % 8),
    "products of 24 bits, and a constant": (
        "C[i] = __umul24(blockDim.x, 2) + __mul24(-2, i) + two[1];", 130 - 2 * LANES),
    "values of the same bits": (
        "C[i] = __int_as_float(127 + i << 23) + (__float_as_int(1.5f) - 0x3FC00000);", 2.0**LANES),
    "reduce of a tile": (
        "namespace cg = cooperative_groups;"
        " auto tile = cg::tiled_partition<4>(cg::this_thread_block());"
        " C[i] = cg::reduce(tile, A[i], cg::plus<float>());",
        np.repeat(LANES.reshape(-1, 4).sum(1), 4)),
}  # fmt: skip
TOP = """#include <cuda_runtime.h>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
__constant__ float two[2] = {1, 2};"""


@pytest.mark.parametrize("sanitizer", [None, "address", "thread", WATCH])
def test_a_word_means_what_cuda_says(sanitizer: str | None, tmp_path: Path) -> None:
    """Each word in a block of its own, for one compilation."""
    bodies = (f"case {b}: {{ {body} break; }}" for b, (body, _) in enumerate(WORDS.values()))
    text = kernel(
        "const int i = threadIdx.x; const unsigned all = ~0u; C += 64 * blockIdx.x;"
        f" switch (blockIdx.x) {{\n{chr(10).join(bodies)}\n}}",
        TOP,
    )
    found = launched(text, tmp_path, sanitizer, blocks=len(WORDS))
    if sanitizer == WATCH:
        assert found.findings == ()
        found = found.c
    found = found.ravel()[: 64 * len(WORDS)].reshape(-1, 64)
    rows = zip(WORDS.items(), found, strict=True)
    assert not {word: got for (word, (_, wanted)), got in rows if (got != wanted).any()}


@pytest.mark.parametrize(
    ("name", "header", "kind"),
    [("__half", "cuda_fp16.h", np.float16), ("__nv_bfloat16", "cuda_bf16.h", ml_dtypes.bfloat16)],
)
def test_short_floats_round_like_ieee(name: str, header: str, kind: Any, tmp_path: Path) -> None:
    """Sums, products and conversions, bit for bit, of numbers that need rounding."""
    body = (
        f"const int i = threadIdx.x; {name} x = A[i]; {name} y = float(x) / 3.0f + 1e-6f * i;"
        " C[i] = __hfma(x, y, __hadd(x, y)); C[i] += y;"
    )
    text = kernel(body, f"#include <{header}>", name)
    y = (LANES / np.float32(3) + np.float32(1e-6) * LANES).astype(kind)
    x = LANES.astype(kind)
    wide = x.astype(np.float64) * y.astype(np.float64)
    total = (wide + (x + y).astype(np.float64)).astype(np.float32).astype(kind)
    c = launched(text, tmp_path, dtype=np.dtype(kind).name)
    np.testing.assert_array_equal(c.ravel(), total + y)


def test_a_half_rounds_as_numpy_does(tmp_path: Path) -> None:
    """Zeros, ties, denormals, what overflows, infinities and NaN too."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    rng = np.random.default_rng(0)
    others = np.ldexp(rng.uniform(-1, 1, 1 << 16), rng.integers(-30, 20, 1 << 16))
    with np.errstate(all="ignore"):
        ties = (every[:-1] + every[1:]) / 2
        values = np.concatenate([every, others, ties, [1e9]]).astype(np.float32)
        rounded = values.astype(np.float16).astype(np.float32)
    body = "for (int i = 0; i < n * n; i++) C[i] = __half2float(__float2half(A[i]));"
    text = kernel(body, "#include <cuda_fp16.h>")
    c = launched(text, tmp_path, threads=1, values=values)
    np.testing.assert_array_equal(c.ravel()[: values.size], rounded)


def test_a_lane_that_others_wait_for_in_vain_is_reported(tmp_path: Path) -> None:
    text = kernel("if (threadIdx.x != 5) C[threadIdx.x] = __shfl_sync(~0u, A[0], 0);")
    said = r"divergent warp in block .* waits at line 4"
    [finding] = launched(text, tmp_path, WATCH).findings
    assert re.search(said, finding["text"])
    with pytest.raises(EmulationError, match=said):
        launched(text, tmp_path)
