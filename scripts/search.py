"""Fit a dispatch to this card: time its candidates at random shapes, and write what they cost.

A file in config/search names the dispatch, its candidates (boxes of values of compile-time
parameters beside the catalogue's tilings), the values of the inputs (`fill`, uniform without it),
and the shapes: those that costs are fitted to, and others, of another seed, at which the choice is
judged. Before anything is timed, candidates are dropped whose parameters do not fit each other or a
multiprocessor, that do not compile (a static_assert says why), or that spill registers. At each
shape each candidate is verified; then the candidates and the library are timed in random order,
each several launches in a row, the fastest ones more often. At the large shapes of `alone` the
candidates that then promise the most are timed as a program gets them, with their power: what a
product costs at the card's power limit follows from that. The output has a row for each candidate
and shape; a search that is started again goes on from there.

--table writes this architecture's rows of the dispatch: the variants that the choice by predicted
time takes at some shape, each with its constants and its costs (matmul_sweep.dispatch.cost).
"""

import tempfile
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tqdm import tqdm

from matmul_sweep.build.binaries import compile_instruments
from matmul_sweep.catalogue.architectures import architecture
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch import fit
from matmul_sweep.dispatch.catalogue import load_catalogue, write_table
from matmul_sweep.dispatch.choice import Dispatch
from matmul_sweep.dispatch.cost import Cost
from matmul_sweep.dispatch.search import (
    ALONE,
    Rows,
    alone,
    candidates,
    compiled,
    measured,
    save,
    shapes_in,
    shapes_of,
)
from matmul_sweep.experiment.measure.alone import SWING_S, Alone
from matmul_sweep.experiment.measure.bench import Block, middle
from matmul_sweep.experiment.measure.in_turn import MOST_LAUNCHES
from matmul_sweep.experiment.measure.launches import Action, in_a_row, launches_of
from matmul_sweep.experiment.measure.state import recording
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import gpu_product
from matmul_sweep.experiment.verify.reference import reference
from matmul_sweep.experiment.verify.verification import Accuracy
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.launch.products import NoRoom
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import Unfinished, UserError, command_line
from matmul_sweep.process.yaml_files import read_yaml

SEED = 2026
HANG_SECONDS = 10.0  # after which a launch, and the search with it, is given up
SAMPLE_SECONDS = 0.0002  # of launches in a row
ROUNDS = 4  # samples of a candidate that is not much slower than the fastest


