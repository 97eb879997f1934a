"""The search for the tilings of a dispatch: its candidates, its shapes, and the times so far."""

import csv
import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.catalogue.checks import check_variant
from matmul_sweep.catalogue.entries import Catalogue, Kernel, Variant
from matmul_sweep.dispatch.cost import LARGE, Cost
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.random_shapes import drawn_shapes
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import whole_file
from matmul_sweep.process.models import one_of

ALONE = "alone"  # the set of rows that are timed so
# Shapes at which a dispatch is judged alone: the rule that draws them, the operations that one of
# them has at least, and how many of these are taken.
JUDGED: dict[str, tuple[dict[str, Any], float, int]] = {
    "large": ({"random": 1200, "from": 512, "to": 16384, "operations": 3e12}, LARGE, 40),
    "brief": ({"random": 200, "from": 64, "to": 4096}, 0, 200),
    "wide": ({"random": 100, "from": 256, "to": 12000}, 0, 100),
}
SPILL_BYTES = 256  # at most: this few are spilled outside the loop
SAVE_SECONDS = 5.0  # so that a search that is stopped loses few shapes
PROMISING = 8  # candidates, by their predicted times, of which a block is timed at a shape
NEAR = 1.15  # times the least predicted time, or in turn, that a candidate alone may take
FINALISTS = 2  # of them, which are timed in full
FULL = 2  # blocks
NUMBERS = ("microseconds", "library", "error", "largest_error")
COLUMNS = ("set", "shape", "variant", *NUMBERS, "share")

Row = dict[str, Any]
Rows = list[Row]
Race = Callable[[Shape, Collection[Variant]], Rows]  # times and verifies variants at a shape
Blocks = Callable[[Shape, Collection[Variant], int], Rows]  # so many blocks of each, alone


def candidates(
    catalogue: Catalogue, space: Mapping[str, Any], fit_only: bool = False
) -> list[Variant]:
    """What a search tries of each kernel that its configuration names: the tilings of the
    catalogue and, unless it is to fit only, those in boxes of values. Where a variant is named, it
    is the only one of the catalogue's.

    Raises UserError if a box names a parameter that the kernel lacks.
    """
    found: dict[str, Variant] = {}
    for name, boxes in space["candidates"].items():
        one_of("candidates", name.partition("/")[0], catalogue)
        own = catalogue.variant(name)
        others = [v for v in own.kernel.variants if "/" in name and v != own]
        for variant in tilings(own.kernel, [] if fit_only else boxes):
            if variant not in others:
                found.setdefault(variant.name, variant)
    return list(found.values())


def tilings(kernel: Kernel, boxes: Sequence[Mapping[str, Any]]) -> Iterator[Variant]:
    """The tilings of the catalogue, and every combination of the values in a box that fits a
    multiprocessor. A parameter without values has the value of the kernel's first tiling."""
    yield from kernel.every_variant
    defaults = kernel.variants[0].parameters
    for box in boxes:
        for name in box:
            one_of(f"candidates.{kernel.name}", name, defaults)
        for values in itertools.product(*(box.get(name, [v]) for name, v in defaults.items())):
            variant = named(kernel, dict(zip(defaults, values, strict=True)))
            try:
                check_variant(variant)
            except UserError:
                continue
            yield variant


def named(kernel: Kernel, parameters: Mapping[str, int]) -> Variant:
    """The catalogue's variant with these parameters, or else a new one. Its name gives the tile and
    the difference from the tiling with that name, or if there is none from the first tiling."""
    known = {variant.tiling: variant for variant in kernel.every_variant}
    for variant in known.values():
        if variant.parameters == parameters:
            return variant
    unnamed = Variant(kernel, "", parameters)
    sides = len({*(kernel.tile or ())})  # 1 if both are the same expression
    size = "x".join(map(str, unnamed.tile[:sides]))
    base = known.get(size, kernel.variants[0]).parameters
    sized = re.findall(r"[A-Z]\w*", str(kernel.tile))
    others = [
        f"{name.replace('_', '').lower()}{value}"
        for name, value in parameters.items()
        if value != base[name] and name not in sized
    ]
    return Variant(kernel, "-".join([size, *others]), parameters)


