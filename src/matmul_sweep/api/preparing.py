"""Before the first product: which kernels there are, and compiling them ahead."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from matmul_sweep.api.cards import card, catalogue, chosen, operation_for
from matmul_sweep.catalogue.entries import Variant


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
    gemm, (m, n) of gram, with alpha = 1 and beta = 0. Raises what gemm does."""
    gpu, wanted = card(device), dict[str, Variant]()
    for extents in shapes:
        operation = operation_for(dtype, symmetric=len(extents) == 2)
        if not operation and len(extents) == 2:  # gram by gemm's kernels
            m, n = extents
            operation, extents = operation_for(dtype, symmetric=False), (n, n, m)
        if not operation:
            raise TypeError(f"no kernel multiplies {dtype} at {tuple(extents)}")
        # A kernel that computes AAᵀ has the A of gram transposed.
        shape = operation.shape(*(extents[::-1] if operation.right_transposed else extents))
        variant = chosen(kernel, accuracy, operation, shape, gpu.architecture)
        wanted[variant.slug] = variant
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(gpu.compiled, wanted.values()))
