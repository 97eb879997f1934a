"""cublasLt through ctypes: the algorithms that its heuristics offer for a product.

As in cublas.py, a row-major matrix is the transpose of a column-major one, and Cᵀ = Bᵀ·Aᵀ.
"""

import ctypes
from ctypes import byref, c_double, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import Any

from cuda.pathfinder import load_nvidia_dynamic_lib

from matmul_sweep.operations import operation_of
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape

ASKED = 64  # algorithms for a product; it offers about eight
COMPUTE = {"float32": (68, c_float), "float64": (70, c_double)}  # cublasComputeType_t
TRANSPOSE_FIRST, TRANSPOSE_SECOND = 3, 4  # cublasLtMatmulDescAttributes_t, of A and B there
TRANSPOSE = c_int(1)  # cublasOperation_t
MOST_WORKSPACE = 1  # cublasLtMatmulPreferenceAttributes_t
# cublasLtMatmulAlgoConfigAttributes_t: what tells one algorithm from another.
CONFIGURED = {"algorithm": 0, "tile": 1, "stages": 6, "split": 2, "cluster": 8}


class CublasError(Exception):
    """A call that did not succeed; the message names the call and its status."""


class Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and what it takes."""

    _fields_ = (
        ("words", c_uint64 * 8), ("workspace", c_size_t), ("status", c_int), ("waves", c_float),
        ("reserved", c_int * 4),
    )  # fmt: skip


class CublasLt:
    """The library on a stream, with a workspace."""

    def __init__(self, stream: int, workspace: int, workspace_bytes: int) -> None:
        self.stream, self.workspace, self.bytes = stream, workspace, workspace_bytes
        self.handle = c_void_p()
        call("Create", byref(self.handle))
        self.offered = cache(self.ask)

    def ask(self, shape: Shape) -> list[Algorithm]:
        """The algorithms that the library offers, its first choice first. Raises CublasError."""
        (product, *matrices), preference = describe(shape), c_void_p()
        call("MatmulPreferenceCreate", byref(preference))
        most = c_size_t(self.bytes)
        call("MatmulPreferenceSetAttribute", preference, MOST_WORKSPACE, byref(most), sizeof(most))
        found, count = (Algorithm * ASKED)(), c_int()
        call(
            "MatmulAlgoGetHeuristic", self.handle, product, *matrices, matrices[-1],
            preference, ASKED, found, byref(count),
        )  # fmt: skip
        return [own for own in found[: count.value] if own.status == 0]

    def matmul(self, which: int, shape: Shape, *pointers: int) -> None:
        """A product of device pointers, by one of the algorithms that are offered."""
        product, of_first, of_second, of_c = describe(shape)
        algorithm = self.offered(shape)[which]
        scalar = COMPUTE[operation_of(shape).sums][1]
        second, first, c = pointers[0], *pointers[-2:]
        call(
            "Matmul", self.handle, product, byref(scalar(1)), c_void_p(first), of_first,
            c_void_p(second), of_second, byref(scalar(0)), c_void_p(c), of_c, c_void_p(c), of_c,
            byref(algorithm.words), c_void_p(self.workspace), c_size_t(self.bytes),
            c_void_p(self.stream),
        )  # fmt: skip


@cache
def describe(shape: Shape) -> tuple[c_void_p, ...]:
    """A product in the library's words: the operation, and the matrices in its order: the right
    factor, the left one, and C. By columns, a row-major matrix is its transpose."""
    operation, product = operation_of(shape), c_void_p()
    compute, _ = COMPUTE[operation.sums]
    call("MatmulDescCreate", byref(product), compute, DTYPES[operation.sums].library)
    taken, given = DTYPES[operation.dtype].library, DTYPES[operation.output].library
    rows, columns = shape.output
    factors = (
        (TRANSPOSE_FIRST, operation.right_transposed, (columns, shape.terms)),
        (TRANSPOSE_SECOND, operation.left_transposed, (shape.terms, rows)),
    )
    for attribute, transposed, _ in factors:
        if transposed:
            call("MatmulDescSetAttribute", product, attribute, byref(TRANSPOSE), sizeof(TRANSPOSE))
    first, second = (
        layout(taken, *(sides[::-1] if transposed else sides)) for _, transposed, sides in factors
    )
    return product, first, second, layout(given, columns, rows)


def layout(kind: int, rows: int, columns: int) -> c_void_p:
    """A matrix by columns, without gaps."""
    made = c_void_p()
    call("MatrixLayoutCreate", byref(made), kind, c_uint64(rows), c_uint64(columns), c_int64(rows))
    return made


def configured(algorithm: Algorithm) -> str:
    """Which algorithm it is: `algorithm 66 tile 23 stages 36 split 1 cluster 3`."""
    words = []
    for name, attribute in CONFIGURED.items():
        value, written = (ctypes.c_uint16() if name == "cluster" else ctypes.c_uint32()), c_size_t()
        call(
            "MatmulAlgoConfigGetAttribute", byref(algorithm.words), attribute, byref(value),
            sizeof(value), byref(written),
        )  # fmt: skip
        words.append(f"{name} {value.value}")
    return " ".join(words)


def sizeof(value: Any) -> c_size_t:
    return c_size_t(ctypes.sizeof(value))


@cache
def library() -> ctypes.CDLL:
    return ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)


def call(name: str, *arguments: object) -> None:
    """Call a function of cublasLt. Raises CublasError with the status that it returned."""
    if status := getattr(library(), f"cublasLt{name}")(*arguments):
        raise CublasError(f"cublasLt{name}: status {status}")