def compiled(variants: Sequence[Variant], arch: str, build: Path) -> list[Variant]:
    """Those that compile and spill almost nothing, compiled on all cores."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        records = pool.map(lambda variant: compile_into(variant, arch, build), variants)
        return [
            variant
            for variant, record in zip(variants, records, strict=True)
            if record["status"] == "ok" and record["spill_bytes"] <= SPILL_BYTES
        ]


def shapes_of(space: Mapping[str, Any], operation: str) -> dict[Shape, str]:
    """The shapes of a search and the set of each, the first that has it. A set is a list of shapes
    and of rules that draw shapes."""
    found: dict[Shape, str] = {}
    for key in ("known", "fitted", "judged"):
        for shape in shapes_in(space[key], operation):
            found.setdefault(shape, key)
    return found


def shapes_in(items: Iterable[Any], operation: str) -> list[Shape]:
    """The shapes of a list of shapes and of rules that draw shapes."""
    drawn = (drawn_shapes(i, operation) if isinstance(i, Mapping) else [str(i)] for i in items)
    return [parse_shape(text, operation) for texts in drawn for text in texts]


def measured(
    race: Race, variants: Sequence[Variant], shapes: Iterable[tuple[Shape, str]], output: Path
) -> Rows:
    """A row for each variant that may be chosen at a shape and that `race` finds correct: those of
    `output`, of earlier searches, and the others, which are written there every SAVE_SECONDS."""
    found = read(output) if output.exists() else []
    known = {(row["shape"], row["variant"]) for row in found if row["set"] != ALONE}
    saved = monotonic()
    try:
        for shape, key in shapes:
            new = [variant for variant in variants if (str(shape), variant.name) not in known]
            if able := [variant for variant in new if variant.may_be_chosen(shape)]:
                own = {"set": key, "shape": str(shape), "share": 0.0}
                found += [own | row for row in race(shape, able)]
            if monotonic() > saved + SAVE_SECONDS:
                save(found, output)
                saved = monotonic()
    finally:
        save(found, output)
    return found


def alone(
    blocks: Blocks, costs: Sequence[Cost], winners: Collection[str], shapes: Iterable[Shape],
    multiprocessors: int,
) -> Iterator[Rows]:  # fmt: skip
    """Rows of what a program gets, shape by shape: a block of the PROMISING candidates by
    these costs and of past winners, by their names; then FULL blocks of the FINALISTS fastest."""
    for shape in shapes:
        able = [cost for cost in costs if cost.variant.may_be_chosen(shape)]
        predicted = {cost.variant: cost.microseconds(shape, multiprocessors) for cost in able}
        near = NEAR * min(predicted.values())
        first = [v for v in sorted(predicted, key=predicted.__getitem__) if predicted[v] <= near]
        first[PROMISING:] = [v for v in first[PROMISING:] if v.name in winners]
        once = {row["variant"]: row for row in blocks(shape, first, 1)}
        best = sorted(once, key=lambda name: once[name]["microseconds"])[:FINALISTS]
        full = blocks(shape, [variant for variant in first if variant.name in best], FULL)
        rows = once | {row["variant"]: row for row in full}
        yield [{"set": ALONE, "shape": str(shape)} | row for row in rows.values()]


def read(output: Path) -> Rows:
    with output.open(newline="") as file:
        return [
            row | {key: float(row[key]) for key in NUMBERS} | {"share": float(row["share"] or 0)}
            for row in csv.DictReader(file)
        ]


def save(found: Rows, output: Path) -> None:
    with whole_file(output) as temporary, temporary.open("w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(found)
