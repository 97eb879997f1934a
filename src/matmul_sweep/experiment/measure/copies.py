"""A product with its copies, by the host's clock: what documents 000 and 002 timed."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from matmul_sweep.experiment.measure.timing import host_ms
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import GpuProduct
from matmul_sweep.operations import operation_of
from matmul_sweep.operations.shapes import Shape


class Copied:
    """A product, its matrices on the device, and the same in pageable memory of the host."""

    def __init__(
        self, tools: Instruments, product: GpuProduct, shape: Shape, arrays: Sequence[int]
    ) -> None:
        """arrays: device pointers to the inputs and to C."""
        self.tools, self.product, self.shape, self.arrays = tools, product, shape, arrays
        self.host = [np.empty(size, np.uint8) for size in operation_of(shape).sizes(shape)]
        for array, source in zip(self.host, arrays, strict=True):
            tools.drv.memcpy_dtoh(array, source)

    def phases(self) -> Mapping[str, Callable[[], float]]:
        """What takes one time of each phase, in ms."""
        return {
            "h2d": lambda: host_ms(self.upload),
            "d2h": lambda: host_ms(self.download),
            "end_to_end": lambda: host_ms(self.whole),
            "unified": self.unified(),
            "submitted": self.submitted,
        }

    def upload(self) -> None:
        for array, values in zip(self.arrays[:-1], self.host[:-1], strict=True):
            self.tools.drv.memcpy_htod(array, values)

    def download(self) -> None:
        self.tools.drv.memcpy_dtoh(self.host[-1], self.arrays[-1])

    def whole(self) -> None:
        self.upload()
        self.tools.finished(lambda: self.product(self.shape, *self.arrays))
        self.download()

    def submitted(self) -> float:
        """The handing over of a launch."""
        milliseconds = host_ms(lambda: self.product(self.shape, *self.arrays))
        self.tools.wait()
        return milliseconds

    def unified(self) -> Callable[[], float]:
        """A launch on managed memory that the host has just written: the kernel and the migration.

        A host timer around the launch, as in documents 000 and 002, sees this time.
        """
        drv = self.tools.drv
        managed = [
            drv.managed_empty(len(array), np.uint8, mem_flags=drv.mem_attach_flags.GLOBAL)
            for array in self.host
        ]
        pointers = [array.base.get_device_pointer() for array in managed]

        def one() -> float:
            for array, values in zip(managed, self.host, strict=True):
                array[:] = values
            return host_ms(lambda: self.tools.finished(lambda: self.product(self.shape, *pointers)))

        return one
