"""Before the first product: which kernels there are, and compiling them ahead."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from operator import index
from typing import Any

from matmul_sweep.api.cards import card, catalogue, check_accuracy, chosen, operation_for
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import LARGEST, Shape


def kernels() -> dict[str, str]:
    """The names that `kernel` takes, each with what it computes and its lesson. A tiling can be
    named too: "streamed/128x256"."""
    own = [k for k in catalogue().values() if k.hand_written and k.product.output == k.dtype]
    return {k.name: f"{k.product.title} in {k.dtype}. {k.lesson}" for k in own}


def prepare(
    shapes: Iterable[Sequence[int]], dtype: str = "float32", *, kernel: str | None = None,
    accuracy: str = "float32", device: int = 0,
) -> None:  # fmt: skip
    """Compile what products of these shapes take on a GPU, so that no call has to: (m, n, k) of
    gemm, (m, n) of gram. Raises what gemm does."""
    check_accuracy(accuracy)
    gpu, wanted = card(device), dict[str, Variant]()
    for extents in shapes:
        operation, shape = product(extents, dtype)
        variant = chosen(kernel, accuracy, operation, shape, gpu.architecture)
        wanted |= {each.slug: each for each in (variant, variant.adding)}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = pool.map(gpu.compiled, wanted.values())
        _ = gpu.combining  # what copies and adds is compiled meanwhile
        list(compiled)


def product(extents: Any, dtype: str) -> tuple[Operation, Shape]:
    """What is computed for (m, n, k) or (m, n), and its shape as the kernel has it. Raises
    ValueError, and TypeError for a number type without a kernel."""
    sides: tuple[int, ...] = ()
    with suppress(TypeError):  # of what is no row of whole numbers
        sides = tuple(map(index, extents))
    if len(sides) not in (2, 3) or not all(0 < side <= LARGEST for side in sides):
        raise ValueError(f"prepare takes a list of shapes, (m, n, k) of gemm or (m, n) of gram, "
                         f"each side from 1 to {LARGEST}, and {extents} is none")  # fmt: skip
    operation = operation_for(dtype, symmetric=len(sides) == 2)
    if not operation and len(sides) == 2:  # gram by gemm's kernels
        m, n = sides
        operation, sides = operation_for(dtype, symmetric=False), (n, n, m)
    if not operation:
        raise TypeError(f"no kernel multiplies {dtype} at {sides}")
    # A kernel that computes AAᵀ has the A of gram transposed.
    return operation, operation.shape(*(sides[::-1] if operation.right_transposed else sides))
