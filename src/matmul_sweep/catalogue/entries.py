"""Kernels and their variants: the entries of the catalogue with their expressions evaluated."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import Path

from matmul_sweep.catalogue.architectures import MAXIMUM_GRID_Y, architecture, has_instructions
from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.catalogue.keys import Entry, OwnLaunch
from matmul_sweep.catalogue.layout import Layout, layout_of
from matmul_sweep.catalogue.plans import Launch, Plan, tensor_map
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.operation import Operation, Routine
from matmul_sweep.operations.shapes import Shape, ceil_div, grid_of, triangle_of
from matmul_sweep.process.errors import UserError, naming
from matmul_sweep.process.models import meant

MULTIPROCESSORS = "MULTIPROCESSORS"  # of the device; `blocks` may use it
CLUSTERED = 0.91  # of a card, which clusters of more than two blocks can have
ADDS = "ADDS"  # whether a kernel with an epilogue scales and adds
# The keys by which a kernel is launched, timed and verified.
OF_LAUNCH = (
    "tile", "threads", "dynamic_shared_bytes", "accepts", "most_rows", "most_columns", "writes",
    "arithmetic", "blocks", "cluster", "before", "after", "workspace", "tensor_maps",
)  # fmt: skip


class Kind(Enum):
    """The kind of an entry, which decides how it is built and run."""

    CUDA = "cuda"
    C = "c"
    LIBRARY = "library"
    DISPATCH = "dispatch"  # picks a variant of other entries by shape


@dataclass(frozen=True, kw_only=True)
class Kernel(Entry):
    """One entry of the catalogue, with its name and the tilings that searches found."""

    name: str
    searched: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)

    @cached_property
    def variants(self) -> list["Variant"]:
        """The variants: one for each tiling, or without tilings one in all."""
        own = [self.tiled(name, values) for name, values in self.tilings.items()]
        return own or [Variant(self, "", self.parameters)]

    @cached_property
    def every_variant(self) -> list["Variant"]:
        """These, and those that a search found, which are compiled for dispatches only."""
        return self.variants + [self.tiled(*tiling) for tiling in self.searched.items()]

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
        before, after = ([each.function for each in own] for own in (self.before, self.after))
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
    def tuned(self) -> bool:
        """Whether it stands for the fastest of what a library offers, and is timed alone only."""
        return bool(self.library) and self.routine.tuned

    @property
    def on_gpu(self) -> bool:
        return self.routine.on_gpu if self.library else self.hand_written

    @property
    def hand_written(self) -> bool:
        """Whether it runs on the GPU and is not a library routine."""
        return self.kind in (Kind.CUDA, Kind.DISPATCH)


class Evaluated:
    """A key of the entry, an expression, as the number that it is with a variant's parameters."""

    def __set_name__(self, owner: type, key: str) -> None:
        self.key = key

    def __get__(self, variant: "Variant", owner: type) -> int:
        return evaluate(getattr(variant.kernel, self.key), variant.parameters)


