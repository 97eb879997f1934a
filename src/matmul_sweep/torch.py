"""Products in PyTorch as its users want them: operators with a gradient that torch.compile takes,
and `patch`, which makes PyTorch's own products use the library."""

import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from matmul_sweep.api import products

if torch.__version__ < (2, 5):
    raise ImportError(f"PyTorch 2.5 or later is wanted, and this is {torch.__version__}")

LAUNCHED = 1e9  # operations in whose time a launch from Python takes place
PATCHED = "CUDA"  # the tensors whose products `patch` takes, as PyTorch dispatches them


@torch.library.custom_op("matmul_sweep::gemm", mutates_args=())
def gemm(a: Tensor, b: Tensor, accuracy: str = "float32") -> Tensor:
    """C = A·B of tensors on a GPU, with a gradient; shapes, number types and errors are those of
    matmul_sweep.gemm. C is row-major."""
    return multiplied(a, b, accuracy)


@gemm.register_fake
def _(a: Tensor, b: Tensor, accuracy: str = "float32") -> Tensor:
    return new_product(a, b)


def new_product(a: Tensor, b: Tensor) -> Tensor:
    """An empty C."""
    stack = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*stack, *a.shape[-2:-1], *b.shape[-1:]))


def multiplied(a: Tensor, b: Tensor, accuracy: str, alpha: float = 1) -> Tensor:
    """C = alpha·A·B without a gradient."""
    with torch.no_grad():
        return products.gemm(a, b, new_product(a, b), alpha=alpha, accuracy=accuracy)


def keep(ctx: Any, inputs: tuple[Tensor, Tensor, str], output: Tensor) -> None:
    """What the gradients read: the gradient of A reads B, that of B reads A."""
    a, b, ctx.accuracy = inputs
    wanted_a, wanted_b, *_ = ctx.needs_input_grad
    ctx.shapes = a.shape, b.shape
    ctx.save_for_backward(a if wanted_b else None, b if wanted_a else None)


def gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
    """Of A: the gradient times Bᵀ, of B: Aᵀ times the gradient; summed where one matrix served a
    stack."""
    (a, b), (of_a, of_b) = ctx.saved_tensors, ctx.shapes
    made_a = gemm(gradient, b.mT, ctx.accuracy).sum_to_size(of_a) if b is not None else None
    if a is None:
        return made_a, None, None
    if len(of_b) == 2 and a.dim() == 3:  # one product in place of a stack of them
        a, gradient = a.flatten(0, 1), gradient.flatten(0, 1)
    return made_a, gemm(a.mT, gradient, ctx.accuracy).sum_to_size(of_b), None


gemm.register_autograd(gradients, setup_context=keep)


@torch.library.custom_op("matmul_sweep::gram", mutates_args=())
def gram(a: Tensor, accuracy: str = "float32") -> Tensor:
    """C = AᵀA of a tensor on a GPU, with a gradient; as matmul_sweep.gram."""
    with torch.no_grad():
        return products.gram(a, new_product(a.mT, a), accuracy=accuracy)


@gram.register_fake
def _(a: Tensor, accuracy: str = "float32") -> Tensor:
    return new_product(a.mT, a)


def keep_factor(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
    a, ctx.accuracy = inputs
    ctx.save_for_backward(a)


def gradient_of_gram(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    """Of A: A times the sum of the gradient and its transpose."""
    [a] = ctx.saved_tensors
    both = gradient + gradient.mT
    if a.dtype == torch.float64:  # of which gemm has no kernel
        return a @ both, None
    return gemm(a, both, ctx.accuracy), None


gram.register_autograd(gradient_of_gram, setup_context=keep_factor)


@contextmanager
def patch(accuracy: str = "float32") -> Iterator[Counter[str]]:
    """Within the block torch.mm, matmul, addmm, bmm, nn.Linear and their gradients multiply float32
    tensors on a GPU by this library, in all threads; everything else is PyTorch's as before, and so
    are stacks of products below LAUNCHED, each of which would be a launch. One block at a time.

    Yields how often each product was taken: Counter({"mm 64x64x64": 2}).
    """
    taken: Counter[str] = Counter()
    aten = torch.ops.aten

    def ours(name: str, a: Tensor, b: Tensor) -> bool:
        """Whether a product is taken, and if so it is counted."""
        own = a.dtype == b.dtype == torch.float32 and a.device == b.device
        own = own and a.dim() == b.dim() == (3 if name == "bmm" else 2)
        if own and name == "bmm" and 2 * a[0].numel() * b.shape[-1] < LAUNCHED:
            return False
        if own:
            taken[f"{name} {'x'.join(map(str, (*a.shape[:-1], b.shape[-1], a.shape[-1])))}"] += 1
        return own

    def mm(a: Tensor, b: Tensor) -> Tensor:
        if ours("mm", a, b):
            return multiplied(a, b, accuracy)
        return aten.mm.out(a, b, out=a.new_empty(0))

    def bmm(a: Tensor, b: Tensor) -> Tensor:
        if ours("bmm", a, b):
            return multiplied(a, b, accuracy)
        return aten.bmm.out(a, b, out=a.new_empty(0))

    def addmm(c: Tensor, a: Tensor, b: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
        if c.dtype == torch.float32 and ours("addmm", a, b):
            made = multiplied(a, b, accuracy, alpha)
            return made.add_(c, alpha=beta) if beta else made
        return aten.addmm.out(c, a, b, beta=beta, alpha=alpha, out=a.new_empty(0))

    with torch.library._scoped_library("aten", "IMPL") as library:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*[Oo]verrid")  # which is the point
            for own in (mm, bmm, addmm):
                library.impl(own.__name__, own, PATCHED)
        yield taken
