"""The catalogue of kernels: read, checked, and expanded into variants."""

import csv
import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from matmul_sweep.catalogue.architectures import (
    ARCHITECTURES,
    DEFAULT,
    MAXIMUM_GRID_Y,
    MAXIMUM_REGISTERS,
    MAXIMUM_THREADS,
    REGISTER_FILE,
    STATIC_SHARED,
    architecture,
    capability,
    has_instructions,
)
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.catalogue.layout import Layout, layout_of
from matmul_sweep.catalogue.plans import Launch, Plan, tensor_map
from matmul_sweep.catalogue.schema import check
from matmul_sweep.dispatch.cost import TERMS, Cost, taken
from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.operation import Operation, Routine
from matmul_sweep.operations.shapes import Shape, ceil_div, grid_of, triangle_of
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.project import DEFAULT_CATALOGUE, ROOT
from matmul_sweep.process.yaml_files import read_yaml

SURELY = 1.1  # predictions err by up to a tenth, those of two tables in different ways
MULTIPROCESSORS = "MULTIPROCESSORS"  # of the device; `blocks` may use it
CHECKED = "MATMUL_SWEEP_CHECKED"  # variable: the digest of the catalogue that the workflow checked
PROBED = (1, 1001)  # sizes at which a plan is tried, each rounded up to a shape that is accepted
ORIGINS = ("source", "library", "dispatch")  # an entry has exactly one of them
# Keys that entries once had, and what replaces them.
REPLACED = {
    "language": "the suffix of source says it; a library's entry has `library: cublasSgemm`, a "
    "table's `dispatch: FILE.csv`",
    "dtype": "the operation says it",
    "baselines": "each kernel is timed beside its operation's rivals",
    "teaches": "it is called lesson",
}


class Kind(Enum):
    """The kind of an entry, which decides how it is built and run."""

    CUDA = "cuda"
    C = "c"
    LIBRARY = "library"
    DISPATCH = "dispatch"  # picks a variant of other entries by shape


