"""Verify one variant at tiny, ragged and prime shapes against NumPy in higher precision.

On a GPU the compiled kernel runs there, with C filled with NaN and guard zones behind every
matrix. Without one, the same source runs on the CPU, each thread of a block a fiber.
"""

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matmul.catalogue.entries import Kernel, Variant, load_catalogue
from matmul.cpu import emulation
from matmul.dataset.tables import product_of, write_rows
from matmul.gpu.device import NoDevice, opened
from matmul.measure.multiplying import Multiply, WrongAccess, emulated, on_cpu, on_gpu
from matmul.measure.products import NotCompiled
from matmul.measure.verification import accuracy, verification_shapes
from matmul.operations import fills
from matmul.operations.shapes import Shape, parse_shape
from matmul.process.errors import Unfinished, UserError, command_line
from matmul.settings import arguments


def verdict(status: str, reason: str, error: float | None = None) -> dict[str, Any]:
    return {"status": status, "reason": reason, "error": error}


def check(kernel: Kernel, multiply: Multiply, shape: Shape, fill: str, seed: int) -> dict[str, Any]:
    """Status, reason and error of one product. Raises Unfinished."""
    inputs = fills.inputs(fill, seed, shape, kernel.dtype)
    try:
        share = accuracy(kernel, multiply(shape, *inputs), *inputs).share
    except WrongAccess as error:
        return verdict("failed", str(error))
    if share > 1:
        return verdict("failed", f"wrong result at {shape}", share)
    return verdict("ok", "", share)


def verify(
    variant: Variant, multiply: Multiply, where: str, shapes: Sequence[Shape], fill: str, seed: int
) -> list[dict[str, Any]]:
    """One row of verification.csv per shape; none is tried after one that did not finish."""
    rows, unfinished = [], ""
    for shape in shapes:
        if unfinished:
            found = verdict("failed", f"not run: {unfinished}")
        else:
            try:
                found = check(variant.kernel, multiply, shape, fill, seed)
            except Unfinished as error:
                found = verdict("failed", str(error))
                unfinished = f"at {shape} {error}"
        row = row_of(variant, shape, where) | found
        logging.info("%s %s: %s %s", variant.name, shape, row["status"], row["reason"])
        rows.append(row)
    return rows


def row_of(variant: Variant, shape: Shape, where: str) -> dict[str, Any]:
    """The columns that name a verification."""
    kernel = variant.kernel
    names = {"kernel": kernel.name, "variant": variant.name, "where": where}
    return names | product_of(kernel.dtype, shape)


def run(variant: Variant, build: Path, device: str, extra: Sequence[Shape], fill: str,
        seed: int, seconds: float) -> list[dict[str, Any]]:  # fmt: skip
    """Verify where `device` (gpu or cpu) says, or give rows that say why not."""

    def refused(status: str, reason: str) -> list[dict[str, Any]]:
        found = verdict(status, reason)
        shapes = verification_shapes(variant, extra)
        return [row_of(variant, shape, device) | found for shape in shapes]

    def verified(part: Variant, multiply: Multiply, where: str) -> list[dict[str, Any]]:
        rows = verify(variant, multiply, where, verification_shapes(part, extra), fill, seed)
        for row in rows if part != variant else ():
            row["reason"] = row["reason"] and f"{part.name}: {row['reason']}"
        return rows

    kernel = variant.kernel
    try:
        if not kernel.on_gpu:
            return verified(variant, on_cpu(variant, build, seconds), "cpu")
        if device == "gpu":
            with opened() as gpu:
                parts = variant.parts(gpu.architecture)
                return [
                    row
                    for part in parts
                    for row in verified(part, on_gpu(part, gpu, build, seconds), "gpu")
                ]
        if kernel.language == "library":
            return refused("skipped", "there is no GPU here")
        with tempfile.TemporaryDirectory() as folder:
            parts = variant.parts(None)
            return [
                row
                for part in parts
                for row in verified(part, emulated(part, Path(folder), seconds), "emulation")
            ]
    except (NotCompiled, emulation.EmulationError) as error:
        return refused("failed", str(error))


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_variant(parser)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--device", choices=("gpu", "cpu"), required=True)
    parser.add_argument("--shapes", nargs="*", default=[], help="beside the built-in ones")
    parser.add_argument("--fill", choices=fills.FILLS, default="uniform")
    parser.add_argument("--seed", type=int, default=2026)
    arguments.add_hang_seconds(parser)
    parser.add_argument("--output", type=Path, required=True, help="verification.csv")
    arguments.add_log(parser)
    options = parser.parse_args()
    arguments.start_log(options.log)

    variant = load_catalogue(options.catalogue).variant(options.variant)
    extra = [parse_shape(text, variant.kernel.operation) for text in options.shapes]
    try:
        rows = run(variant, options.build, options.device, extra, options.fill, options.seed,
                   options.hang_seconds)  # fmt: skip
    except NoDevice as error:
        raise UserError(f"--device gpu: {error}") from None
    write_rows(rows, "verification.csv", options.output)


if __name__ == "__main__":
    main()
