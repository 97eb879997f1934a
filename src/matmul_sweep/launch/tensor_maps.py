"""Tensor maps: descriptions of arrays in memory that the tensor memory accelerator reads."""

import ctypes
from typing import Any

from matmul_sweep.catalogue.plans import TensorMap
from matmul_sweep.launch.driver import library
from matmul_sweep.operations.dtypes import DTYPES
from matmul_sweep.process.errors import UserError

MAP_BYTES = 128
ALIGNMENT = 64  # bytes, of a tensor map
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # CUtensorMapSwizzle of cuda.h


def encoded(wanted: TensorMap, address: int) -> bytes:
    """The map of an array at a device address, as a kernel takes it.

    Raises UserError if the driver refuses it.
    """
    room = (ctypes.c_byte * (MAP_BYTES + ALIGNMENT))()
    place = -(-ctypes.addressof(room) // ALIGNMENT) * ALIGNMENT
    rank = len(wanted.extents)

    def fastest_first(kind: Any, numbers: tuple[int, ...]) -> Any:
        return (kind * len(numbers))(*reversed(numbers))

    error = library().cuTensorMapEncodeTiled(
        ctypes.c_void_p(place), DTYPES[wanted.dtype].tensor_map, rank, ctypes.c_void_p(address),
        fastest_first(ctypes.c_uint64, wanted.extents),
        fastest_first(ctypes.c_uint64, wanted.strides),
        fastest_first(ctypes.c_uint32, wanted.box),
        (ctypes.c_uint32 * rank)(*[1] * rank),  # every element of the box
        0,  # elements are not interleaved
        SWIZZLES[wanted.swizzle],
        0,  # the L2 fetches no more than is asked for
        0,  # what lies outside is read as zero
    )  # fmt: skip
    if error:
        raise UserError(
            f"the driver refuses a tensor map (error {error}) at {address:#x}: {wanted}"
        )
    return ctypes.string_at(place, MAP_BYTES)