class Race:
    """Candidates and their libraries, side by side."""

    def __init__(
        self, tools: Instruments, variants: Sequence[Variant], libraries: Sequence[Variant],
        fill: str = "uniform",
    ) -> None:  # fmt: skip
        self.tools, self.libraries = tools, libraries
        self.fill, self.stream = fill, HeldStream(tools)
        self.random = np.random.default_rng(SEED)
        self.products = {v.name: gpu_product(v, tools) for v in [*variants, *libraries]}

    def __call__(self, shape: Shape, variants: Collection[Variant]) -> Rows:
        """A row for each variant that is correct at a shape: variant, microseconds, those of the
        fastest library beside it, error and largest_error as shares of the last library's.

        Raises UserError if a launch does not end.
        """
        launches, errors = self.right(shape, variants)
        return self.rows(errors, self.times(launches))

    def blocks(
        self, alone: Alone, limit_w: float, shape: Shape, variants: Collection[Variant], count: int
    ) -> Rows:
        """The same by so many blocks of each alone, and the share of the power limit that each
        draws, 0 where the card does not say. Raises UserError."""
        launches, errors = self.right(shape, variants)
        taken: dict[str, list[Block]] = {name: [] for name in launches}
        timed = partial(alone.block, shape.operations, block_s=SWING_S)
        for _ in range(count):
            for name in self.random.permutation([*launches]):
                taken[name].append(timed(launches[name]))
        drawn = {name: middle([b.power_w for b in own]) or 0 for name, own in taken.items()}
        times = {name: median(b.time_ms for b in own) for name, own in taken.items()}
        rows = self.rows(errors, times)
        return [row | {"share": drawn[row["variant"]] / limit_w} for row in rows]

    def right(
        self, shape: Shape, variants: Collection[Variant]
    ) -> tuple[dict[str, Action], dict[str, Accuracy]]:
        """Launches and errors, by name, of the libraries and of the variants that are correct.
        Raises UserError if a launch does not end."""
        dtype = self.libraries[0].kernel.dtype
        inputs = self.tools.inputs(self.fill, SEED, shape, dtype)
        c = self.tools.poisoned(shape.elements[-1], dtype)
        truth = reference(self.tools, shape, self.fill, inputs)
        launches: dict[str, Action] = {}
        errors: dict[str, Accuracy] = {}
        for variant in [*self.libraries, *variants]:
            launch = partial(self.products[variant.name], shape, *inputs, c)
            self.tools.poison(c, shape.elements[-1], dtype)
            try:
                self.tools.finished(launch)
            except NoRoom as error:
                raise UserError(str(error)) from None
            except (*self.tools.errors, Unfinished) as error:
                raise UserError(f"{variant.name} at {shape}: {error}") from None
            (found,) = truth.errors([c], [variant.kernel])
            if found.share <= 1:
                launches[variant.name], errors[variant.name] = launch, found
            else:
                tqdm.write(f"{variant.name} at {shape}: wrong result")
        return launches, errors

    def rows(self, errors: Mapping[str, Accuracy], times: Mapping[str, float]) -> Rows:
        """The variants beside the libraries; times in ms."""
        names = [library.name for library in self.libraries]
        least, last = 1e3 * min(times[name] for name in names), errors[names[-1]]
        return [
            {"variant": name, "microseconds": 1e3 * times[name], "library": least,
             "error": own.mean / last.mean, "largest_error": own.largest / last.largest}
            for name, own in errors.items()
            if name not in names
        ]  # fmt: skip

    def times(self, launches: Mapping[str, Action]) -> dict[str, float]:
        """Milliseconds of each: the median of some samples, for a slow one a second launch's. At a
        first launch the kernel's code is not in the instruction cache, and takes up to half as long
        again."""
        twice = [launch for launch in launches.values() for _ in range(2)]
        first = dict(zip(launches, self.held(twice)[1::2], strict=True))
        near = [name for name, ms in first.items() if ms <= fit.FAR * min(first.values())]
        counts = {n: launches_of(SAMPLE_SECONDS, first[n], MOST_LAUNCHES // 4) for n in near}
        taken: dict[str, list[float]] = {name: [] for name in near}
        for _ in range(ROUNDS):
            order = [near[i] for i in self.random.permutation(len(near))]
            rows = self.held([in_a_row(launches[n], counts[n]) for n in order])
            for name, ms in zip(order, rows, strict=True):
                taken[name].append(ms / counts[name])
        return first | {name: float(np.median(own)) for name, own in taken.items()}

    def held(self, launches: Sequence[Any]) -> list[float]:
        """Milliseconds of each, in holds that the driver's queue has room for."""
        size = 8
        lots = [launches[i : i + size] for i in range(0, len(launches), size)]
        return [ms for lot in lots for ms in self.stream.times(lot)]


def parse() -> Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("space", type=Path, help="YAML: dispatch, shapes, boxes of values")
    arguments.add_catalogue(parser)
    parser.add_argument("--fit-only", action="store_true", help="try the catalogue's tilings only")
    parser.add_argument("--build", type=Path, help="folder of the binaries, to keep them")
    parser.add_argument("--output", type=Path, help="CSV; by default results/search-DISPATCH.csv")
    parser.add_argument("--table", action="store_true", help="write the dispatch's table")
    return parser.parse_args()


def search(options: Namespace, build: Path) -> None:
    """Raises UserError, NoDevice."""
    catalogue, space = load_catalogue(options.catalogue), read_yaml(options.space)
    dispatch = catalogue.variant(space["dispatch"]).kernel
    if not isinstance(dispatch, Dispatch):
        said = "chooses among no variants; name an entry that does"
        raise UserError(f"dispatch: {space['dispatch']} {said}")
    every = candidates(catalogue, space, options.fit_only)
    shapes = shapes_of(space, dispatch.operation)
    output = options.output or Path(f"results/search-{dispatch.name}.csv")
    with opened() as gpu:
        arch = gpu.architecture
        compile_instruments(arch, build / arch / "instruments.cubin")
        fitting = [variant for variant in every if variant.runs_on(arch)]
        kept = compiled(fitting, arch, build)
        print(f"{len(fitting)} candidates fit, and {len(kept)} of them compile and hardly spill")
        tools = Instruments(gpu, build, HANG_SECONDS)
        race = Race(tools, kept, catalogue.rivals(dispatch), space.get("fill", "uniform"))
        found = measured(race, kept, tqdm(shapes.items()), output)
        left = shapes_in(space.get(ALONE, []), dispatch.operation)
        if left and not any(row["set"] == ALONE for row in found):
            found += timed_alone(gpu, race, dispatch, fit.raced(found, kept, arch), left)
            save(found, output)
    costs = fit.fitted(found, kept, arch, space.get("everywhere"))
    print(fit.judgement(found, costs, kept, arch))
    if options.table and dispatch.dispatch:
        write_table(dispatch.dispatch, arch, costs)


def timed_alone(
    gpu: Gpu, race: Race, dispatch: Dispatch, costs: Sequence[Cost], shapes: Sequence[Shape]
) -> Rows:
    """What a program gets at these shapes, of the candidates that these costs promise the most."""
    winners = {variant.name for variant in dispatch.variants[0].parts(gpu.architecture)}
    with recording(gpu.nvml) as recorder:
        limit_w = gpu.facts()["power_limit_w"] or inf
        blocks = partial(race.blocks, Alone(race.stream, recorder), limit_w)
        of_card = architecture(gpu.architecture).multiprocessors
        return alone(blocks, costs, winners, tqdm(shapes), of_card)


@command_line
def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        try:
            search(options, options.build or Path(folder))
        except NoDevice as error:
            raise UserError(f"a search needs a GPU, and {error}") from None


if __name__ == "__main__":
    main()
