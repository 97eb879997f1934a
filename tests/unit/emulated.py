"""Kernels on the CPU: those of a catalogue, and texts."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation, watched
from matmul_sweep.experiment.verify.verification import Accuracy, accuracy
from matmul_sweep.operations import fills
from matmul_sweep.operations.gram import GRAM, Gram
from matmul_sweep.operations.shapes import Shape

LANES = np.arange(64, dtype=np.float32)


def product_on_cpu(
    variant: Variant, executable: Path, shape: Shape, *given: np.ndarray
) -> tuple[np.ndarray, Accuracy]:
    """C, from NaN, of these inputs or of random ones."""
    kernel = variant.kernel
    inputs = given or fills.inputs("uniform", 3, shape, kernel.dtype)
    c = np.full(shape.output, np.nan, kernel.product.output)
    c = emulation.launch(executable, variant.plan(shape), shape, inputs, c, 60)
    return c, accuracy(kernel, c, *inputs)


def added_on_cpu(variant: Variant, executable: Path, shape: Shape) -> tuple[np.ndarray, Accuracy]:
    """C = alpha·product + beta·D of random ones, from NaN. D is symmetric where C is."""
    operation, alpha, beta = variant.kernel.product, -1.5, 0.75
    inputs = fills.inputs("uniform", 3, shape, operation.dtype)
    d = np.random.default_rng(3).uniform(-1, 1, shape.output).astype(operation.output)
    if operation.symmetric:
        d = np.triu(d) + np.triu(d, 1).T
    c = np.full(shape.output, np.nan, operation.output)
    epilogue = emulation.Epilogue(alpha, beta, d)
    c = emulation.launch(executable, variant.plan(shape), shape, inputs, c, 60, epilogue)
    added = d.astype(np.float64)
    left, right = (factor.astype(np.float64) for factor in operation.factors(*inputs))
    expected = alpha * left @ right + beta * added
    error = np.abs(c.astype(np.float64) - expected)
    terms = np.abs(alpha * left) @ np.abs(right) + np.abs(beta * added)
    scale = operation.error_scale(shape.terms + 2)
    shares = error / (scale * terms + operation.rounding * np.abs(expected))
    share = np.inf if np.isnan(error).any() else float(shares.max())
    return c, Accuracy(share, float(error.max()), float(error.mean()))


def checked(variant: Variant, found: tuple[np.ndarray, Accuracy]) -> Accuracy:
    """The accuracy of a C, infinitely bad if it ought to be symmetric to the bit and is not."""
    c, own = found
    whole = variant.kernel.product.symmetric and variant.kernel.writes == "full"
    return replace(own, share=np.inf) if whole and c.tobytes() != c.T.tobytes() else own


def products(
    variant: Variant, shapes: Sequence[str], folder: Path, source: Path | None = None
) -> Iterator[Accuracy]:  # fmt: skip
    """The accuracy of random products, in turn, by the kernel's source or one in its place; of a
    kernel with an epilogue also with one."""
    executable = folder / "kernel"
    emulation.build_variant(variant.adding, executable, source=source)
    for shape in map(variant.kernel.product.parse, shapes):
        yield checked(variant, product_on_cpu(variant, executable, shape))
        if variant.kernel.epilogue:
            yield checked(variant, added_on_cpu(variant, executable, shape))


def watched_product(
    variant: Variant, folder: Path, shape: Shape, source: Path | None = None
) -> watched.Watched:
    """What a watched launch does with random inputs, from NaN."""
    emulation.build_variant(variant, folder / "watched", watch=True, source=source)
    inputs = tuple(fills.inputs("uniform", 3, shape, variant.kernel.dtype))
    c = np.full(shape.output, np.nan, variant.kernel.product.output)
    return watched.launch(folder / "watched", variant.plan(shape), shape, inputs, c, 60)


def build_text(
    text: str, folder: Path, watch: bool = False, dtype: str = "float32",
    seconds: float | None = None,
) -> Path:  # fmt: skip
    """The program of a kernel `f` that takes (A, C, m, n), both of this type."""
    source, executable = folder / "f.cu", folder / "f"
    source.write_text(text)
    operation = replace(GRAM, dtype=dtype, output=dtype, sums="float32")
    emulation.build(source, ["f"], operation, {}, executable, watch, seconds=seconds)
    return executable


def kernel(body: str, top: str = "", type_: str = "float") -> str:
    """The text of a kernel `f`."""
    parameters = f"const {type_}* A, {type_}* C, int m, int n"
    return f'{top}\nextern "C" __global__ void f({parameters})\n{{\n{body}\n}}\n'


def launched(
    text: str, folder: Path, watch: bool = False, threads: int = 64, blocks: int = 1,
    dtype: str = "float32", values: np.ndarray = LANES,
) -> Any:  # fmt: skip
    """C, or what a watched launch did, with 64 elements for each block or one for each value of
    A."""
    executable = build_text(text, folder, watch, dtype)
    n = math.isqrt(max(64 * blocks, values.size) - 1) + 1  # of the rows and columns of A and C
    a = np.resize(values.astype(dtype), (n, n))
    plan = Plan((Launch((blocks, 1, 1), (threads, 1, 1)),))
    launch = (executable, plan, Gram(*a.shape), (a,), np.zeros((n, n), a.dtype))
    return watched.launch(*launch, seconds=10) if watch else emulation.launch(*launch)


def mistakes(done: watched.Watched) -> list[Mapping[str, Any]]:
    """The findings that are mistakes whatever C holds (Run.mistaken)."""
    return [one for one in done.findings if one["kind"] != "unwritten"]