@dataclass(frozen=True)
class Kernel:
    """One entry of the catalogue; the schema describes each field."""

    name: str
    operation: str
    title: str = ""
    source: Path | None = None
    function: str = ""
    library: str | None = None
    dispatch: Path | None = None
    otherwise: str | None = None
    accepts: str | Mapping[str, int | str] = field(default="any", hash=False)
    documents: tuple[str, ...] = ()
    named_only: bool = False
    classroom: bool = False
    lesson: str = ""
    idea: str = ""
    adds: str = ""
    missed: str = ""
    parameters: Mapping[str, int] = field(default_factory=dict, hash=False)
    tilings: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    dispatched: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)
    tile: tuple[int | str, int | str] | None = None
    threads: tuple[int | str, int | str] | None = None
    blocks: int | str = 0
    cluster: int | str = 1
    before: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    after: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    workspace: Mapping[str, int | str] = field(default_factory=dict, hash=False)
    tensor_maps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, hash=False)
    overlaps: bool = False
    least: int | str = 1
    at_once: int | str = 0
    shares: str = "stretches"
    fewest_terms: int | str = 0
    since: str = "6.0"
    schedule: str = "full"
    writes: str = "full"
    arithmetic: str = "full"
    multiples: Mapping[str, int | str] = field(default_factory=dict, hash=False)
    optimization: int | str | None = None
    most_rows: int | str = 0
    most_columns: int | str = 0
    registers: int | str = 0
    shared_bytes: int | str = 0
    dynamic_shared_bytes: int | str = 0
    layout: Mapping[str, Any] | None = field(default=None, hash=False)
    costs: tuple[Cost, ...] = ()  # of its own table
    others: tuple[Cost, ...] = ()  # of the dispatch that `otherwise` names

    @cached_property
    def variants(self) -> list["Variant"]:
        """The variants: one for each tiling, or without tilings one in all."""
        own = [self.tiled(name, values) for name, values in self.tilings.items()]
        return own or [Variant(self, "", self.parameters)]

    @cached_property
    def every_variant(self) -> list["Variant"]:
        """These, and the variants that are compiled for dispatches only."""
        return self.variants + [self.tiled(*tiling) for tiling in self.dispatched.items()]

    def tiled(self, name: str, values: Mapping[str, int]) -> "Variant":
        """The variant with a tiling of that name, which need not be in the catalogue."""
        return Variant(self, name, {**self.parameters, **values})

    @property
    def kind(self) -> Kind:
        if self.source:
            return Kind.CUDA if self.source.suffix == ".cu" else Kind.C
        return Kind.LIBRARY if self.library else Kind.DISPATCH

    @property
    def half(self) -> bool:
        """Whether it computes only the tiles of one triangle."""
        return self.schedule != "full"

    @property
    def code(self) -> Path:
        """The source of a CUDA or C kernel; other kinds have none."""
        assert self.source is not None
        return self.source

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the source in the order of their launches."""
        before, after = ([each["function"] for each in own] for own in (self.before, self.after))
        return (*before, self.function, *after)

    @property
    def product(self) -> Operation:
        """What it computes."""
        return OPERATIONS[self.operation]

    @property
    def dtype(self) -> str:
        """Of its inputs and of C."""
        return self.product.dtype

    @property
    def routine(self) -> Routine:
        """The library function that it calls; a KeyError for other kernels."""
        return self.product.routines[str(self.library)]

    @property
    def on_gpu(self) -> bool:
        return self.routine.on_gpu if self.library else self.hand_written

    @property
    def hand_written(self) -> bool:
        """Whether it runs on the GPU and is not a library routine."""
        return self.kind in (Kind.CUDA, Kind.DISPATCH)


@dataclass(frozen=True)
class Variant:
    """A kernel with a tiling, so with fixed compile-time parameters."""

    kernel: Kernel
    tiling: str
    parameters: Mapping[str, int] = field(hash=False)

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name in data and reports: `shared/32`, or without tilings the kernel's name."""
        return f"{self.kernel.name}/{self.tiling}" if self.tiling else self.kernel.name

    @property
    def slug(self) -> str:
        """The name of its files: `shared-32`."""
        return self.name.replace("/", "-")

    @property
    def measured(self) -> bool:
        """Whether it is measured on its own by default."""
        return not self.kernel.named_only and self.tiling not in self.kernel.dispatched

    def constants(self, arch: str | None) -> dict[str, int]:
        """The macros for compiling its source for an architecture: its parameters, OVERLAPS if its
        launches do and, if its grid depends on the device, the number of multiprocessors."""
        kernel, found = self.kernel, dict[str, int]()
        if kernel.overlaps:
            found["OVERLAPS"] = 1
        if MULTIPROCESSORS in f"{kernel.blocks} {kernel.before} {kernel.after}":
            found[MULTIPROCESSORS] = architecture(arch).multiprocessors
        return {**found, **self.parameters}

    @cached_property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that one block computes; of a CUDA kernel only."""
        assert self.kernel.tile
        rows, columns = self.kernel.tile
        return evaluate(rows, self.parameters), evaluate(columns, self.parameters)

    @property
    def block(self) -> tuple[int, int, int]:
        """blockDim in x, y, z; of a CUDA kernel only."""
        assert self.kernel.threads
        y, x = self.kernel.threads
        return evaluate(x, self.parameters), evaluate(y, self.parameters), 1

    @property
    def dynamic_shared_bytes(self) -> int:
        return evaluate(self.kernel.dynamic_shared_bytes, self.parameters)

    @property
    def most_rows(self) -> int:
        """The most rows of C that it takes; 0 if there is no limit."""
        return evaluate(self.kernel.most_rows, self.parameters)

    @property
    def most_columns(self) -> int:
        """The most columns of C that it takes; 0 if there is no limit."""
        return evaluate(self.kernel.most_columns, self.parameters)

    @property
    def takes_every_extent(self) -> bool:
        """Whether it takes C of any number of rows and columns that the kernel accepts."""
        return not (self.most_rows or self.most_columns)

    @property
    def least(self) -> int:
        """The fewest slabs that are worth a block of their own, where a tile is shared out."""
        return evaluate(self.kernel.least, self.parameters)

    @property
    def fewest_terms(self) -> int:
        """Terms of a sum below which no dispatch chooses it: it would err more than the library."""
        return evaluate(self.kernel.fewest_terms, self.parameters)

    @cached_property
    def resident(self) -> int:
        """Blocks of a multiprocessor, if the grid has a fixed number of blocks; otherwise 0."""
        own = {MULTIPROCESSORS: self.cluster, **self.parameters}
        return evaluate(self.kernel.blocks, own) // self.cluster

    @cached_property
    def at_once(self) -> int:
        """Whole tiles that a multiprocessor has at a time, each a block's; 0: unknown, or blocks
        share out the slabs of tiles."""
        if self.kernel.shares == "tiles":
            return self.resident
        return 0 if self.resident else evaluate(self.kernel.at_once, self.parameters)

    @property
    def chains(self) -> int:
        """Chains of additions that make up a sum (the parameter CHAINS)."""
        return self.parameters.get("CHAINS", 1)

    @cached_property
    def slab(self) -> int:
        """Terms of the sums that a block multiplies at a time."""
        return self.layout.slab if self.layout and self.layout.slab else 1

    @cached_property
    def teams(self) -> int:
        """Teams of warps that share out the slabs of a tile."""
        return self.layout.teams if self.layout else 1

    @property
    def layout(self) -> Layout | None:
        """How its threads share a tile; None if the catalogue does not say."""
        if self.kernel.layout is None:
            return None
        return layout_of(self.kernel.layout, self.parameters, self.tile, math.prod(self.block))

    @property
    def cluster(self) -> int:
        """Blocks of a cluster of the launch that multiplies."""
        return evaluate(self.kernel.cluster, self.parameters)

    @property
    def cluster_sides(self) -> tuple[int, int]:
        """Tiles of a cluster from top to bottom and from left to right, where it takes neighbours
        (the parameters CLUSTER_M and CLUSTER_N)."""
        return self.parameters.get("CLUSTER_M", 1), self.parameters.get("CLUSTER_N", 1)

    def grid(self, shape: Shape, arch: str | None = None) -> tuple[int, int, int]:
        """gridDim in x, y, z for a product of `shape` with its binary for an architecture: whole
        clusters, of a fixed number of blocks no more than that, so that all can be resident, and
        where they take whole tiles no more than there are tiles."""
        blocks, cluster = evaluate(self.kernel.blocks, self.constants(arch)), self.cluster
        if blocks:
            clusters = max(blocks // cluster, 1)
            if self.kernel.shares == "tiles":
                clusters = min(clusters, taken(self, shape))
            return clusters * cluster, 1, 1
        tiles = triangle_of if self.kernel.schedule == "triangle" else grid_of
        x, y, z = tiles(shape, self.tile)
        if self.kernel.shares == "cluster":
            return x * cluster, y, z
        return ceil_div(x, cluster) * cluster, y, z

    def plan(self, shape: Shape, arch: str | None = None) -> Plan:
        """What a product of `shape` takes, with its binary for an architecture; of a CUDA kernel.

        Raises UserError for a tensor map that cannot be.
        """
        kernel = self.kernel
        values = self.constants(arch) | dict(
            zip(shape.__match_args__, shape.dimensions, strict=True)
        )
        own = Launch(self.grid(shape, arch), self.block, self.dynamic_shared_bytes, self.cluster)
        before, after = (
            [launch_of(each, values) for each in extra] for extra in (kernel.before, kernel.after)
        )
        names = [*kernel.product.matrices, *kernel.workspace]
        maps = []
        for name, entry in kernel.tensor_maps.items():
            try:
                maps.append(tensor_map(entry, names, kernel.dtype, values))
            except UserError as error:
                raise UserError(f"tensor_maps: {name}: {error}") from None
        workspace = tuple(evaluate(size, values) for size in kernel.workspace.values())
        return Plan((*before, own, *after), workspace, tuple(maps))

    def blocks_before(self, shape: Shape) -> int:
        """Blocks of the first launch before the one that multiplies; 0 if there is none."""
        if not self.kernel.before:
            return 0
        extents = dict(zip(shape.__match_args__, shape.dimensions, strict=True))
        return evaluate(self.kernel.before[0]["blocks"], self.constants(None) | extents)

    def workspace_bytes(self, shape: Shape, arch: str | None = None) -> int:
        """Bytes of memory that it needs beside its matrices."""
        if not self.kernel.hand_written:
            return 0
        return sum(self.part(shape, arch).plan(shape, arch).workspace)

    @property
    def steps(self) -> dict[str, int]:
        """Of what each dimension must be a multiple, where not every number will do."""
        accepts = self.kernel.accepts
        if isinstance(accepts, str):
            names = self.kernel.product.shape.__match_args__ if accepts in self.parameters else ()
            return {name: self.parameters[str(accepts)] for name in names}
        return {name: evaluate(step, self.parameters) for name, step in accepts.items()}

    def fitted(self, shape: Shape) -> Shape:
        """`shape` or, if that is not accepted, one near it: with longer dimensions that are
        multiples, and no more rows and columns of C than the most."""
        step = self.steps
        longer = {name: ceil_div(getattr(shape, name), by) * by for name, by in step.items()}
        limits = {"m": self.most_rows, "n": self.most_columns}
        fewer = {name: min(getattr(shape, name), most) for name, most in limits.items() if most}
        return replace(shape, **longer | fewer)

    def refusal(self, shape: Shape) -> str | None:
        """Why this variant does not take `shape`, or None if it does."""
        accepts = self.kernel.accepts
        if accepts == "square" and not shape.square:
            return f"{self.kernel.name} multiplies square matrices only, not {shape}"
        for name, step in self.steps.items():
            if getattr(shape, name) % step:
                wanted = f"{accepts}={step}" if isinstance(accepts, str) else f"{step} for {name}"
                return f"{self.name} takes multiples of {wanted} only, not {shape}"
        limits = ((self.most_rows, "row"), (self.most_columns, "column"))
        for extent, (most, word) in zip(shape.output, limits, strict=True):
            if 0 < most < extent:
                words = f"{most} {word}{'s' if most > 1 else ''}"
                return f"{self.name} takes at most {words} of C, not {shape}"
        blocks = self.grid(shape)[1] if self.kernel.tile else 0
        if blocks > MAXIMUM_GRID_Y:
            return f"{self.name}: a grid of {blocks} blocks in y, over {MAXIMUM_GRID_Y}"
        return None

    def may_be_chosen(self, shape: Shape) -> bool:
        """Whether a dispatch may choose it at a shape."""
        return shape.terms >= self.fewest_terms and not self.refusal(shape)

    def costs(self, arch: str | None) -> list[Cost]:
        """A dispatch's rows for an architecture, and those of the other one that it may leave a
        shape to."""
        return [row for rows in self.tables(arch) for row in rows]

    def tables(self, arch: str | None) -> list[list[Cost]]:
        """These rows, table by table."""
        return [rows_for(arch, rows) for rows in (self.kernel.costs, self.kernel.others) if rows]

    def runs_on(self, arch: str) -> bool:
        """Whether an architecture has the instructions and the shared memory that it needs."""
        return (
            has_instructions(arch, self.kernel.since)
            and self.dynamic_shared_bytes <= architecture(arch).shared << 10
        )

    def parts(self, arch: str | None, shapes: Iterable[Shape] | None = None) -> list["Variant"]:
        """The variants to compile: itself, or those that a dispatch chooses among; with `shapes`
        only those that run at one of them."""
        if self.kernel.kind is not Kind.DISPATCH:
            return [self]
        if shapes is None:
            used = (row.variant for row in self.costs(arch))
        else:
            used = (variant for shape in shapes if (variant := self.fastest(shape, arch)))
        return list({variant.slug: variant for variant in used}.values())

    def part(self, shape: Shape, arch: str | None) -> "Variant":
        """The variant that runs at a shape: itself, or a dispatch's choice.

        Raises UserError if the dispatch has none that takes the shape.
        """
        if self.kernel.kind is not Kind.DISPATCH:
            return self
        variant = self.fastest(shape, arch)
        if variant is None:
            raise UserError(f"{self.kernel.dispatch}: no row's variant takes {shape}")
        return variant

    def fastest(self, shape: Shape, arch: str | None) -> "Variant | None":
        """A dispatch's choice: its own, if the other dispatch that it may leave a shape to is
        predicted to be SURELY slower; None if no variant takes the shape."""
        of_card = architecture(arch).multiprocessors
        choices = [choice(rows, shape, of_card) for rows in self.tables(arch)]
        (least, variant), *others = choices
        return next((other for time, other in others if not least * SURELY < time), variant)

    @property
    def optimization(self) -> int | None:
        """The ptxas level at which it is compiled; None for ptxas's default."""
        level = self.kernel.optimization
        return None if level is None else evaluate(level, self.parameters)

    @property
    def launch_identity(self) -> list[object]:
        """What determines its launch and timing, besides its sources and flags."""
        kernel = self.kernel
        geometry: list[object] = [row.identity for row in (*kernel.costs, *kernel.others)]
        if kernel.tile:
            geometry = [self.tile, self.block, kernel.blocks, self.dynamic_shared_bytes]
        return [
            geometry,
            kernel.accepts,
            kernel.most_rows,
            kernel.most_columns,
            kernel.writes,
            kernel.arithmetic,
            list(kernel.product.rivals),
            [kernel.cluster, kernel.before, kernel.after, kernel.workspace, kernel.tensor_maps],
        ]


