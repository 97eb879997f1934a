"""One product by one kernel: launched, checked against NumPy, timed, and printed if asked.

    python scripts/multiply.py shared 4x4x4 --print
    python scripts/multiply.py naive_rect 3200x2400x1600 --fill index
    python scripts/multiply.py gram_register_tile 100x49

Without a GPU a CUDA kernel runs on the CPU, thread by thread: checked the same way, not timed.
"""

import argparse
import math
import os
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from matmul.build.binaries import HOST, compile_instruments, compile_parts
from matmul.catalogue.entries import Variant, load_catalogue
from matmul.cpu import emulation
from matmul.gpu.device import Gpu, NoDevice, opened
from matmul.gpu.instruments import Instruments
from matmul.measure.cpu_bench import host_memory_refusal
from matmul.measure.multiplying import Multiply, WrongAccess, emulated, on_cpu, on_gpu
from matmul.measure.products import cpu_product, gpu_product
from matmul.measure.timing import HeldStream, host_ms
from matmul.measure.verification import accuracy
from matmul.operations import fills
from matmul.operations.shapes import Shape, parse_shape
from matmul.process.errors import Unfinished, UserError, command_line
from matmul.settings import arguments

LAUNCHES = 10
EMULATED_OPERATIONS = 4e9  # of a product that runs thread by thread on the CPU: half a minute

Timer = Callable[..., float]  # of the inputs, in ms


def build(variant: Variant, folder: Path, arch: str) -> None:
    """Compile the variant into `folder` as the workflow would. Raises UserError if it fails."""
    if variant.kernel.language == "library":
        return
    for record in compile_parts(variant, arch, folder):
        if record["status"] != "ok":
            raise UserError(f"{record['variant']}: {record['reason']}")


def gpu_timer(variant: Variant, gpu: Gpu, folder: Path, shape: Shape) -> Timer:
    """Median milliseconds of a launch on the device, copies apart."""
    tools = Instruments(gpu, folder)
    product = gpu_product(variant, tools)

    def time_ms(*inputs: np.ndarray) -> float:
        on_device = [gpu.drv.to_device(matrix) for matrix in inputs]
        c = gpu.drv.mem_alloc(inputs[0].itemsize * shape.elements[-1])
        times = HeldStream(tools).times([lambda: product(shape, *on_device, c)] * LAUNCHES)
        return statistics.median(times)

    return time_ms


def cpu_timer(variant: Variant, folder: Path, shape: Shape) -> Timer:
    """Milliseconds of one product on the CPU."""
    product = cpu_product(variant, folder, threads=len(os.sched_getaffinity(0)))
    c = np.empty(shape.output, variant.kernel.dtype)
    return lambda *inputs: host_ms(lambda: product(shape, *inputs, c))


def tell(variant: Variant, shape: Shape, multiply: Multiply, timer: Timer | None,
         options: argparse.Namespace) -> None:  # fmt: skip
    """Run the product and print what happened. Raises UserError on a wrong result."""
    name = variant.name
    inputs = fills.inputs(options.fill, options.seed, shape, variant.kernel.dtype)
    if variant.kernel.tile:
        blocks, threads = math.prod(variant.grid(shape)), math.prod(variant.block)
        print(f"{name}: CUDA kernel launch with {blocks} blocks of {threads} threads")
    try:
        c = multiply(shape, *inputs)
    except (WrongAccess, Unfinished) as error:
        raise UserError(f"{name} at {shape}: {error}") from None
    if options.print:
        for title, matrix in (*zip("AB", inputs, strict=False), ("C", c)):
            print(f"{title} =\n{np.array2string(matrix, threshold=10_000, precision=4)}")
    share = accuracy(variant.kernel, c, *inputs).share
    if not share <= 1:
        raise UserError(f"{name} at {shape}: Result is Wrong, {share:.3g} times the error's bound")
    print(f"{name}: Result is Correct (largest error: {share:.2g} of its bound)")
    if timer is None:
        print("Duration: not timed, the kernel's threads ran one after the other on the CPU")
    else:
        print(f"Duration: {timer(*inputs) / 1e3:.6f} s")


def parse() -> argparse.Namespace:
    parser = arguments.parser(__doc__)
    arguments.add_variant(parser)
    parser.add_argument("shape", help="640; MxNxK (gemm): 3200x2400x1600; MxN (gram): 1000x500")
    parser.add_argument("--print", action="store_true", help="print A, B and C")
    parser.add_argument("--fill", choices=fills.FILLS, default="uniform")
    parser.add_argument("--seed", type=int, default=2026)
    arguments.add_hang_seconds(parser)
    return parser.parse_args()


@command_line
def main() -> None:
    options = parse()
    variant = load_catalogue(options.catalogue).variant(options.variant)
    shape, seconds = parse_shape(options.shape, variant.kernel.operation), options.hang_seconds
    no_room = host_memory_refusal(shape, variant.kernel.dtype, share=1)
    if reason := variant.refusal(shape) or no_room:
        raise UserError(reason)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not variant.kernel.on_gpu:
            build(variant, folder, HOST)
            timer = cpu_timer(variant, folder, shape)
            tell(variant, shape, on_cpu(variant, folder, seconds), timer, options)
            return
        try:
            with opened() as gpu:
                arch = gpu.architecture
                build(variant, folder, arch)
                compile_instruments(arch, folder / arch / "instruments.cubin")
                timer = gpu_timer(variant, gpu, folder, shape)
                tell(variant, shape, on_gpu(variant, gpu, folder, seconds), timer, options)
        except NoDevice as missing:
            if variant.kernel.language == "library":
                raise UserError(f"{variant.name} runs on a GPU, and {missing}") from None
            if shape.operations > EMULATED_OPERATIONS:
                raise UserError(f"{shape} takes minutes thread by thread, and {missing}") from None
            print(f"{variant.name}: {missing}; running on the CPU, thread by thread")
            try:
                multiply = emulated(variant, folder, seconds)
            except emulation.EmulationError as error:
                raise UserError(f"{variant.kernel.source}: {error}") from None
            tell(variant, shape, multiply, None, options)


if __name__ == "__main__":
    main()
