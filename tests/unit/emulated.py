"""Kernels on the CPU: those of a catalogue, and texts."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.verify.verification import Accuracy, accuracy
from matmul_sweep.operations import fills
from matmul_sweep.operations.gram import GRAM
from matmul_sweep.operations.shapes import Shape


def product_on_cpu(
    variant: Variant, executable: Path, shape: Shape, *given: np.ndarray
) -> tuple[np.ndarray, Accuracy]:
    """C, from NaN, of these inputs or of random ones."""
    kernel = variant.kernel
    inputs = given or fills.inputs("uniform", 3, shape, kernel.dtype)
    c = np.full(shape.output, np.nan, kernel.product.output)
    c = emulation.launch(executable, variant.plan(shape), shape, inputs, c, 60)
    return c, accuracy(kernel, c, *inputs)


def products(
    variant: Variant, shapes: Sequence[str], folder: Path, source: Path | None = None
) -> Iterator[Accuracy]:  # fmt: skip
    """The accuracy of random products, in turn, by the kernel's source or one in its place."""
    emulation.build_variant(variant, folder / "kernel", source=source)
    for text in shapes:
        yield product_on_cpu(variant, folder / "kernel", variant.kernel.product.parse(text))[1]


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
