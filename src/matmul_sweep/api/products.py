"""gemm and gram of anybody's arrays."""

import threading
from collections.abc import Sequence
from ctypes import c_double
from typing import Any

import numpy as np

from matmul_sweep.api.calls import PLAIN, way_of
from matmul_sweep.api.cards import card
from matmul_sweep.api.kinds import DeviceArray, Host, kind_of
from matmul_sweep.api.requests import Question, Request

MOST_REQUESTS = 4096  # that a thread keeps
Key = tuple[Any, ...]  # of a Question


class Known(threading.local):
    """What a thread has asked for, and how it is done."""

    def __init__(self) -> None:
        self.requests: dict[Key, Request] = {}


known = Known()


def gemm(
    a: Any, b: Any, out: Any = None, *, d: Any = None, alpha: float = 1, beta: float = 0,
    kernel: str | None = None, accuracy: str = "float32",
) -> Any:  # fmt: skip
    """C = alpha·A·B + beta·D, on the stream of the arrays' library, without waiting for it.

    a, b: arrays of m×k and k×n, of one library, GPU and number type, float32 or bfloat16, which is
    C's too. Stacks of matrices have a third dimension in front; a single matrix serves all of a
    stack. out: C; without it, a new array of the library. d: D, an array like C; without it, D is
    C as it was. With beta = 0 it is not read. kernel: a name of kernels(), in place of the fastest.
    accuracy, of float32: "float32" errs at most as a sum of float32 products does, "ieee" is such a
    sum.

    Arrays that do not fit raise what their library would: ValueError or TypeError, for PyTorch's
    RuntimeError, and nothing is written. Raises also RuntimeError without a GPU, a compiler or a
    kernel for the card, and MemoryError, or the library's own error, without memory.
    """
    return multiply(False, (a, b), d, out, alpha, beta, kernel, accuracy)


def gram(
    a: Any, out: Any = None, *, d: Any = None, alpha: float = 1, beta: float = 0,
    kernel: str | None = None, accuracy: str = "float32",
) -> Any:  # fmt: skip
    """C = alpha·Aᵀ·A + beta·D with A of m×n and C of n×n; gram(x.T) is x·xᵀ.

    In float64 and bfloat16 half of C is computed and the other half mirrored; other number types
    take gemm's kernels. accuracy, of float64: without one, or with "componentwise", it errs at most
    as a sum of float64 products does, as a share of Σ|a||b|, by products of bytes where they are
    faster; "normwise" errs by some 2⁻⁵² of the norms of two columns of A; "native", or "ieee", is a
    sum of float64 products. In bfloat16 D has to be symmetric, as perhaps one half of it is read,
    and may be A. Everything else is as in gemm.
    """
    return multiply(True, (a,), d, out, alpha, beta, kernel, accuracy)


def multiply(
    symmetric: bool, inputs: tuple[Any, ...], d: Any, out: Any, alpha: float, beta: float,
    kernel: str | None, accuracy: str,
) -> Any:  # fmt: skip
    """Either of them. All but addresses and launches is done once for arrays that lie alike."""
    kind = kind_of(type(inputs[0]))
    if isinstance(kind, Host):
        return by_copies(symmetric, inputs, d, out, alpha, beta, kernel, accuracy)
    given = (*inputs, *(array for array in (d, out) if array is not None))
    for array in given:
        if kind_of(type(array)) is not kind:
            raise kind.wrong_type(f"arrays of several libraries: {names(given)}")
    addresses, looks = kind.look(given)
    both = d is not None and out is not None
    if both and addresses[-2] == addresses[-1] and looks[-2] == looks[-1]:  # D is C
        d, given, looks = None, (*inputs, out), looks[:-1]
        del addresses[-1]
    way = way_of(alpha, beta)
    if way != PLAIN:
        alpha, beta = c_double(alpha).value, c_double(beta).value  # TypeError of what is no number
    if beta and d is None and out is None:
        raise kind.wrong("beta is not 0, and there is nothing to add: give d or out")
    key = kind, symmetric, kernel, accuracy, way, d is not None, out is None, looks
    request = known.requests.get(key) or prepared(key)
    if out is None:
        out = request.new()
        addresses.append(kind.address(out))
    else:
        request.check_apart(addresses)
        kind.written(out)
    request.launch(given, addresses, alpha, beta)
    return out


def prepared(key: Key) -> Request:
    """What to do, from now on without thinking. Raises what gemm does."""
    if len(known.requests) == MOST_REQUESTS:
        known.requests.clear()
    return known.requests.setdefault(key, Request(Question(*key)))


def by_copies(
    symmetric: bool, inputs: Sequence[Any], d: Any, out: Any, alpha: float, beta: float,
    kernel: str | None, accuracy: str,
) -> Any:  # fmt: skip
    """Of NumPy's arrays, by copies on the first GPU."""
    given = (*inputs, *(array for array in (d, out) if array is not None))
    if not all(isinstance(array, np.ndarray) for array in given):
        raise TypeError(f"arrays of several libraries: {names(given)}")
    with card(0).current():
        own = tuple(DeviceArray.of(array) for array in inputs)
        added = None if d is None else DeviceArray.of(d)
        target = None
        if out is not None:
            read = beta and d is None
            target = DeviceArray.of(out) if read else DeviceArray(out.shape, out.dtype)
        made = multiply(symmetric, own, added, target, alpha, beta, kernel, accuracy)
        if out is None:
            out = np.empty(made.shape, made.dtype)
        made.copy_to(out)
    return out


def names(arrays: Sequence[Any]) -> str:
    return ", ".join(f"{type(each).__module__}.{type(each).__name__}" for each in arrays)
