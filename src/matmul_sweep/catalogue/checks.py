"""What of an entry has to fit: its keys each other, and a block a multiprocessor."""

import math

from matmul_sweep.catalogue.architectures import (
    ARCHITECTURES,
    DEFAULT,
    MAXIMUM_CLUSTER,
    MAXIMUM_REGISTERS,
    MAXIMUM_THREADS,
    REGISTER_FILE,
    STATIC_SHARED,
)
from matmul_sweep.catalogue.entries import Kernel, Kind, Variant
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.errors import UserError, naming
from matmul_sweep.process.models import one_of

PROBED = (1, 1001)  # sizes at which a plan is tried, each rounded up to a shape that is accepted


def check_kernel(kernel: Kernel) -> None:
    """Check what holds between keys: files exist, names resolve, blocks fit. Raises UserError."""
    one_of("operation", kernel.operation, OPERATIONS)
    if [kernel.source, kernel.library, kernel.dispatch].count(None) != 2:
        raise UserError(
            "an entry has exactly one of source (a .cu or .c file), library (a routine's name) and "
            "dispatch (a table of variants by shape)"
        )
    if kernel.kind is Kind.CUDA and not (kernel.tile and kernel.threads):
        raise UserError("tile and threads: one is missing, and a CUDA kernel needs both")
    if kernel.source and not kernel.source.is_file():
        raise UserError(f"source: there is no file {kernel.source}")
    if kernel.library:
        check_routine(kernel)
    elif kernel.arithmetic == "tf32":
        raise UserError("arithmetic: only a library routine can have tf32")
    names = kernel.variants[0].parameters
    check_accepts(kernel)
    for name in kernel.multiples:
        one_of("multiples", name, names)
    for variant in kernel.every_variant:
        if odd := names.keys() ^ variant.parameters.keys():
            raise UserError(
                f"tilings: only one of {kernel.variants[0].tiling} and {variant.tiling} sets "
                f"{odd.pop()}; set it in both, or in parameters"
            )
        if kernel.kind is Kind.CUDA:
            with naming(variant.name):
                check_variant(variant)


def check_accepts(kernel: Kernel) -> None:
    """Check that `accepts` names dimensions, or else a parameter. Raises UserError."""
    accepts, dimensions = kernel.accepts, kernel.product.shape.__match_args__
    if isinstance(accepts, str):
        one_of("accepts", accepts, ["any", "square", *kernel.variants[0].parameters])
    else:
        for name in accepts:
            one_of("accepts", name, dimensions)
    if any(0 in variant.steps.values() for variant in kernel.every_variant):
        raise UserError(f"accepts: {accepts} is 0 in one of its tilings")


def check_routine(kernel: Kernel) -> None:
    """Check that a library's entry names a routine of its operation."""
    one_of(f"library of {kernel.operation}", str(kernel.library), kernel.product.routines)
    routine = kernel.routine
    if kernel.arithmetic not in routine.arithmetics:
        raise UserError(
            f"arithmetic: '{kernel.library}' has {' and '.join(routine.arithmetics)}, "
            f"not {kernel.arithmetic}"
        )


def check_variant(variant: Variant) -> None:
    """Check that a variant's parameters fit each other, and its block fits a multiprocessor."""
    kernel = variant.kernel
    for parameter, expression in kernel.multiples.items():
        value, step = variant.parameters[parameter], evaluate(expression, variant.parameters)
        if step < 1 or value % step:
            raise UserError(f"{parameter}={value} is not a multiple of {expression}={step}")
    threads = math.prod(variant.block)
    if threads > MAXIMUM_THREADS or min(*variant.block, *variant.tile) < 1:
        raise UserError(
            f"{variant.block[1]}×{variant.block[0]} = {threads} threads per block and a tile of "
            f"{variant.tile[0]}×{variant.tile[1]}; a block holds 1 to {MAXIMUM_THREADS} threads"
        )
    _ = variant.layout
    for size in PROBED:
        variant.plan(variant.fitted(kernel.product.parse(size)))
    of_block = variant.registers * threads
    for key, wanted, limit, unit in (
        ("registers", variant.registers, MAXIMUM_REGISTERS, "registers per thread"),
        ("registers", of_block, REGISTER_FILE, f"registers for {threads} threads"),
        ("shared_bytes", variant.shared_bytes, STATIC_SHARED,
         "bytes of static shared memory per block"),
        ("dynamic_shared_bytes", variant.dynamic_shared_bytes, ARCHITECTURES[DEFAULT].shared << 10,
         "bytes of dynamic shared memory per block"),
        ("cluster", variant.cluster, MAXIMUM_CLUSTER, "blocks per cluster"),
    ):  # fmt: skip
        if not 0 <= wanted <= limit:
            raise UserError(f"{key}: {wanted} {unit}, outside 0 to {limit}")