def rows_for(arch: str | None, rows: Sequence[Cost]) -> list[Cost]:
    """The rows of a table for an architecture. A card that it was not fitted on takes as a guess
    those rows of the first card that name variants that run there."""
    first = rows[0].architecture
    wanted = arch or first
    return [row for row in rows if row.architecture == wanted] or [
        row for row in rows if row.architecture == first and row.variant.runs_on(wanted)
    ]


def choice(
    rows: Sequence[Cost], shape: Shape, multiprocessors: int
) -> tuple[float, Variant | None]:
    """The least microseconds that a table's rows predict, and the variant that was the fastest when
    this shape was measured, else the one with that time; infinite and None if none takes it."""
    able = [row for row in rows if row.variant.may_be_chosen(shape)]
    predicted: list[tuple[float, Variant | None]] = [
        (math.inf, None),  # before all others, so that none that is infinite is chosen
        *((row.microseconds(shape, multiprocessors), row.variant) for row in able),
    ]
    least, variant = min(predicted, key=lambda found: found[0])
    known = [row.variant for row in able if shape in row.shapes]
    return least, known[0] if known else variant


def launch_of(entry: Mapping[str, Any], values: Mapping[str, int]) -> Launch:
    """A launch before or after the one that multiplies."""
    y, x = (evaluate(extent, values) for extent in entry["threads"])
    shared = evaluate(entry.get("dynamic_shared_bytes", 0), values)
    return Launch((evaluate(entry["blocks"], values), 1, 1), (x, y, 1), shared)


