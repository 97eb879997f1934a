"""The catalogue with dispatches that choose: their tables are read, checked and written here."""

import csv
import math
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from matmul_sweep.catalogue.architectures import ARCHITECTURES, capability
from matmul_sweep.catalogue.entries import Catalogue, Kernel, Kind, Variant
from matmul_sweep.catalogue.reading import read_catalogue
from matmul_sweep.catalogue.tables import Row, read_table, reading
from matmul_sweep.dispatch.choice import Dispatch
from matmul_sweep.dispatch.cost import LIMITS, TERMS, Cost
from matmul_sweep.operations import parse_shape
from matmul_sweep.process.errors import UserError, naming
from matmul_sweep.process.files import whole_file
from matmul_sweep.process.project import DEFAULT_CATALOGUE


def load_catalogue(path: Path = DEFAULT_CATALOGUE) -> Catalogue:
    """Read a catalogue and check it.

    Raises UserError naming the file, the entry and the mistake.
    """
    catalogue = read_catalogue(path)
    for name, kernel in catalogue.items():
        if kernel.dispatch:
            with naming(path, name):
                catalogue[name] = made = dispatch_of(kernel, catalogue)
                check_dispatch(made)
    return catalogue


def dispatch_of(kernel: Kernel, catalogue: Catalogue) -> Dispatch:
    """The dispatch of an entry and of its table. Raises UserError."""
    costs = []
    for line, row in enumerate(read_table(kernel.dispatch), 2):
        with reading(kernel.dispatch, line):
            costs.append(cost_of(row, catalogue))
    others: tuple[Cost, ...] = ()
    if kernel.otherwise:
        other = catalogue.variant(kernel.otherwise).kernel
        if not isinstance(other, Dispatch) or other.operation != kernel.operation:
            raise UserError(
                f"otherwise: '{kernel.otherwise}' is no dispatch of {kernel.operation} above this "
                "entry"
            )
        others = other.costs
    keys = {each.name: getattr(kernel, each.name) for each in fields(kernel)}
    return Dispatch(**keys, costs=tuple(costs), others=others)


def cost_of(row: Row, catalogue: Catalogue) -> Cost:
    """A row of a table. Raises KeyError for a missing column, or UserError."""
    arch, variant = row["architecture"], named(row["variant"], catalogue)
    if not re.fullmatch(r"sm_[0-9]{2,3}", arch):
        raise UserError(f"architecture '{arch}': write one such as sm_90")
    if not variant.runs_on(arch):
        raise UserError(f"{variant.name} does not run on {arch}: fit the table on that card")
    shapes = tuple(parse_shape(text, variant.kernel.operation) for text in row["shapes"].split())
    most_additions = int(number(row, "most_additions") if row["most_additions"] else 0)
    terms = [term for term in TERMS if row[term]]
    if 0 < len(terms) < len(TERMS) or not (terms or shapes):
        missing = next(term for term in TERMS if term not in terms)
        raise UserError(f"{missing}: a row has all costs, or none and the shapes that it is for")
    limits = tuple(number(row, name) if row.get(name) else 0.0 for name in LIMITS)
    coefficients = tuple(number(row, term) for term in terms)
    return Cost(arch, variant, coefficients, most_additions, shapes, limits)


def named(text: str, catalogue: Catalogue) -> Variant:
    """The variant in a cell of a table. Raises UserError if it is not a CUDA kernel's."""
    variant = catalogue.variant(text)
    if variant.kernel.kind is not Kind.CUDA:
        raise UserError(f"variant '{text}': {variant.kernel.name} is not a CUDA kernel")
    if variant.name != text:
        known = ", ".join(v.name for v in variant.kernel.every_variant)
        raise UserError(f"variant '{text}': say which, of {known}")
    return variant


def number(row: Row, column: str) -> float:
    """A cell of a table: 0 or more. Raises UserError."""
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UserError(f"{column}: '{row[column]}' is not a number from 0 on")
    return value


def check_dispatch(dispatch: Dispatch) -> None:
    """Check that a dispatch's rows leave no shape without a variant, on any card, unless it leaves
    that to another one. Raises UserError."""
    costs, file = dispatch.costs, dispatch.dispatch
    if dispatch.otherwise:
        return
    if not costs:
        raise UserError(f"{file}: there is no row")
    everywhere = [row for row in costs if takes_every_shape(row, dispatch)]
    for arch in dict.fromkeys(row.architecture for row in costs):
        if arch not in [row.architecture for row in everywhere]:
            raise UserError(
                f"{file}: one of the rows for '{arch}' must name a variant that takes every shape "
                f"that {dispatch.name} accepts, with costs and without most_additions"
            )
    oldest, first = min(ARCHITECTURES, key=capability), costs[0].architecture
    if not any(row.architecture == first and row.variant.runs_on(oldest) for row in everywhere):
        raise UserError(
            f"{file}: cards that it was not fitted on take the rows for '{first}'; one of them "
            f"must name a variant that takes every shape and runs from {oldest} on"
        )


def takes_every_shape(cost: Cost, kernel: Kernel) -> bool:
    """Whether a row may be chosen at every shape that the dispatch accepts."""
    variant = cost.variant
    competes = bool(cost.coefficients) and not cost.most_additions
    accepts = variant.kernel.accepts in ("any", kernel.accepts)
    return competes and accepts and variant.takes_every_extent and variant.fewest_terms <= 1


def write_table(path: Path, arch: str, costs: Sequence[Cost]) -> None:
    """Replace the table's rows for `arch`; other rows stay."""
    rows: list[dict[str, Any]] = [row for row in read_table(path) if row["architecture"] != arch]
    rows += [row_of(cost) for cost in costs]
    constants = dict.fromkeys(
        key for row in rows for key in row if key.isupper() and row[key] != ""
    )
    limits = [name for name in LIMITS if any(row.get(name) for row in rows)]
    columns = ["architecture", "variant", *constants, *TERMS, *limits, "most_additions", "shapes"]
    with whole_file(path) as temporary, temporary.open("w", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def row_of(cost: Cost) -> dict[str, object]:
    """A row of a table, with what a tiling that the catalogue's file lacks changes of the kernel's
    parameters."""
    variant, kernel = cost.variant, cost.variant.kernel
    own = {} if variant.tiling in kernel.tilings else variant.parameters
    changed = {name: own[name] for name in own if own[name] != kernel.parameters.get(name)}
    numbers = [f"{value:.4g}" for value in cost.coefficients]
    return {
        "architecture": cost.architecture, "variant": variant.name, **changed,
        **dict(zip(TERMS, numbers, strict=False)),
        **{name: f"{x:.4g}" if x else "" for name, x in zip(LIMITS, cost.limits, strict=True)},
        "most_additions": cost.most_additions or "", "shapes": " ".join(map(str, cost.shapes)),
    }  # fmt: skip
