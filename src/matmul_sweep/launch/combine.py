"""C = alpha·T + beta·C for matrices of any strides, on the device (combine.cu)."""

import tempfile
from ctypes import Structure, c_double, c_int, c_longlong, c_uint64
from pathlib import Path

from matmul_sweep.build import toolchain
from matmul_sweep.build.toolchain import build_cubin
from matmul_sweep.launch.driver import Function, Launch, Module
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Extent, ceil_div

SOURCE = Path(__file__).with_name("combine.cu")
SIDE, THREADS = 32, (32, 8, 1)  # of a block
NAMES = {name: f"combine_{name}" for name, dtype in DTYPES.items() if dtype.units}


def combining(arch: str) -> dict[str, Function]:
    """The function for each number type, loaded into the current context. Raises UserError without
    a compiler, and DriverError."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = Path(folder) / "combine.cubin"
        build_cubin(SOURCE, [*NAMES.values()], toolchain.FLAGS["cuda"], arch, cubin)
        module = Module(cubin)
    return {dtype: module.function(name) for dtype, name in NAMES.items()}


class Strides(Structure):
    """Elements from a row to the next, and from a column."""

    _fields_ = (("down", c_longlong), ("right", c_longlong))


class Combine:
    """A function (stream, T, C, alpha, beta) that enqueues C = alpha·T + beta·C for matrices of
    these rows and columns and strides, which are in elements. It belongs to one thread."""

    def __init__(
        self, function: Function, extent: Extent, source: tuple[int, int], target: tuple[int, int]
    ) -> None:
        rows, columns = extent
        self.addresses, self.factors = (c_uint64 * 2)(), (c_double * 2)()
        arguments = [
            c_uint64.from_buffer(self.addresses), c_uint64.from_buffer(self.addresses, 8),
            c_int(rows), c_int(columns), Strides(*source), Strides(*target),
            c_double.from_buffer(self.factors), c_double.from_buffer(self.factors, 8),
        ]  # fmt: skip
        grid = ceil_div(rows, SIDE) * ceil_div(columns, SIDE), 1, 1
        self.launch = Launch(function, grid, THREADS, arguments)

    def __call__(
        self, stream: int, source: int, target: int, alpha: float = 1, beta: float = 0
    ) -> None:
        """Raises DriverError."""
        self.addresses[:], self.factors[:] = [source, target], [alpha, beta]
        self.launch(stream)