def kernel_name(variant: str) -> str:
    """The kernel of a variant's name."""
    return variant.partition("/")[0]


class Catalogue(dict[str, Kernel]):
    """Kernels by name."""

    @property
    def variants(self) -> dict[str, Variant]:
        """All variants by slug."""
        return {v.slug: v for kernel in self.values() for v in kernel.variants}

    @property
    def buildable(self) -> dict[str, Variant]:
        """All variants by slug, and those that are compiled for dispatches only."""
        return {v.slug: v for kernel in self.values() for v in kernel.every_variant}

    def rivals(self, kernel: Kernel) -> list[Variant]:
        """The library variants here that a kernel is compared with: the rivals of its operation.
        There are none for a rival itself or for a CPU kernel."""
        names = kernel.product.rivals
        if kernel.name in names or not kernel.on_gpu:
            return []
        return [self[name].variants[0] for name in names if name in self]

    def variant(self, text: str) -> Variant:
        """The variant called `text`: its name, its slug, or a kernel's name for the first variant.

        Raises UserError if there is none.
        """
        name = re.split(r"\W", text)[0]
        if name not in self:
            raise UserError(f"kernel '{text}': the catalogue has {', '.join(self)}")
        if text == name:
            return self[name].variants[0]
        for variant in self[name].every_variant:
            if text in (variant.name, variant.slug):
                return variant
        known = ", ".join(variant.name for variant in self[name].every_variant)
        raise UserError(f"variant '{text}': the catalogue has {known}")


