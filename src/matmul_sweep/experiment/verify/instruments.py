"""The instruments on the device: fill, mirror, clear the L2, hold the stream, and do nothing."""

import time
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.experiment.verify.cublas import WORKSPACE_BYTES, Cublas
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.operations import fills
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import HANG_SECONDS, Unfinished, UserError, left_running

ONE = (1, 1, 1)
LONG_S = 0.02  # a wait
BLOCKS, THREADS = (1056, 1, 1), (256, 1, 1)  # grid-stride kernels: any grid is right
MIRROR_TILE, MIRROR_THREADS = 32, (32, 8, 1)
FILLED = [name for name, dtype in DTYPES.items() if dtype.units]  # those of instruments.cu
FUNCTIONS = {
    "hold": "PQ",
    "empty": "",
    "split": "PPPPdQ",
    "mirror": "Pi",
    **{f"fill_{dtype}": "PQiQii" for dtype in FILLED},
    **{f"scale_{dtype}": "PQd" for dtype in FILLED},
    **{f"compare_{dtype}": "PPPPQQQiddP" for dtype in FILLED},
    **{f"widen_{dtype}": "PPPQ" for dtype in FILLED},
}


def as_bytes(array: np.ndarray) -> np.ndarray:
    """A view of a contiguous array as bytes, which the driver copies whatever their type."""
    return array.reshape(-1).view(np.uint8)


class Instruments:
    """Kernels of instruments.cu and a cuBLAS handle, on one stream of one GPU."""

    def __init__(self, gpu: Gpu, build: Path, hang_seconds: float = HANG_SECONDS) -> None:
        """`build` has <architecture>/instruments.cubin. Raises UserError without this GPU's."""
        self.drv, self.errors, self.hang_seconds = gpu.drv, gpu.errors, hang_seconds
        self.stream = self.drv.Stream()
        self.binaries = build / gpu.architecture
        if not self.binaries.is_dir():
            raise UserError(
                f"nothing is compiled for {gpu.name}: add {gpu.architecture} to "
                "`architectures` of the configuration"
            )
        module = self.drv.module_from_file(str(self.binaries / "instruments.cubin"))
        self.functions = {
            name: module.get_function(name).prepare(arguments)
            for name, arguments in FUNCTIONS.items()
        }
        self.workspace = self.drv.mem_alloc(WORKSPACE_BYTES)
        self.sweep_bytes = 2 * gpu.l2_bytes
        self.sweep = self.drv.mem_alloc(self.sweep_bytes)

    @cached_property
    def cublas(self) -> Cublas:
        """Loaded at its first use, because most verifications do without."""
        return Cublas(self.stream.handle, int(self.workspace))

    def wait(self, done: Callable[[], bool] | None = None) -> None:
        """Wait for the stream, or until `done` is true. Raises Unfinished after `hang_seconds`.

        The driver is asked again and again, because nothing ends a wait inside it; in a long wait,
        and for `done`, now and then, so that the thread that reads the card's state is not held up.
        """
        start, spinning_s = time.perf_counter(), 0 if done else LONG_S
        while not (done or self.stream.is_done)():
            waited = time.perf_counter() - start
            if waited > self.hang_seconds:
                failure = Unfinished(self.hang_seconds)
                left_running.append(failure)
                raise failure
            if waited > spinning_s:
                time.sleep(LONG_S / 100)

    def finished(self, launch: Callable[[], None]) -> None:
        """Launch, and wait for its end. Raises Unfinished."""
        launch()
        self.wait()

    def call(
        self, name: str, *arguments: object, grid: tuple[int, ...] = BLOCKS,
        block: tuple[int, ...] = THREADS,
    ) -> None:  # fmt: skip
        """Enqueue a kernel, a grid-stride one unless its grid is given."""
        self.functions[name].prepared_async_call(grid, block, self.stream, *arguments)

    def hold(self, flag: int, patience_ns: int) -> None:
        """Keep the stream busy until the host writes to the address `flag`."""
        self.call("hold", flag, patience_ns, grid=ONE, block=ONE)

    def empty(self) -> None:
        """Launch a kernel that does nothing."""
        self.call("empty", grid=ONE, block=ONE)

    def inputs(self, fill: str, seed: int, shape: Shape, dtype: str) -> list[Any]:
        """The inputs of a product on the device."""
        counts = shape.elements[:-1]
        return [self.filled(fill, seed, which, n, dtype) for which, n in enumerate(counts)]

    def filled(self, fill: str, seed: int, matrix: int, count: int, dtype: str) -> Any:
        """A device array of `count` elements of matrix 0 (A) or 1 (B)."""
        array = self.drv.mem_alloc(DTYPES[dtype].bytes * count)
        kind, start = fills.FILLS.index(fill), fills.start_of(seed, matrix)
        self.call(f"fill_{dtype}", array, count, kind, start, matrix, DTYPES[dtype].mantissa)
        return array

    def poisoned(self, count: int, dtype: str) -> Any:
        """A device array of `count` NaN, to show the elements that a kernel does not write."""
        array = self.drv.mem_alloc(DTYPES[dtype].bytes * count)
        self.poison(array, count, dtype)
        return array

    def poison(self, array: Any, count: int, dtype: str) -> None:
        """Fill a device array of `count` elements with NaN (all bits are ones)."""
        self.drv.memset_d8_async(array, 0xFF, DTYPES[dtype].bytes * count, self.stream)

    def scale(self, array: int, count: int, dtype: str, factor: float) -> None:
        """Multiply a device array of `count` elements by a power of two."""
        self.call(f"scale_{dtype}", array, count, factor)

    def mirror(self, c: int, n: int) -> None:
        """Copy the upper triangle of the n×n matrix at `c`, float64, into the lower one."""
        tiles = ceil_div(n, MIRROR_TILE)
        self.call("mirror", c, n, grid=(tiles, tiles, 1), block=MIRROR_THREADS)

    def clear_l2(self) -> None:
        """Write twice the L2's size, so that no input is left in it."""
        self.drv.memset_d32_async(self.sweep, 0, self.sweep_bytes // 4, self.stream)
