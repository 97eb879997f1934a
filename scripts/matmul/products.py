"""How each kind of catalogue entry is run: cubins and cuBLAS on the GPU, C and NumPy on the CPU."""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from matmul.catalogue import Variant
from matmul.dataset import read_json
from matmul.device import architecture
from matmul.instruments import Instruments
from matmul.shapes import Shape

STATIC_SHARED_LIMIT = 48 << 10  # beyond it a kernel must ask for dynamic shared memory

HOST = "host"  # the architecture of what gcc builds

GpuProduct = Callable[[Shape, int, int, int], None]
CpuProduct = Callable[[np.ndarray, np.ndarray, np.ndarray], None]


def compile_failure(variant: Variant, build: Path) -> str | None:
    """Why the variant has no binary for this machine, or None where it has or needs none."""
    if variant.kernel.language == "library":
        return None
    return compile_record(variant, build)["reason"] or None


def compile_record(variant: Variant, build: Path) -> dict[str, Any]:
    """What compile.py recorded of the variant for this machine."""
    arch = HOST if variant.kernel.language == "c" else architecture()
    return read_json(build / arch / f"{variant.slug}.json")


def gpu_product(variant: Variant, tools: Instruments, build: Path) -> GpuProduct:
    """A function (shape, A, B, C) that enqueues one product on the instruments' stream."""
    if variant.kernel.function == "cublasSgemm":
        return lambda shape, a, b, c: tools.cublas.gemm(
            "float32", shape.m, shape.n, shape.k, int(a), int(b), int(c)
        )
    function = load(variant, tools, build)

    def launch(shape: Shape, a: int, b: int, c: int) -> None:
        function.prepared_async_call(
            variant.grid(shape), variant.block, tools.stream, a, b, c,
            shape.m, shape.n, shape.k, shared_size=variant.dynamic_shared_bytes,
        )  # fmt: skip

    return launch


def load(variant: Variant, tools: Instruments, build: Path) -> Any:
    """The kernel's function, from the cubin in `build`, ready for prepared calls."""
    module = tools.drv.module_from_file(str(build / architecture() / f"{variant.slug}.cubin"))
    function = module.get_function(variant.kernel.function)
    if variant.dynamic_shared_bytes > STATIC_SHARED_LIMIT:
        function.set_attribute(
            tools.drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, variant.dynamic_shared_bytes
        )
    return function.prepare("PPPiii")


def cpu_product(variant: Variant, build: Path, threads: int) -> CpuProduct:
    """A function (A, B, C) that computes one product on the CPU; libraries use `threads` cores."""
    if variant.kernel.function == "numpy.matmul":
        threadpool_limits(threads)  # here, because finding the thread pools takes milliseconds
        return lambda a, b, c: np.matmul(a, b, out=c)
    library = ctypes.CDLL(str((build / HOST / f"{variant.slug}.so").resolve()))
    function = getattr(library, variant.kernel.function)
    array = np.ctypeslib.ndpointer(np.float32, ndim=2, flags="C_CONTIGUOUS")
    function.argtypes = [array] * 3 + [ctypes.c_int] * 3
    function.restype = None

    def call(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        function(a, b, c, c.shape[0], c.shape[1], a.shape[1])

    return call