def load_catalogue(path: Path = DEFAULT_CATALOGUE) -> Catalogue:
    """Read a catalogue and, unless the process that started this one has done so, check it.

    Raises UserError naming the file, the entry and the mistake.
    """
    checked = os.environ.get(CHECKED) == catalogue_digest(path)
    entries = read_yaml(path)
    check_keys(entries, path)
    if not checked:
        check(entries, "catalogue", str(path))
    catalogue = Catalogue(
        {name: kernel_of(name, entry, path.parent) for name, entry in entries.items()}
    )
    for name, kernel in catalogue.items():
        try:
            if kernel.dispatch:
                others = others_of(kernel, catalogue)
                costs = read_costs(kernel, catalogue)
                if not others and not checked:
                    check_costs(costs, kernel)
                catalogue[name] = replace(kernel, costs=tuple(costs), others=others)
            if not checked:
                check_kernel(kernel)
        except UserError as error:
            raise UserError(f"{path}: {name}: {error}") from None
    return catalogue


def catalogue_digest(path: Path) -> str:
    """SHA-256 of a catalogue and of the tables below its folder; of none if they cannot be read."""
    try:
        files = [path, *sorted(path.parent.rglob("*.csv"))]
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
    except OSError:
        return "unreadable"


def kernel_of(name: str, entry: Mapping[str, Any], folder: Path) -> Kernel:
    """An entry, with the paths of its files relative to the catalogue's folder."""
    fields: dict[str, Any] = {
        key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()
    }
    files = {key: folder / fields[key] for key in ("source", "dispatch") if key in fields}
    return Kernel(**{"name": name, "title": name, "function": name} | fields | files)


