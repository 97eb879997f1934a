"""Verify one variant at tiny, ragged and prime shapes against NumPy in higher precision.

On a GPU the compiled kernel runs, with C filled with NaN and guard zones behind every matrix.
Without one, the same source runs on the CPU, with each thread of a block as a fiber.
"""

import logging
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matmul.catalogue.entries import Variant, load_catalogue
from matmul.cpu.emulation import EmulationError, NotRunnable
from matmul.dataset.tables import product_of, write_rows
from matmul.gpu.device import NoDevice
from matmul.measure.products import NotCompiled
from matmul.measure.runner import (
    EMULATION,
    NOWHERE,
    Runner,
    WrongAccess,
    place_of,
    runner,
    tile_mistake,
)
from matmul.measure.verification import accuracy, verification_shapes
from matmul.operations import fills, parse_shape
from matmul.operations.shapes import Shape
from matmul.process.errors import Unfinished, UserError, command_line
from matmul.settings import arguments


def verdict(status: str, reason: str, error: float | None = None) -> dict[str, Any]:
    return {"status": status, "reason": reason, "error": error}


def check(run: Runner, variant: Variant, shape: Shape, fill: str, seed: int) -> dict[str, Any]:
    """Status, reason and error of one product. Raises Unfinished."""
    kernel = variant.kernel
    inputs = fills.inputs(fill, seed, shape, kernel.dtype)
    try:
        share = accuracy(kernel, run.multiply(variant, shape, *inputs), *inputs).share
        mistake = tile_mistake(run, variant, shape, *inputs)
    except WrongAccess as error:
        return verdict("failed", str(error))
    if share > 1:
        return verdict("failed", f"wrong result at {shape}", share)
    return verdict("failed", mistake, share) if mistake else verdict("ok", "", share)


def verify(
    run: Runner, variant: Variant, shapes: Sequence[Shape], fill: str, seed: int
) -> list[dict[str, Any]]:
    """One row of verification.csv per shape; after a launch that did not finish, none is tried."""
    rows, unfinished = [], ""
    for shape in shapes:
        if unfinished:
            found = verdict("failed", f"not run: {unfinished}")
        else:
            try:
                found = check(run, variant, shape, fill, seed)
            except Unfinished as error:
                found = verdict("failed", str(error))
                unfinished = f"at {shape} {error}"
        row = row_of(variant, shape, run.place) | found
        logging.info("%s %s: %s %s", variant.name, shape, row["status"], row["reason"])
        rows.append(row)
    return rows


def row_of(variant: Variant, shape: Shape, where: str) -> dict[str, Any]:
    """The columns that name a verification."""
    kernel = variant.kernel
    names = {"kernel": kernel.name, "variant": variant.name, "where": where}
    return names | product_of(kernel.dtype, shape)


def verify_parts(
    run: Runner, variant: Variant, extra: Sequence[Shape], measured: Sequence[Shape] | None,
    fill: str, seed: int,
) -> list[dict[str, Any]]:  # fmt: skip
    """The rows of a variant; for a dispatch those of its variants, under the dispatch's name.

    extra: shapes in addition to the built-in ones. measured: the shapes at which the variant will
    be measured; of a dispatch only the variants for these are verified, or all if it is None.
    """
    rows = []
    for part in variant.parts(run.architecture, measured):
        for row in verify(run, part, verification_shapes(part, extra), fill, seed):
            if part != variant and row["reason"]:
                row["reason"] = f"{part.name}: {row['reason']}"
            rows.append(row | {"kernel": variant.kernel.name, "variant": variant.name})
    return rows


def refused(
    variant: Variant, place: str, extra: Sequence[Shape], status: str, reason: str
) -> list[dict[str, Any]]:
    """Rows that say why nothing was run."""
    found = verdict(status, reason)
    return [row_of(variant, shape, place) | found for shape in verification_shapes(variant, extra)]


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_variant(parser)
    parser.add_argument("--build", type=Path, required=True, help="folder of the binaries")
    parser.add_argument("--device", choices=("gpu", "cpu"), required=True)
    parser.add_argument("--shapes", nargs="*", default=[], help="in addition to the built-in ones")
    parser.add_argument("--measured", nargs="*", help="of a dispatch, only what runs at these")
    parser.add_argument("--fill", choices=fills.FILLS, default="uniform")
    parser.add_argument("--seed", type=int, default=2026)
    arguments.add_hang_seconds(parser)
    parser.add_argument("--output", type=Path, required=True, help="verification.csv")
    options = arguments.parsed(parser)

    variant = load_catalogue(options.catalogue).variant(options.variant)
    operation = variant.kernel.operation
    extra = [parse_shape(text, operation) for text in options.shapes]
    measured = options.measured and [parse_shape(text, operation) for text in options.measured]
    place = place_of(variant.kernel, options.device)
    if place == NOWHERE:
        rows = refused(variant, options.device, extra, "skipped", "there is no GPU here")
    else:
        try:
            with (
                tempfile.TemporaryDirectory() as folder,
                runner(place, Path(folder) if place == EMULATION else options.build,
                       options.hang_seconds, shared=True) as run,
            ):  # fmt: skip
                rows = verify_parts(run, variant, extra, measured, options.fill, options.seed)
        except NotRunnable as error:
            rows = refused(variant, options.device, extra, "skipped", str(error))
        except (NotCompiled, EmulationError) as error:
            rows = refused(variant, options.device, extra, "failed", str(error))
        except NoDevice as error:
            raise UserError(f"--device gpu: {error}") from None
    write_rows(rows, "verification.csv", options.output)


if __name__ == "__main__":
    main()
