"""Kinds of arrays: how each tells where its numbers lie, on which stream its owner works, and how a
new array of the kind is made."""

import math
import sys
from collections.abc import Callable, Sequence
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from matmul_sweep.launch import driver
from matmul_sweep.launch.driver import Memory, StreamMemory, call

ALIGNMENT = 16  # bytes: kernels take matrices that begin at multiples of it


class Seen(NamedTuple):
    """An array as its library describes it. What is unlike in two arrays is unlike here."""

    dtype: Any
    device: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # None: row-major without gaps
    odd: int  # its address beyond a multiple of ALIGNMENT


Look = tuple[Any, ...]
ON_CPU = -1  # in the place of a GPU's number
ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL of cuda.h
INVALID_VALUE = 1  # CUDA_ERROR_INVALID_VALUE
WITHOUT_TIME = 2  # CU_EVENT_DISABLE_TIMING


class Kind:
    """A kind of arrays on a GPU, as `__cuda_array_interface__` describes them. It has no allocator
    that we know, so a product needs `out`."""

    wrong: type[Exception] = ValueError  # of shapes and values
    wrong_type: type[Exception] = TypeError
    has_views = False  # whether an array can be handed out in column-major order
    allocates = False  # whether its library has memory for the time of a call
    writable = True
    no_memory: type[Exception] = MemoryError

    def look(self, arrays: Sequence[Any]) -> tuple[list[int], tuple[Look, ...]]:
        """The addresses of arrays, and how they lie: the fields of Seen."""
        addresses = [self.address(array) for array in arrays]
        looks = zip(map(self.seen, arrays), addresses, strict=True)
        return addresses, tuple((*seen, address % ALIGNMENT) for seen, address in looks)

    def address(self, array: Any) -> int:
        return array.__cuda_array_interface__["data"][0]

    def seen(self, array: Any) -> Look:
        """The fields of Seen but the last."""
        described = array.__cuda_array_interface__
        place = ordinal(described["data"][0])
        return described["typestr"], place, described["shape"], described.get("strides")

    def dtype(self, own: Any) -> str:
        """The name of a number type. Raises the kind's error for bytes in the other order."""
        if not np.dtype(own).isnative:
            raise self.wrong_type(f"{own}: numbers with their bytes in the other order")
        return np.dtype(own).name

    def strides(self, seen: Seen) -> tuple[int, ...]:
        """In elements. Raises the kind's error where they are no whole numbers."""
        if seen.strides is None:
            return tuple(math.prod(seen.shape[i + 1 :]) for i in range(len(seen.shape)))
        size = np.dtype(seen.dtype).itemsize
        if any(stride % size for stride in seen.strides):
            raise self.wrong(f"steps of {seen.strides} bytes between numbers of {size}")
        return tuple(stride // size for stride in seen.strides)

    def stream(self, device: int, arrays: Sequence[Any]) -> int:
        """The stream on which these arrays are ready, and on which the product goes: C's, if it
        names one, which waits for the others that are named."""
        named = [a.__cuda_array_interface__.get("stream") for a in reversed(arrays)]
        own, *others = dict.fromkeys(filter(None, named)) or [0]
        for other in others:
            wait_for(own, other)
        return own

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        raise TypeError("arrays of this kind have no allocator that is known here: give `out`")

    def scratch(self, size: int, device: int, stream: int) -> tuple[object, int]:
        """Memory for the time of a call: what keeps it, and its address. The device's context is
        current, unless the library allocates."""
        memory = StreamMemory(size, stream)
        return memory, int(memory)

    def finish(self, stream: int) -> None:
        """Called after the last launch; likewise."""

    def written(self, array: Any) -> None:
        """Told of an `out` that a product writes. Raises the kind's error if nobody may."""
        if array.__cuda_array_interface__["data"][1]:
            raise self.wrong("out is read-only: give another array")


class Torch(Kind):
    """PyTorch's tensors."""

    wrong = wrong_type = RuntimeError
    has_views = allocates = True

    def __init__(self) -> None:
        self.torch: Any = sys.modules["torch"]
        self.no_memory = self.torch.cuda.OutOfMemoryError
        self.current_stream: Any = getattr(self.torch._C, "_cuda_getCurrentRawStream", None)

    def look(self, arrays: Sequence[Any]) -> tuple[list[int], tuple[Look, ...]]:
        addresses, looks = [], []
        for array in arrays:
            if array.requires_grad and self.torch.is_grad_enabled():
                raise RuntimeError(
                    "a tensor that requires grad: matmul_sweep.torch.gemm has a gradient, and this "
                    "product none; or call it within torch.no_grad()"
                )
            if array.is_neg():
                raise RuntimeError("a tensor with the negative bit: take resolve_neg() of it")
            address = array.data_ptr()
            addresses.append(address)
            looks.append((
                array.dtype, array.get_device(), array.shape, array.stride(), address % ALIGNMENT
            ))  # fmt: skip
        return addresses, tuple(looks)

    def address(self, array: Any) -> int:
        return array.data_ptr()

    def dtype(self, own: Any) -> str:
        return str(own).removeprefix("torch.")

    def strides(self, seen: Seen) -> tuple[int, ...]:
        return seen.strides or ()

    def stream(self, device: int, arrays: Sequence[Any]) -> int:
        return self.current_stream(device)

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        return self.torch.empty(shape, dtype=dtype, device=device)

    def written(self, array: Any) -> None:
        self.torch.autograd.graph.increment_version(array)  # or a gradient would read it unawares

    def scratch(self, size: int, device: int, stream: int) -> tuple[object, int]:
        memory = self.torch.empty(size, dtype=self.torch.uint8, device=device)
        return memory, memory.data_ptr()


class Cupy(Kind):
    """CuPy's arrays."""

    has_views = allocates = True

    def __init__(self) -> None:
        self.cupy: Any = sys.modules["cupy"]

    def address(self, array: Any) -> int:
        return array.data.ptr

    def seen(self, array: Any) -> Look:
        return array.dtype, array.data.device_id, array.shape, array.strides

    def written(self, array: Any) -> None:
        """CuPy's arrays can all be written to."""

    def stream(self, device: int, arrays: Sequence[Any]) -> int:
        return self.cupy.cuda.get_current_stream(device).ptr

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        with self.cupy.cuda.Device(device):
            return self.cupy.empty(shape, dtype)

    def scratch(self, size: int, device: int, stream: int) -> tuple[object, int]:
        with self.cupy.cuda.Device(device):
            if is_capturing(stream):  # CuPy's pool would give it to others, and the graph use it
                return super().scratch(size, device, stream)
            memory = self.cupy.cuda.alloc(size)
        return memory, memory.ptr


class Numba(Kind):
    """Numba's device arrays."""

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        cuda = sys.modules["numba"].cuda
        with cuda.gpus[device]:
            return cuda.device_array(shape, np.dtype(dtype))


class Jax(Kind):
    """JAX's arrays, outside of jit. JAX names no stream: a call waits for its inputs and for C."""

    writable = False

    def address(self, array: Any) -> int:
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise TypeError("an array within jax.jit has no memory yet: multiply outside of it")
        if (count := len(array.devices())) > 1:
            raise ValueError(f"an array on {count} devices: give what one of them has")
        return array.block_until_ready().unsafe_buffer_pointer()

    def seen(self, array: Any) -> Look:
        [device] = array.devices()
        place = ON_CPU if device.platform == "cpu" else device.local_hardware_id
        return array.dtype, place, array.shape, None

    def stream(self, device: int, arrays: Sequence[Any]) -> int:
        return 0

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        jax = sys.modules["jax"]
        place = next(d for d in jax.local_devices() if d.local_hardware_id == device)
        return jax.numpy.empty(shape, dtype, device=place)

    def finish(self, stream: int) -> None:
        call("cuStreamSynchronize", c_void_p(stream))


class Own(Kind):
    """DeviceArray."""

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> "DeviceArray":
        return DeviceArray(shape, np.dtype(dtype))


class Host(Kind):
    """NumPy's arrays, which have to be copied to a GPU."""


class DeviceArray:
    """An array on the device of the current context, for copies of NumPy's arrays."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Raises OutOfMemory."""
        self.shape, self.dtype = shape, dtype
        self.bytes = int(np.prod(shape)) * dtype.itemsize
        self.memory = Memory(max(self.bytes, 1))

    @classmethod
    def of(cls, array: np.ndarray) -> "DeviceArray":
        """A copy, in row-major order."""
        dense = np.ascontiguousarray(array)
        made = cls(array.shape, array.dtype)
        call("cuMemcpyHtoD_v2", c_uint64(int(made.memory)), c_void_p(dense.ctypes.data),
             c_size_t(made.bytes))  # fmt: skip
        return made

    def copy_to(self, array: np.ndarray) -> None:
        """Write it into an array of its shape, when it is ready."""
        dense = np.empty(self.shape, self.dtype)
        call("cuMemcpyDtoH_v2", c_void_p(dense.ctypes.data), c_uint64(int(self.memory)),
             c_size_t(self.bytes))  # fmt: skip
        array[...] = dense

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (int(self.memory), False)
        # The type itself, because NumPy's text for bfloat16 is that for any two bytes.
        return {"shape": self.shape, "typestr": self.dtype, "data": data, "version": 3}


def wait_for(stream: int, other: int) -> None:
    """Let a stream wait for what is enqueued on another one now."""
    event = c_void_p()
    call("cuEventCreate", byref(event), WITHOUT_TIME)
    call("cuEventRecord", event, c_void_p(other))
    call("cuStreamWaitEvent", c_void_p(stream), event, 0)
    call("cuEventDestroy_v2", event)  # it goes when the wait is over


def is_capturing(stream: int) -> bool:
    """Whether a graph is captured from a stream."""
    status = c_int()
    call("cuStreamIsCapturing", c_void_p(stream), byref(status))
    return bool(status.value)


def ordinal(address: int) -> int:
    """The number of the GPU that has an address, or ON_CPU. Raises DriverError."""
    found = c_int()
    if address:
        error = driver.library().cuPointerGetAttribute(byref(found), ORDINAL, c_uint64(address))
        if error == INVALID_VALUE:
            return ON_CPU
        if error:
            raise driver.failure("cuPointerGetAttribute", error)
    return found.value


# By the package of their type.
KINDS = {
    "torch": Torch, "cupy": Cupy, "jax": Jax, "jaxlib": Jax, "numba": Numba, "numpy": Host,
    "matmul_sweep": Own,
}  # fmt: skip


@cache
def one(kind: type[Kind]) -> Kind:
    """The only one, so that the kinds of two arrays can be compared."""
    return kind()


def kind_by_package(owner: Any) -> Kind:
    """The kind of an array by its type. Raises TypeError."""
    for base in owner.__mro__:
        if made := KINDS.get(base.__module__.partition(".")[0]):
            return one(made)
    if hasattr(owner, "__cuda_array_interface__"):
        return one(Kind)
    raise TypeError(
        f"{owner.__name__}: give arrays of PyTorch, CuPy, JAX, Numba or NumPy, or ones with "
        "__cuda_array_interface__"
    )


kind_of: Callable[[Any], Kind] = cache(kind_by_package)