def check_keys(entries: Any, path: Path) -> None:
    """Check what a schema would explain less well, and make the names of tilings text.

    Raises UserError.
    """
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if not isinstance(entry, dict):
            continue
        for key in REPLACED.keys() & entry.keys():
            raise UserError(f"{path}: {name}: the key '{key}' no longer exists: {REPLACED[key]}")
        if any(isinstance(value, list) for value in dict(entry.get("parameters") or {}).values()):
            raise UserError(
                f"{path}: {name}: parameters have one value each; name variants in "
                "`tilings: {32: {TILE_WIDTH: 32}}`"
            )
        if len(entry.keys() & set(ORIGINS)) != 1:
            raise UserError(
                f"{path}: {name}: an entry has exactly one of source (a .cu or .c file), library "
                "(a routine's name) and dispatch (a table of variants by shape)"
            )
        for key in ("tilings", "dispatched"):
            if isinstance(entry.get(key), dict):  # YAML takes 32 for a number
                entry[key] = {str(tiling): values for tiling, values in entry[key].items()}


@cache
def document_names() -> list[str]:
    """The documents that `documents` may name."""
    return list(read_yaml(ROOT / "reports" / "documents.yaml"))


def read_costs(kernel: Kernel, catalogue: Catalogue) -> list[Cost]:
    """The rows of a dispatch's table: architecture, variant, coefficients. Raises UserError."""
    assert kernel.dispatch
    try:
        with kernel.dispatch.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{kernel.dispatch}: {error}") from None
    costs = []
    for line, row in enumerate(rows, 2):
        try:
            costs.append(cost_of(row, catalogue))
        except KeyError as error:
            raise UserError(f"{kernel.dispatch}: there is no column {error}") from None
        except UserError as error:
            raise UserError(f"{kernel.dispatch}, line {line}: {error}") from None
    return costs


def others_of(kernel: Kernel, catalogue: Catalogue) -> tuple[Cost, ...]:
    """The rows of the dispatch that a dispatch leaves other shapes to. Raises UserError."""
    if kernel.otherwise is None:
        return ()
    other = catalogue.variant(kernel.otherwise).kernel
    if not other.costs or other.operation != kernel.operation:
        raise UserError(
            f"otherwise: '{kernel.otherwise}' is no dispatch of {kernel.operation} above this entry"
        )
    return other.costs


