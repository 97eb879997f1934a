"""A product with its copies, by the host's clock: what documents 000 and 002 timed."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from matmul_sweep.experiment.measure.timing import host_ms
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import GpuProduct
from matmul_sweep.operations import operation_of
from matmul_sweep.operations.shapes import Shape


def phases(
    tools: Instruments, product: GpuProduct, shape: Shape, arrays: Sequence[int]
) -> Mapping[str, Callable[[], float]]:
    """What takes one time of each phase, in ms, with pageable memory of the host; `arrays` are
    device pointers to the inputs and to C."""
    drv, sizes = tools.drv, operation_of(shape).sizes(shape)
    host = [np.empty(size, np.uint8) for size in sizes]
    for array, source in zip(host, arrays, strict=True):
        drv.memcpy_dtoh(array, source)
    shared = drv.mem_attach_flags.GLOBAL
    managed = [drv.managed_empty(size, np.uint8, mem_flags=shared) for size in sizes]
    pointers = [array.base.get_device_pointer() for array in managed]

    def upload() -> None:
        for array, values in zip(arrays[:-1], host[:-1], strict=True):
            drv.memcpy_htod(array, values)

    def download() -> None:
        drv.memcpy_dtoh(host[-1], arrays[-1])

    def whole() -> None:
        upload()
        tools.finished(lambda: product(shape, *arrays))
        download()

    def submitted() -> float:
        """The handing over of a launch."""
        milliseconds = host_ms(lambda: product(shape, *arrays))
        tools.wait()
        return milliseconds

    def unified() -> float:
        """A launch on managed memory that the host has just written: the kernel and the migration.
        A host timer around the launch, as in documents 000 and 002, sees this time."""
        for array, values in zip(managed, host, strict=True):
            array[:] = values
        return host_ms(lambda: tools.finished(lambda: product(shape, *pointers)))

    return {
        "h2d": lambda: host_ms(upload),
        "d2h": lambda: host_ms(download),
        "end_to_end": lambda: host_ms(whole),
        "unified": unified,
        "submitted": submitted,
    }
