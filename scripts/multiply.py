"""Run one product with one kernel: launch it, check it against NumPy, time it, and print it if
asked.

    python scripts/multiply.py shared 4x4x4 --print
    python scripts/multiply.py naive_rect 3200x2400x1600 --fill index
    python scripts/multiply.py gram_register_tile 100x49
    python scripts/multiply.py my_kernel 33

Without a GPU, a CUDA kernel runs on the CPU, thread by thread. It is checked but not timed.
"""

import environment  # noqa: F401

import argparse
import math
import tempfile
from bisect import bisect
from pathlib import Path

import numpy as np

from matmul_sweep.build.binaries import compile_instruments, compile_into
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.classroom.cuda_on_cpu.emulation import EmulationError
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.measure.cpu_bench import host_memory_refusal
from matmul_sweep.experiment.measure.timing import product_ms
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.settings import EMULATION, GPU, place_of
from matmul_sweep.experiment.verify.runner import Runner, WrongAccess, runner
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.operations import fills, parse_shape
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import HANG_SECONDS, Unfinished, UserError, command_line
from matmul_sweep.process.progress import told_if_slow

CUBIN = "instruments.cubin"
EMULATED_OPERATIONS = 4e9  # of a product thread by thread on the CPU: half a minute


def build(variant: Variant, folder: Path, arch: str) -> None:
    """Compile the variant into `folder` like the workflow. Raises UserError if that fails."""
    if variant.kernel.kind is Kind.LIBRARY:
        return
    with told_if_slow(f"{variant.name}: compiling"):
        record = compile_into(variant, arch, folder)
    if record["status"] != "ok":
        raise UserError(f"{variant.name}: {record['reason']}")


def mistake(variant: Variant, c: np.ndarray, *inputs: np.ndarray) -> str:
    """What is wrong with C: elements that were not written, or the element with the largest
    error."""
    left, right = variant.kernel.product.factors(*inputs)
    expected = left.astype(np.float64) @ right
    off = np.abs(c - expected)
    if variant.kernel.writes == "upper":
        off = np.triu(off)
    lacking = ~np.isfinite(off)
    row, column = np.unravel_index((lacking if lacking.any() else off).argmax(), c.shape)
    place = f"in row {row}, column {column}"
    if lacking.any():
        return f"{lacking.sum()} of {c.size} elements not written or not finite, the first {place}"
    return f"{place} it has {c[row, column]:.6g}, NumPy {expected[row, column]:.6g}"


def tell(run: Runner, variant: Variant, shape: Shape, options: argparse.Namespace) -> None:
    """Run the product and print what happened. Raises UserError for a wrong result."""
    name = variant.name
    inputs = fills.inputs(options.fill, options.seed, shape, variant.kernel.dtype)
    if variant.kernel.tile:
        blocks = math.prod(variant.grid(shape, run.architecture))
        threads = math.prod(variant.block)
        print(f"{name}: CUDA kernel launch with {blocks} blocks of {threads} threads")
    try:
        with told_if_slow(f"{name}: multiplying {shape}, for {run.seconds:g} s at most"):
            c = run.multiply(variant, shape, *inputs)
    except (WrongAccess, Unfinished) as error:
        raise UserError(f"{name} at {shape}: {error}") from None
    except EmulationError as error:
        raise UserError(f"{name}: {error}") from None
    if options.print:
        for title, matrix in (*zip("AB", inputs, strict=False), ("C", c)):
            print(f"{title} =\n{np.array2string(matrix, threshold=10_000, precision=4)}")
    with told_if_slow(f"{name}: checking {shape} against NumPy"):
        share = accuracy(variant.kernel, c, *inputs).share
    if not share <= 1:
        raise UserError(f"{name} at {shape}: Result is Wrong: {mistake(variant, c, *inputs)}")
    print(f"{name}: Result is Correct (largest error: {share:.2g} of its bound)")
    with told_if_slow(f"{name}: timing {shape}"):
        time_ms = product_ms(run, variant, shape, *inputs)
    if time_ms is None:
        print("Duration: not timed, because the threads ran one after another on the CPU")
    else:
        print(f"Duration: {time_ms / 1e3:.6f} s")


def check_emulated(variant: Variant, shape: Shape, missing: NoDevice) -> None:
    """Raise UserError if a product for the GPU cannot run on the CPU instead."""
    if not variant.kernel.hand_written:
        raise UserError(f"{variant.name} runs on a GPU, and {missing}")
    if shape.operations > EMULATED_OPERATIONS:
        square = variant.kernel.product.parse
        largest = bisect(range(1, 1 << 16), EMULATED_OPERATIONS, key=lambda n: square(n).operations)
        raise UserError(
            f"{shape} takes minutes thread by thread, and {missing}; sizes up to about {largest} "
            "run on the CPU"
        )


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("variant", help="a kernel (its first variant), or a variant: shared/16")
    arguments.add_catalogue(parser)
    parser.add_argument("shape", help="640; MxNxK (gemm): 3200x2400x1600; MxN (gram): 1000x500")
    parser.add_argument("--print", action="store_true", help="print A, B and C")
    parser.add_argument("--fill", choices=fills.FILLS, default="uniform")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument(
        "--hang-seconds", type=float, default=HANG_SECONDS, help="give up longer launches"
    )
    options = parser.parse_args()

    variant = load_catalogue(options.catalogue).variant(options.variant)
    shape, seconds = parse_shape(options.shape, variant.kernel.operation), options.hang_seconds
    no_room = host_memory_refusal(shape, variant.kernel.dtype, share=1)
    if reason := variant.refusal(shape) or no_room:
        raise UserError(reason)
    with tempfile.TemporaryDirectory() as name:
        folder, place = Path(name), place_of(variant.kernel, GPU)
        try:
            with runner(place, folder, seconds) as run:
                assert run.architecture  # only the emulation gives none
                if place == GPU:
                    with told_if_slow("compiling the timer"):
                        compile_instruments(run.architecture, folder / run.architecture / CUBIN)
                part = variant.part(shape, run.architecture)
                build(part, folder, run.architecture)
                tell(run, part, shape, options)
        except NoDevice as missing:
            check_emulated(variant, shape, missing)
            print(f"{variant.name}: {missing}; running on the CPU, thread by thread")
            with runner(EMULATION, folder, seconds) as run:
                tell(run, variant.part(shape, run.architecture), shape, options)


if __name__ == "__main__":
    main()