def check_costs(costs: Sequence[Cost], kernel: Kernel) -> None:
    """Check that a dispatch's rows leave no shape without a variant, on any card.

    Raises UserError.
    """
    if not costs:
        raise UserError(f"{kernel.dispatch}: there is no row")
    archs = list(dict.fromkeys(cost.architecture for cost in costs))
    for arch in archs:
        check_rows(arch, [cost for cost in costs if cost.architecture == arch], kernel)
    oldest = min(ARCHITECTURES, key=capability)
    guess = [cost for cost in costs if cost.architecture == archs[0]]
    if not any(takes_every_shape(cost, kernel) and cost.variant.runs_on(oldest) for cost in guess):
        raise UserError(
            f"{kernel.dispatch}: cards that it was not fitted on take the rows for '{archs[0]}'; "
            f"one of them must name a variant that takes every shape and runs from {oldest} on"
        )


def cost_of(row: Mapping[str, str], catalogue: Catalogue) -> Cost:
    """A row of a table. Raises KeyError for a missing column, or UserError."""
    arch, variant = row["architecture"], named(row["variant"], catalogue)
    if not re.fullmatch(r"sm_[0-9]{2,3}", arch):
        raise UserError(f"architecture '{arch}': write one such as sm_90")
    if not variant.runs_on(arch):
        raise UserError(f"{variant.name} does not run on {arch}: fit the table on that card")
    shapes = frozenset(
        parse_shape(text, variant.kernel.operation) for text in row["shapes"].split()
    )
    most_additions = int(number(row, "most_additions") if row["most_additions"] else 0)
    terms = [term for term in TERMS if row[term]]
    if 0 < len(terms) < len(TERMS) or not (terms or shapes):
        missing = next(term for term in TERMS if term not in terms)
        raise UserError(f"{missing}: a row has all costs, or none and the shapes that it is for")
    return Cost(arch, variant, tuple(number(row, term) for term in terms), most_additions, shapes)


def number(row: Mapping[str, str], column: str) -> float:
    """A cell of a table: 0 or more. Raises UserError."""
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise UserError(f"{column}: '{row[column]}' is not a number from 0 on")
    return value


def check_rows(arch: str, costs: Sequence[Cost], kernel: Kernel) -> None:
    """Check that a dispatch's rows for an architecture leave no shape without a variant.

    Raises UserError.
    """
    if not any(takes_every_shape(cost, kernel) for cost in costs):
        raise UserError(
            f"{kernel.dispatch}: one of the rows for '{arch}' must name a variant that takes every "
            f"shape that {kernel.name} accepts, with costs and without most_additions"
        )


def takes_every_shape(cost: Cost, kernel: Kernel) -> bool:
    """Whether a row may be chosen at every shape that the dispatch accepts."""
    variant = cost.variant
    competes = bool(cost.coefficients) and not cost.most_additions
    accepts = variant.kernel.accepts in ("any", kernel.accepts)
    return competes and accepts and variant.takes_every_extent and variant.fewest_terms <= 1


def named(text: str, catalogue: Catalogue) -> Variant:
    """The variant in a cell of a table. Raises UserError if it is not a CUDA kernel's."""
    variant = catalogue.variant(text)
    if variant.kernel.kind is not Kind.CUDA:
        raise UserError(f"variant '{text}': {variant.kernel.name} is not a CUDA kernel")
    if variant.name != text:
        known = ", ".join(v.name for v in variant.kernel.every_variant)
        raise UserError(f"variant '{text}': say which, of {known}")
    return variant


