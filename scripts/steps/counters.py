"""Hardware counters of the steps of the ladders and of the dispatches at a large size, by ncu.

Where there is no GPU or no ncu, or the counters are not permitted, each row says why. Clocks are
left as they are. ncu starts this program a second time, which then launches the products.
"""

import argparse
import logging
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.experiment.dataset.tables import product_of, write_rows
from matmul_sweep.experiment.measure import counters
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.plan.experiment import read_experiment
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.products import gpu_product
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.launch.products import NotCompiled
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import read_json, write_json

SEED, SIZE = 2026, 4096
LARGEST_S = 170.0  # ncu's time for everything

Case = tuple[Variant, Shape]


def cases(options: argparse.Namespace) -> Iterator[Case]:
    """Each variant and its product."""
    for variant in read_experiment(options.experiment).shown:
        yield variant, parse_shape(SIZE, variant.kernel.operation)


def launch(gpu: Gpu, tools: Instruments, variant: Variant, shape: Shape) -> None:
    """Launch a product twice, the second time with ncu watching. Raises NotCompiled and the
    driver's errors."""
    product, operation = gpu_product(variant, tools, [shape]), variant.kernel.product
    inputs = [
        tools.filled("uniform", SEED, which, count, operation.dtype)
        for which, count in enumerate(shape.elements[:-1])
    ]
    c = tools.poisoned(shape.elements[-1], operation.output)
    product(shape, *inputs, c)
    tools.wait()
    gpu.drv.start_profiler()
    try:
        tools.empty()
        product(shape, *inputs, c)
        tools.wait()
    finally:
        gpu.drv.stop_profiler()


def launch_all(options: argparse.Namespace) -> None:
    """Launch every case, and write why each was not launched, or an empty text."""
    reasons = []
    with opened() as gpu:
        tools = Instruments(gpu, options.build)
        for variant, shape in cases(options):
            reason = variant.refusal(shape) or ""
            try:
                if not reason:
                    launch(gpu, tools, variant, shape)
            except (NotCompiled, UserError, *gpu.errors) as error:
                reason = f"not launched: {error}"
            reasons.append(reason)
    write_json(reasons, options.inside)


def watched(options: argparse.Namespace, count: int) -> list[dict[str, Any] | str]:
    """The counters of each case, or why there are none."""
    program = counters.ncu()
    if program is None:
        return ["there is no ncu on this machine: install NVIDIA Nsight Compute"] * count
    with tempfile.TemporaryDirectory() as name:
        log, told = Path(name) / "log", Path(name) / "told.json"
        again = [sys.executable, *sys.argv, "--inside", str(told)]
        try:
            done = subprocess.run(
                counters.command(program, log, again), capture_output=True, text=True,
                timeout=LARGEST_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [f"ncu took more than {LARGEST_S:g} s"] * count
        text = log.read_text() if log.exists() else ""
        reasons = read_json(told) if told.exists() else [""] * count
    return assigned(text, reasons, done.stdout + done.stderr)


def assigned(text: str, reasons: list[str], said: str) -> list[dict[str, Any] | str]:
    """The counters in ncu's log `text` of each case that was launched, its reason for the others;
    ncu's own reason, in what it `said` too, where it did not count each launch."""
    found = [counters.combined(own) for own in counters.products(counters.parsed(text))]
    if len(found) != reasons.count(""):
        why = counters.refusal(text + said)
        return [reason or why for reason in reasons]
    rest = iter(found)
    return [reason or next(rest) for reason in reasons]


def row_of(case: Case, found: dict[str, Any] | str) -> dict[str, Any]:
    """The row of counters.csv of a case."""
    variant, shape = case
    kernel = variant.kernel
    row = {"kernel": kernel.name, "variant": variant.name} | product_of(kernel.dtype, shape)
    if isinstance(found, str):
        return row | {"status": "skipped", "reason": found}
    return row | {"status": "ok", "reason": ""} | found


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_experiment(parser)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--output", type=Path, required=True, help="counters.csv")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    arguments.add_log(parser)
    options = parser.parse_args()
    if options.inside:
        try:
            launch_all(options)
        except NoDevice as error:
            raise UserError(f"device: gpu: {error}") from None
        return
    # Not earlier: what runs inside has the same options, and would empty the log.
    arguments.start_log(options.log)
    every = list(cases(options))
    rows = [row_of(*pair) for pair in zip(every, watched(options, len(every)), strict=True)]
    for row in rows:
        logging.info("%s", row)
    write_rows(rows, "counters.csv", options.output)


if __name__ == "__main__":
    main()