@dataclass(frozen=True)
class Variant:
    """A kernel with a tiling, so with fixed compile-time parameters."""

    kernel: Kernel
    tiling: str
    parameters: Mapping[str, int] = field(hash=False)
    registers = Evaluated()
    shared_bytes = Evaluated()
    dynamic_shared_bytes = Evaluated()
    most_rows = Evaluated()
    most_columns = Evaluated()
    least = Evaluated()
    fewest_terms = Evaluated()
    cluster = Evaluated()

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
    def adding(self) -> "Variant":
        """The one that stores alpha·product + beta·D; itself if its kernel has no epilogue."""
        if not self.kernel.epilogue:
            return self
        return replace(self, tiling=f"{self.tiling}-adds", parameters={**self.parameters, ADDS: 1})

    @property
    def measured(self) -> bool:
        """Whether it is measured on its own by default."""
        return not self.kernel.named_only and self.tiling not in self.kernel.searched

    def constants(self, arch: str | None) -> dict[str, int]:
        """The macros for compiling its source for an architecture: its parameters, OVERLAPS if its
        launches do, ADDS with an epilogue and, if its grid depends on the device, the number of
        multiprocessors."""
        kernel, found = self.kernel, {ADDS: 0} if self.kernel.epilogue else {}
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
    def takes_every_extent(self) -> bool:
        """Whether it takes C of any number of rows and columns that the kernel accepts."""
        return not (self.most_rows or self.most_columns)

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

    def cluster_tiles(self, shape: Shape) -> int:
        """Of clusters' tiles, each as many neighbouring tiles as the cluster has blocks (from top
        to bottom CLUSTER_M, from left to right CLUSTER_N), those that cover C, or a triangle of it;
        some tiles may lie outside."""
        own = [self.parameters.get(name, 1) for name in ("CLUSTER_M", "CLUSTER_N")]
        sides = zip(shape.output, self.tile, own, strict=True)
        rows, columns = (ceil_div(extent, tile * side) for extent, tile, side in sides)
        fewer = rows // 4 if self.kernel.schedule == "corners" else 0
        return rows * (rows + 1) // 2 - fewer if self.kernel.half else rows * columns

    def grid(self, shape: Shape, arch: str | None = None) -> tuple[int, int, int]:
        """gridDim in x, y, z for a product of `shape` with its binary for an architecture: whole
        clusters, of a fixed number of blocks no more than that, so that all can be resident, and
        where they take whole tiles no more than there are tiles."""
        blocks, cluster = evaluate(self.kernel.blocks, self.constants(arch)), self.cluster
        if blocks:
            clusters = blocks // cluster
            if self.kernel.shares == "tiles":
                clusters = min(clusters_at_once(blocks, cluster), self.cluster_tiles(shape))
            return max(clusters, 1) * cluster, 1, 1
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
        values = self.constants(arch) | vars(shape)
        own = Launch(self.grid(shape, arch), self.block, self.dynamic_shared_bytes, self.cluster)
        before = [launch_of(each, values) for each in kernel.before]
        after = [launch_of(each, values) for each in kernel.after]
        added = ["D"] if kernel.epilogue else []
        names = [*kernel.product.matrices, *kernel.workspace, *added]
        maps = []
        for name, entry in kernel.tensor_maps.items():
            with naming("tensor_maps", name):
                maps.append(tensor_map(entry, names, kernel.product.dtypes, values))
        workspace = tuple(evaluate(size, values) for size in kernel.workspace.values())
        return Plan((*before, own, *after), workspace, tuple(maps))

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
        limits, found = {"m": self.most_rows, "n": self.most_columns}, replace(shape, **longer)
        fewer = {name: min(getattr(found, name), most) for name, most in limits.items() if most}
        return replace(found, **fewer)

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

    def runs_on(self, arch: str) -> bool:
        """Whether an architecture has the instructions and the shared memory that it needs."""
        return (
            has_instructions(arch, self.kernel.since)
            and self.dynamic_shared_bytes <= architecture(arch).shared << 10
        )

    def parts(self, arch: str | None, shapes: Iterable[Shape] | None = None) -> list["Variant"]:
        """The variants to compile for it: itself, or those that a dispatch chooses among; with
        `shapes` only those that run at one of them."""
        return [self]

    def part(self, shape: Shape, arch: str | None) -> "Variant":
        """The variant that runs at a shape: itself, or a dispatch's choice.

        Raises UserError if a dispatch has none that takes the shape.
        """
        return self

    @property
    def choices(self) -> list[tuple[tuple[object, ...], "Variant"]]:
        """What a dispatch chooses among: all that the choice goes by, and the variant."""
        return []

    @property
    def optimization(self) -> int | None:
        """The ptxas level at which it is compiled; None for ptxas's default."""
        level = self.kernel.optimization
        return None if level is None else evaluate(level, self.parameters)

    @property
    def launch_identity(self) -> str:
        """What determines its launch and timing, besides its sources, flags and parameters."""
        own = [getattr(self.kernel, key) for key in OF_LAUNCH]
        return repr([self.kernel.product.rivals, own])


def clusters_at_once(places: int, cluster: int) -> int:
    """How many clusters run at once where there are places for so many blocks. A cluster's
    multiprocessors are neighbours, of a group of 14 to 18 on an H100: of its 132 clusters of four
    have 120, 30 at once, and so have those of eight."""
    return int((CLUSTERED if cluster > 2 else 1) * places) // cluster


def launch_of(own: OwnLaunch, values: Mapping[str, int]) -> Launch:
    """A launch before or after the one that multiplies."""
    y, x = (evaluate(extent, values) for extent in own.threads)
    shared, cluster = (evaluate(e, values) for e in (own.dynamic_shared_bytes, own.cluster))
    return Launch((evaluate(own.blocks, values), 1, 1), (x, y, 1), shared, cluster)


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

    def rivals(self, kernel: Kernel, alone: bool = False) -> list[Variant]:
        """The library variants here that a kernel is compared with: the rivals of its operation
        and, alone, its tuned entry. There are none for these themselves or for a CPU kernel."""
        names = kernel.product.rivals
        if kernel.name in names or kernel.tuned or not kernel.on_gpu:
            return []
        tuned = [k.name for k in self.values() if k.tuned and k.operation == kernel.operation]
        names = *names, *(tuned if alone else ())
        return [self[name].variants[0] for name in names if name in self]

    def variant(self, text: str) -> Variant:
        """The variant called `text`: its name, its slug, or a kernel's name for the first variant.

        Raises UserError if there is none.
        """
        name = re.split(r"\W", text)[0]
        if name not in self:
            raise UserError(
                f"kernel '{text}': the catalogue has {', '.join(self)}; docs/kernels.md says how "
                f"to add one{meant(name, self)}"
            )
        if text == name:
            return self[name].variants[0]
        for variant in self[name].every_variant:
            if text in (variant.name, variant.slug):
                return variant
        known = [variant.name for variant in self[name].every_variant]
        raise UserError(
            f"variant '{text}': the catalogue has {', '.join(known)}{meant(text, known)}"
        )
