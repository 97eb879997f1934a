"""wmma on the CPU against NumPy."""

import numpy as np
import pytest
from emulated import kernel, launched, mistakes

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unoptimised")]

TOP = """#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;"""
# A shape, the type of the factors as a fragment and in memory, the sums' type, and the layouts.
PRODUCTS = [
    ((16, 16, 16), "half", "half", "float", "row", "row"),
    ((32, 8, 16), "half", "half", "half", "row", "col"),
    ((8, 32, 16), "half", "half", "float", "col", "row"),
    ((16, 16, 16), "__nv_bfloat16", "__nv_bfloat16", "float", "col", "col"),
    ((32, 8, 16), "__nv_bfloat16", "__nv_bfloat16", "float", "row", "row"),
    ((16, 16, 16), "signed char", "signed char", "int", "row", "col"),
    ((8, 32, 16), "unsigned char", "unsigned char", "int", "row", "row"),
    ((16, 16, 8), "wmma::precision::tf32", "float", "float", "row", "col"),
    ((8, 8, 4), "double", "double", "double", "row", "row"),
]


@pytest.mark.parametrize(
    "case", PRODUCTS, ids=lambda case: "-".join(map(str, (*case[0], *case[1:])))
)
def test_a_product_of_fragments(case, tmp_path):
    """C = 2·(A·B + D), where the factor is that of each element of the sums' fragment."""
    (m, n, k), of_a, stored, of_sum, left, right = case
    rng = np.random.default_rng(0)
    low = 0 if stored == "unsigned char" else -4
    a, b, d = (rng.integers(low, 5, extents) for extents in ((m, k), (k, n), (m, n)))
    values = [
        np.ravel(a, "C" if left == "row" else "F"),
        np.ravel(b, "C" if right == "row" else "F"),
    ]
    body = f"""__shared__ __align__(32) {stored} a[{m * k}], b[{k * n}];
    __shared__ __align__(32) {of_sum} c[{m * n}];
    for (int i = threadIdx.x; i < {m * k}; i += 32) a[i] = ({stored})(A[i]);
    for (int i = threadIdx.x; i < {k * n}; i += 32) b[i] = ({stored})(A[{m * k} + i]);
    for (int i = threadIdx.x; i < {m * n}; i += 32) c[i] = ({of_sum})(A[{m * k + k * n} + i]);
    __syncthreads();
    wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, {of_a}, wmma::{left}_major> fa;
    wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, {of_a}, wmma::{right}_major> fb;
    wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {of_sum}> fc;
    wmma::load_matrix_sync(fa, a, {k if left == "row" else m});
    wmma::load_matrix_sync(fb, b, {n if right == "row" else k});
    wmma::load_matrix_sync(fc, c, {n}, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = {of_sum}(2) * fc.x[i];
    wmma::store_matrix_sync(c, fc, {m}, wmma::mem_col_major);
    __syncthreads();
    for (int i = threadIdx.x; i < {m * n}; i += 32) C[i] = c[i];"""
    values = np.concatenate([*values, d.ravel()])
    found = launched(kernel(body, TOP), tmp_path, True, 32, values=values)
    assert not mistakes(found)
    np.testing.assert_array_equal(found.c.ravel()[: m * n].reshape(n, m).T, 2 * (a @ b + d))


@pytest.mark.parametrize(
    ("body", "kind", "line"),
    [
        ("if (threadIdx.x < 16)\nwmma::mma_sync(c, a, b, c);", "divergent", 10),
        ("wmma::load_matrix_sync(a, A + 2, 16);", "misaligned", 9),
        ("wmma::load_matrix_sync(a, A, 18);", "misaligned", 9),
        ("wmma::load_matrix_sync(a, A + 2048, 16);", "outside", 9),
        ("__shared__ half s[512];\nfor (int i = 0; i < 8; i++) s[threadIdx.x * 8 + i] ="
         " half(0.0f);\n"
         "if (threadIdx.x > 31) return;\nwmma::load_matrix_sync(a, s + 256, 16);", "race", 10),
    ],
)  # fmt: skip
def test_what_a_warp_does_wrong(body, kind, line, tmp_path):
    text = kernel(
        "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;\n"
        "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;\n"
        f"wmma::fragment<wmma::accumulator, 16, 16, 16, half> c;\n{body}",
        TOP.replace("\n#include <cuda_bf16.h>", ""), "half",
    )  # fmt: skip
    values = np.zeros(1024)
    threads = 64 if kind == "race" else 32
    done = launched(text, tmp_path, True, threads, dtype="float16", values=values)
    found = next(one for one in done.findings if one["kind"] == kind)
    named = [*map(done.lines.get, found.get("places", ()))]
    said = f"line {line}" in found["text"] if kind == "divergent" else named[0][1] in (line, 12)
    assert said, (found, named)
