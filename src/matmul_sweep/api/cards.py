"""What is loaded on a GPU: kernels are compiled and loaded when a product first needs them."""

import tempfile
import threading
from functools import cache, cached_property
from pathlib import Path

from matmul_sweep.build.binaries import binary_of, compile_into
from matmul_sweep.catalogue.entries import Kernel, Kind, Variant
from matmul_sweep.catalogue.sources import has_variables
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.launch.combine import combining
from matmul_sweep.launch.device import Gpu
from matmul_sweep.launch.driver import Function, outside_capture
from matmul_sweep.launch.products import Product
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.operation import Operation
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError

OF_FLOAT64 = ("native", "componentwise", "normwise")
EXACT = ("ieee", "native")  # which multiply numbers of the inputs' type
ACCURACIES = ("float32", "ieee", *OF_FLOAT64)
catalogue = cache(load_catalogue)


class Card(Gpu):
    """A GPU, and the kernels that are loaded into its primary context."""

    def __init__(self, ordinal: int) -> None:
        super().__init__(ordinal)
        self.folder = tempfile.TemporaryDirectory()  # of binaries
        self.products: dict[object, Product] = {}
        self.lock = threading.Lock()  # so that each kernel is compiled once

    def product(self, variant: Variant, stream: object) -> Product:
        """A kernel for launches on a stream; has_variables: what such a kernel leaves in global
        memory must not be another stream's. Raises NotCompiled, UserError without a compiler, and
        DriverError."""
        key = variant.slug, stream if has_variables(variant.kernel.code) else None
        with self.lock:
            if key not in self.products:
                self.products[key] = self.loaded(variant)
            return self.products[key]

    def loaded(self, variant: Variant) -> Product:
        binaries = self.compiled(variant)
        with self.current(), outside_capture():
            return Product(variant, binaries)

    def compiled(self, variant: Variant) -> Path:
        """The folder that has its binary. Raises UserError without a compiler."""
        build, arch = Path(self.folder.name), self.architecture
        if not binary_of(variant, build / arch).exists():
            compile_into(variant, arch, build)
        return build / arch

    @cached_property
    def combining(self) -> dict[str, Function]:
        with self.current(), outside_capture():
            return combining(self.architecture)


@cache
def card(ordinal: int) -> Card:
    """The GPU of this number. Raises NoDevice, UserError (old driver, no compiler)."""
    return Card(ordinal)


def check_accuracy(accuracy: str) -> None:
    """Raise ValueError for what is none."""
    if accuracy not in ACCURACIES:
        raise ValueError(f"accuracy is one of {', '.join(ACCURACIES)}, not '{accuracy}'")


def operation_for(dtype: str, symmetric: bool) -> Operation | None:
    """C = AᵀA or C = AB with all matrices of this number type; None where no kernel has that."""
    own = (o for o in OPERATIONS.values() if o.dtype == o.output == dtype)
    return next((o for o in own if o.symmetric == symmetric), None)


def named(name: str, operation: Operation) -> Variant:
    """The kernel of that name. Raises ValueError if there is none, or it computes something
    else."""
    try:
        variant = catalogue().variant(name)
    except UserError as error:
        raise ValueError(str(error)) from None
    if not variant.kernel.hand_written or variant.kernel.operation != operation.name:
        known = ", ".join(kernel.name for kernel in offered(operation))
        raise ValueError(f"kernel '{name}': of {operation.title} in {operation.dtype} are {known}")
    return variant


def chosen(
    name: str | None, accuracy: str, operation: Operation, shape: Shape, arch: str,
    scales: bool = False,
) -> Variant:  # fmt: skip
    """The variant that computes a product. scales: the product is scaled or added to. Raises
    ValueError where the kernel refuses the shape or the number type has no such accuracy,
    RuntimeError where it does not run on the card."""
    variant = named(name, operation) if name else default(operation, accuracy, shape, arch)
    if refusal := variant.refusal(shape):
        raise ValueError(refusal)
    part = variant.part(shape, arch)
    if not part.runs_on(arch):
        raise RuntimeError(f"{part.name} needs compute capability {part.kernel.since}, not {arch}")
    return part.adding if scales else part


def default(operation: Operation, accuracy: str, shape: Shape, arch: str) -> Variant:
    """Of the kernels that take a product, for EXACT accuracies of those that multiply numbers of
    the inputs' type: the last dispatch, else the last. "normwise" is residues without their guard,
    where they run."""
    if accuracy in OF_FLOAT64 and not (operation.symmetric and operation.dtype == "float64"):
        raise ValueError(f"accuracy '{accuracy}' is of gram in float64, not of {operation.title}")
    able = [
        kernel
        for kernel in offered(operation)
        if not (own := kernel.variants[0]).refusal(shape) and own.runs_on(arch)
    ]
    if accuracy == "normwise" and any(kernel.name == "residues" for kernel in able):
        return catalogue().variant("residues/normwise")
    enough = [k for k in able if accuracy not in EXACT or k.arithmetic == "full"]
    dispatches = [k for k in enough if k.kind is Kind.DISPATCH]
    return (dispatches or enough)[-1].variants[0]


def offered(operation: Operation) -> list[Kernel]:
    """An operation's kernels for the GPU, in the order of the catalogue."""
    return [k for k in catalogue().values() if k.hand_written and k.product is operation]
