"""cuBLAS through ctypes, in scikit-cuda's style: prototypes declared, statuses raised.

cuBLAS stores matrices by columns. A row-major matrix is the transpose of a column-major one in the
same memory, and Cᵀ = Bᵀ·Aᵀ, so `gemm` swaps the operands and no other code needs to know. The upper
triangle of a row-major matrix is the lower one by columns, and `syrk` asks for that.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_size_t, c_void_p
from functools import cache, cached_property
from pathlib import Path

from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

from matmul_sweep.experiment.verify.cublaslt import CublasError, CublasLt
from matmul_sweep.operations import operation_of
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError

# cublasMath_t. The default mode has no TF32 and no emulation, but lets cublasGemmEx add parts of a
# sum in bfloat16; 16 forbids that.
MATH_MODES = {"full": 0 | 16, "default": 0, "tf32": 3}
NO_TRANSPOSE, TRANSPOSE = 0, 1  # cublasOperation_t
LOWER = 0  # cublasFillMode_t
COMPUTE_FLOAT32 = 68  # cublasComputeType_t
DEFAULT_ALGORITHM = -1  # cublasGemmAlgo_t
WORKSPACE_BYTES = 32 << 20  # NVIDIA's recommendation for Hopper


def gemm_prototype(scalar: type, *kind: type) -> list[type]:
    """Handle, both transpositions, three extents, alpha, A, B, beta and C: each matrix with its
    `kind`, if it has one, and its leading dimension."""
    matrix = [c_void_p, *kind, c_int]
    sizes = [c_void_p, c_int, c_int, c_int, c_int, c_int]
    return [*sizes, POINTER(scalar), *matrix, *matrix, POINTER(scalar), *matrix]


PROTOTYPES: dict[str, list[type]] = {
    "cublasCreate_v2": [POINTER(c_void_p)],
    "cublasGetProperty": [c_int, POINTER(c_int)],
    "cublasSetStream_v2": [c_void_p, c_void_p],
    "cublasSetWorkspace_v2": [c_void_p, c_void_p, c_size_t],
    "cublasSetMathMode": [c_void_p, c_int],
    "cublasSgemm_v2": gemm_prototype(c_float),
    "cublasDgemm_v2": gemm_prototype(c_double),
    "cublasGemmEx": [*gemm_prototype(c_float, c_int), c_int, c_int],
    "cublasDsyrk_v2": [
        c_void_p, c_int, c_int, c_int, c_int, POINTER(c_double), c_void_p, c_int,
        POINTER(c_double), c_void_p, c_int,
    ],
}  # fmt: skip


@cache
def library() -> tuple[ctypes.CDLL, str]:
    """The loaded library with its prototypes declared, and its path.

    Raises UserError if there is none.
    """
    # An inherited override would turn TF32 on or off in SGEMM, regardless of the math mode.
    os.environ.pop("NVIDIA_TF32_OVERRIDE", None)
    try:
        found = load_nvidia_dynamic_lib("cublas")
    except DynamicLibNotFoundError:
        raise UserError(
            "no cuBLAS: run through `uv run`, which installs it, or load a CUDA toolkit that sets "
            "CUDA_HOME or LD_LIBRARY_PATH"
        ) from None
    lib = ctypes.CDLL(found.abs_path)
    for name, arguments in PROTOTYPES.items():
        getattr(lib, name).argtypes = arguments
        getattr(lib, name).restype = c_int
    lib.cublasGetStatusString.argtypes = [c_int]
    lib.cublasGetStatusString.restype = c_char_p
    return lib, found.abs_path


def call(name: str, *arguments: object) -> None:
    """Call a cuBLAS function. Raises CublasError with the status that it returned."""
    lib, _ = library()
    status = getattr(lib, name)(*arguments)
    if status:
        raise CublasError(f"{name}: {lib.cublasGetStatusString(status).decode()}")


@cache
def version() -> str:
    """The version of the library that runs here."""
    return version_of(library()[0])


def version_of(lib: ctypes.CDLL) -> str:
    """The version of a loaded library as NVIDIA writes it (13.1.0); needs no GPU."""
    numbers = [c_int() for _ in range(3)]
    for which, number in enumerate(numbers):  # libraryPropertyType: major, minor, patch
        lib.cublasGetProperty(which, byref(number))
    return ".".join(str(number.value) for number in numbers)


class Cublas:
    """A handle on one stream, with its own workspace and the math mode pinned."""

    def __init__(self, stream: int, workspace: int) -> None:
        """`stream` is a CUstream, `workspace` a device pointer to WORKSPACE_BYTES bytes."""
        self.handle, self.stream, self.workspace = c_void_p(), stream, workspace
        call("cublasCreate_v2", byref(self.handle))
        call("cublasSetStream_v2", self.handle, stream)
        # With its own workspace cuBLAS never allocates, which would wait for the stream.
        call("cublasSetWorkspace_v2", self.handle, workspace, WORKSPACE_BYTES)
        self._set_arithmetic("full")

    @cached_property
    def lt(self) -> CublasLt:
        """cublasLt on the same stream, with the same workspace."""
        return CublasLt(self.stream, self.workspace, WORKSPACE_BYTES)

    @contextmanager
    def arithmetic(self, name: str) -> Iterator[None]:
        """Give the calls in the block a catalogue's `arithmetic`; afterwards it is full again, also
        after an error."""
        self._set_arithmetic(name)
        try:
            yield
        finally:
            self._set_arithmetic("full")

    def _set_arithmetic(self, name: str) -> None:
        call("cublasSetMathMode", self.handle, MATH_MODES[name])

    def facts(self) -> dict[str, str]:
        """The version, the library's file, and the math mode."""
        return {
            "cublas": version(),
            "cublas_file": Path(library()[1]).name,
            "math_mode": "CUBLAS_DEFAULT_MATH (no TF32), sums in no less than their own precision, "
            "except where an entry asks for it",
        }

    def gemm(
        self, dtype: str, m: int, n: int, k: int, a: int, b: int, c: int,
        columns: int | None = None, add: bool = False, right_transposed: bool = False,
    ) -> None:  # fmt: skip
        """C = A·B, row-major: A m×k, B k×n, C m×n, device pointers to float32 or float64.

        With `columns`, C = Aᵀ·B: A is m columns of a row-major matrix of k×columns. With
        `right_transposed`, C = A·Bᵀ with B n×k. With `add`, the product is added to C.
        """
        function, scalar = {
            "float32": ("cublasSgemm_v2", c_float),
            "float64": ("cublasDgemm_v2", c_double),
        }[dtype]
        of_a = TRANSPOSE if columns else NO_TRANSPOSE
        of_b, row_of_b = (TRANSPOSE, k) if right_transposed else (NO_TRANSPOSE, n)
        call(
            function, self.handle, of_b, of_a, n, m, k,
            byref(scalar(1)), b, row_of_b, a, columns or k, byref(scalar(add)), c, n,
        )  # fmt: skip

    def gemm_ex(self, shape: Shape, *pointers: int) -> None:
        """C = A·B or A·Aᵀ, row-major, of device pointers to the dtypes of the shape's operation;
        each element is summed in float32."""
        operation, (m, n), k = operation_of(shape), shape.output, shape.terms
        a, b, c = pointers[0], *pointers[-2:]
        taken, given = DTYPES[operation.dtype].library, DTYPES[operation.output].library
        one, zero = c_float(1), c_float(0)
        of_b, row_of_b = (TRANSPOSE, k) if operation.right_transposed else (NO_TRANSPOSE, n)
        call(
            "cublasGemmEx", self.handle, of_b, NO_TRANSPOSE, n, m, k,
            byref(one), b, taken, row_of_b, a, taken, k, byref(zero), c, given, n,
            COMPUTE_FLOAT32, DEFAULT_ALGORITHM,
        )  # fmt: skip

    def syrk(self, m: int, n: int, a: int, c: int) -> None:
        """The upper triangle of C = Aᵀ·A, row-major: A m×n, C n×n, device pointers to float64."""
        call(
            "cublasDsyrk_v2", self.handle, LOWER, NO_TRANSPOSE, n, m,
            byref(c_double(1)), a, n, byref(c_double(0)), c, n,
        )  # fmt: skip
