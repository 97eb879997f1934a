"""Shapes drawn at random, the same on every machine: what nobody chose by hand."""

import random
from collections.abc import Mapping
from typing import Any

from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import UserError, naming

SQUARE = 4  # one shape of so many is square
ANY_INTEGER = 3  # one of so many has any integers, the others multiples of STEP
STEP = 8
TRIES = 1000  # for a shape that is new and small enough


def random_shapes(
    kind: type[Shape],
    count: int,
    seed: int,
    smallest: Shape,
    largest: Shape,
    operations: float | None = None,
) -> list[Shape]:
    """Distinct shapes, each dimension log-uniform from that of `smallest` to that of `largest`.

    Which of them are square, and which multiples of STEP, depends on their position alone. The side
    of a square lies within the bounds of every dimension; bounds without such a side have no
    squares. `operations` is the most that one takes.

    Raises UserError if the bounds have no room for so many.
    """
    bounds = list(zip(smallest.dimensions, largest.dimensions, strict=True))
    for name, (low, high) in zip(kind.__match_args__, bounds, strict=True):
        if low > high:
            raise UserError(f"from: {name} is {low}, above {high} in to; exchange them")
    common = max(low for low, _ in bounds), min(high for _, high in bounds)
    draw = random.Random(seed)
    found: dict[Shape, None] = {}  # a set that keeps its order
    for position in range(count):
        step = 1 if position % ANY_INTEGER == 0 else STEP
        for _ in range(TRIES):
            if position % SQUARE == 0 and common[0] <= common[1]:
                sides = [extent(draw, *common, step)] * len(bounds)
            else:
                sides = [extent(draw, low, high, step) for low, high in bounds]
            shape = kind(*sides) if all(sides) else None
            if shape and shape not in found and shape.operations <= (operations or float("inf")):
                found[shape] = None
                break
        else:
            raise UserError(
                f"random: {count} shapes from {smallest} to {largest}"
                + (f" of at most {operations:g} operations" if operations else "")
                + f": found only {len(found)}; ask for fewer, or widen the bounds"
            )
    return list(found)


def extent(draw: random.Random, low: int, high: int, step: int) -> int:
    """A log-uniform multiple of `step` between two bounds; 0 if there is none."""
    least, most = ceil_div(low, step), high // step
    if least > most:
        return 0
    drawn = low * (high / low) ** draw.random()
    return step * min(max(round(drawn / step), least), most)


def drawn_shapes(rule: Mapping[str, Any], operation: str) -> list[str]:
    """The shapes that a configuration's mapping asks for (random, seed, from, to and perhaps
    operations), as texts. Raises UserError."""
    bounds = {}
    for key in ("from", "to"):
        with naming(key):
            bounds[key] = parse_shape(rule[key], operation)
    shapes = random_shapes(
        OPERATIONS[operation].shape, rule["random"], rule["seed"], bounds["from"], bounds["to"],
        rule.get("operations"),
    )  # fmt: skip
    return list(map(str, shapes))