def check_kernel(kernel: Kernel) -> None:
    """Check what a schema cannot: files exist, names resolve, blocks fit. Raises UserError."""
    if kernel.source and not kernel.source.is_file():
        raise UserError(f"source: there is no file {kernel.source}")
    if kernel.library:
        check_routine(kernel)
    elif kernel.arithmetic == "tf32":
        raise UserError("arithmetic: only a library routine can have tf32")
    if unknown := [name for name in kernel.documents if name not in document_names()]:
        raise UserError(
            f"documents: '{unknown[0]}' is not one of those in reports/documents.yaml: "
            f"{', '.join(document_names())}"
        )
    if both := kernel.tilings.keys() & kernel.dispatched.keys():
        raise UserError(f"dispatched: '{both.pop()}' is already one of its tilings")
    names = kernel.variants[0].parameters
    check_accepts(kernel)
    for name in kernel.multiples:
        if name not in names:
            raise UserError(f"multiples: '{name}' is not one of its parameters")
    for variant in kernel.every_variant:
        if odd := names.keys() ^ variant.parameters.keys():
            raise UserError(
                f"tilings: only one of {kernel.variants[0].tiling} and {variant.tiling} sets "
                f"{odd.pop()}; set it in both, or in parameters"
            )
        if kernel.kind is Kind.CUDA:
            check_variant(variant)


def check_accepts(kernel: Kernel) -> None:
    """Check that `accepts` names dimensions, or else a parameter. Raises UserError."""
    accepts, dimensions = kernel.accepts, kernel.product.shape.__match_args__
    known = ("any", "square", *kernel.variants[0].parameters)
    if isinstance(accepts, str) and accepts not in known:
        raise UserError(f"accepts: '{accepts}' is not one of its parameters")
    if unknown := [] if isinstance(accepts, str) else [*accepts.keys() - {*dimensions}]:
        raise UserError(f"accepts: '{unknown[0]}' is not one of {', '.join(dimensions)}")
    if any(0 in variant.steps.values() for variant in kernel.every_variant):
        raise UserError(f"accepts: {accepts} is 0 in one of its tilings")


def check_routine(kernel: Kernel) -> None:
    """Check that a library's entry names a routine of its operation."""
    routines = kernel.product.routines
    routine = routines.get(str(kernel.library))
    if routine is None:
        known = ", ".join(routines)
        raise UserError(
            f"library: '{kernel.library}' is not one of {kernel.operation}'s routines: {known}"
        )
    if kernel.arithmetic not in routine.arithmetics:
        raise UserError(
            f"arithmetic: '{kernel.library}' has {' and '.join(routine.arithmetics)}, "
            f"not {kernel.arithmetic}"
        )


def check_variant(variant: Variant) -> None:
    """Check that a variant's parameters fit each other, and its block fits a multiprocessor."""
    kernel, name = variant.kernel, variant.name
    for parameter, expression in kernel.multiples.items():
        value, step = variant.parameters[parameter], evaluate(expression, variant.parameters)
        if step < 1 or value % step:
            raise UserError(f"{name}: {parameter}={value} is not a multiple of {expression}={step}")
    threads = math.prod(variant.block)
    if threads > MAXIMUM_THREADS or min(*variant.block, *variant.tile) < 1:
        raise UserError(
            f"{name}: {variant.block[1]}×{variant.block[0]} = {threads} threads per "
            f"block and a tile of {variant.tile[0]}×{variant.tile[1]}; a block holds 1 to "
            f"{MAXIMUM_THREADS} threads"
        )
    try:
        _ = variant.layout
        for size in PROBED:
            variant.plan(variant.fitted(kernel.product.parse(size)))
    except UserError as error:
        raise UserError(f"{name}: {error}") from None
    registers = evaluate(kernel.registers, variant.parameters)
    for key, wanted, limit, unit in (
        ("registers", registers, MAXIMUM_REGISTERS, "registers per thread"),
        ("registers", registers * threads, REGISTER_FILE, f"registers for {threads} threads"),
        ("shared_bytes", evaluate(kernel.shared_bytes, variant.parameters), STATIC_SHARED,
         "bytes of static shared memory per block"),
        ("dynamic_shared_bytes", variant.dynamic_shared_bytes, ARCHITECTURES[DEFAULT].shared << 10,
         "bytes of dynamic shared memory per block"),
    ):  # fmt: skip
        if not 0 <= wanted <= limit:
            raise UserError(f"{name}: {key}: {wanted} {unit}, outside 0 to {limit}")
