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

--limits keeps the table's costs, and in minutes fits only what the power limit makes of them.
--judge SEED fits nothing: at random shapes it times what the dispatch takes, alone, beside the
fastest of what the libraries offer, and says how the dispatch does.

--table writes this architecture's rows of the dispatch: the variants that the choice by predicted
time takes at some shape, each with its constants and its costs (matmul_sweep.dispatch.cost).
"""

import environment  # noqa: F401

import tempfile
from argparse import Namespace
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import gmean
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
    FINALISTS,
    JUDGED,
    NEAR,
    Row,
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
from matmul_sweep.experiment.verify.cublaslt import CublasError
from matmul_sweep.experiment.verify.gpu import Gpu, opened
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.products import gpu_product, offers
from matmul_sweep.experiment.verify.reference import reference
from matmul_sweep.experiment.verify.verification import Accuracy
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.launch.products import NoRoom
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import Unfinished, UserError, command_line
from matmul_sweep.process.files import whole_file
from matmul_sweep.process.yaml_files import read_yaml

SEED = 2026
HANG_SECONDS = 10.0  # after which a launch, and the search with it, is given up
SAMPLE_SECONDS = 0.0002  # of launches in a row
ROUNDS = 4  # samples of a candidate that is not much slower than the fastest
BESIDE = 3  # blocks of what a dispatch takes, and of its rivals
CLOSE = 1.03  # times the fastest in a row, that another offer of a library alone may take


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
        """The same by so many blocks alone, of the fastest library and of the variants that are
        near it in turn; and the share of the power limit that each draws, 0 where the card does not
        say. Raises UserError."""
        launches, errors = self.right(shape, variants)
        times = self.times(launches)
        library = min((own.name for own in self.libraries), key=times.__getitem__)
        own = [v.name for v in variants if v.name in launches]
        least = min((times[name] for name in own), default=0)
        names = [library, *(name for name in own if times[name] <= NEAR * least)]
        taken: dict[str, list[Block]] = {name: [] for name in names}
        for _ in range(count):
            for name in self.random.permutation(names):
                try:
                    block = alone.block(shape.operations, launches[name], block_s=SWING_S)
                    taken[name].append(block)
                except TimeoutError as error:  # a busy host; the other rows stay
                    tqdm.write(f"{name} at {shape}: {error}")
        taken = {name: own for name, own in taken.items() if own}
        if library not in taken:
            return []
        drawn = {name: middle([b.power_w for b in own]) or 0 for name, own in taken.items()}
        medians = {name: median(b.time_ms for b in own) for name, own in taken.items()}
        rows = self.rows(errors, medians)
        return [row | {"share": drawn[row["variant"]] / limit_w} for row in rows]

    def beside(self, alone: Alone, shape: Shape, variant: Variant) -> Row | None:
        """What a program gets of a variant and of the fastest that the libraries offer: medians of
        blocks alone, by turns, with power in W and clock in MHz where blocks are long; None if the
        variant is not correct. Raises UserError, TimeoutError (a busy host)."""
        launches, _ = self.right(shape, [variant], offered=True)
        if variant.name not in launches:
            return None
        times = self.times(launches)
        fastest = sorted(launches.keys() - {variant.name}, key=times.__getitem__)
        near = [name for name in fastest if times[name] <= CLOSE * times[fastest[0]]][:FINALISTS]
        taken: dict[str, list[Block]] = {name: [] for name in (variant.name, *near)}
        for _ in range(BESIDE):
            for name, blocks in taken.items():
                blocks.append(alone.block(shape.operations, launches[name]))
        medians = {name: median(b.time_ms for b in blocks) for name, blocks in taken.items()}
        library = min(near, key=medians.__getitem__)
        row: Row = {"shape": str(shape), "variant": variant.name, "library": library}
        for whose, name in (("", variant.name), ("library_", library)):
            row |= {
                f"{whose}microseconds": 1e3 * medians[name],
                f"{whose}power_w": middle([block.power_w for block in taken[name]]),
                f"{whose}clock_mhz": middle([block.sm_clock_mhz for block in taken[name]]),
            }
        return row

    def right(
        self, shape: Shape, variants: Collection[Variant], offered: bool = False
    ) -> tuple[dict[str, Action], dict[str, Accuracy]]:
        """Launches and errors, by name, of the libraries and of the variants that are correct; the
        launches too, if asked for, of all that the libraries offer. Raises UserError if a launch
        does not end."""
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
        product = self.libraries[0].kernel.product
        for name, offer in offers(product, self.tools, shape).items() if offered else ():
            launch = partial(offer, shape, *inputs, c)
            try:
                self.tools.finished(launch)
            except CublasError:  # an algorithm that does not run after all
                continue
            launches[name] = launch
        return launches, errors

    def rows(self, errors: Mapping[str, Accuracy], times: Mapping[str, float]) -> Rows:
        """The variants that were timed beside libraries; times in ms."""
        names = [library.name for library in self.libraries]
        least, last = 1e3 * min(times[n] for n in names if n in times), errors[names[-1]]
        return [
            {"variant": name, "microseconds": 1e3 * times[name], "library": least,
             "error": own.mean / last.mean, "largest_error": own.largest / last.largest}
            for name, own in errors.items()
            if name in times and name not in names
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
    parser.add_argument(
        "--limits", action="store_true",
        help="keep the table's costs; fit what its variants take at the power limit only",
    )  # fmt: skip
    parser.add_argument(
        "--judge", type=partial(int, base=0), metavar="SEED",
        help="fit nothing; judge the dispatch alone at random shapes of this seed",
    )  # fmt: skip
    parser.add_argument("--shapes", choices=JUDGED, default="large", help="those of --judge")
    parser.add_argument("--output", type=Path, help="CSV; by default results/search-DISPATCH.csv")
    parser.add_argument("--table", action="store_true", help="write the dispatch's table")
    return parser.parse_args()


class Search:
    """A dispatch, the space that is searched for it, and a card."""

    def __init__(self, options: Namespace, gpu: Gpu, build: Path) -> None:
        """Raises UserError."""
        catalogue, self.space = load_catalogue(options.catalogue), read_yaml(options.space)
        dispatch = catalogue.variant(self.space["dispatch"]).kernel
        if not isinstance(dispatch, Dispatch):
            said = "chooses among no variants; name an entry that does"
            raise UserError(f"dispatch: {self.space['dispatch']} {said}")
        self.dispatch, self.gpu, self.arch = dispatch, gpu, gpu.architecture
        self.large = shapes_in(self.space.get(ALONE, []), dispatch.operation)
        judges = options.judge is not None
        what = f"judged-{options.shapes}" if judges else "search"
        self.output = options.output or Path(f"results/{what}-{dispatch.name}.csv")
        compile_instruments(self.arch, build / self.arch / "instruments.cubin")
        keep = options.limits or judges
        rows = (*dispatch.costs, *(dispatch.others if judges else ()))
        self.table = [cost for cost in rows if cost.architecture == self.arch]
        if keep and not self.table:
            raise UserError(f"{dispatch.dispatch}: no row of {self.arch}; fit its costs first")
        every = candidates(catalogue, self.space, options.fit_only)
        every = [cost.variant for cost in self.table] if keep else every
        fitting = [variant for variant in every if variant.runs_on(self.arch)]
        self.kept = compiled(fitting, self.arch, build)
        said = f"{len(self.kept)} of them compile and hardly spill"
        print(f"{len(fitting)} candidates fit, and {said}")
        tools, libraries = Instruments(gpu, build, HANG_SECONDS), catalogue.rivals(dispatch)
        self.race = Race(tools, self.kept, libraries, self.space.get("fill", "uniform"))

    def fitted(self) -> list[Cost]:
        """The rows of a table, by the times of all candidates."""
        shapes = shapes_of(self.space, self.dispatch.operation)
        everywhere = self.space.get("everywhere")
        if everywhere and everywhere not in [variant.name for variant in self.kept]:
            raise UserError(f"everywhere: '{everywhere}' is not one of the candidates")
        found = measured(self.race, self.kept, tqdm(shapes.items()), self.output)
        if self.large and not any(row["set"] == ALONE for row in found):
            found = self.alone(fit.raced(found, self.kept, self.arch), self.large, found)
        only = self.space.get("known_only", ())
        costs = fit.fitted(found, self.kept, self.arch, everywhere, only)
        if judged := [row for row in found if row["set"] == "judged"]:
            print(fit.judgement(judged, costs, self.kept, self.arch))
        return costs

    def limited(self) -> list[Cost]:
        """The rows of the table, with what the power limit makes of them."""
        return fit.limited(self.table, self.alone(self.table, self.large), self.arch)

    def judge(self, seed: int, kind: str) -> None:
        """Say how the dispatch does alone at random shapes; a row for each goes to the output."""
        rule, least, most = JUDGED[kind]
        drawn = shapes_in([rule | {"seed": seed}], self.dispatch.operation)
        shapes = [shape for shape in drawn if shape.operations >= least][:most]
        (dispatch,), rows = self.dispatch.variants, []
        with self.timer() as (timer, _):
            for shape in tqdm(shapes):
                try:
                    rows.append(self.race.beside(timer, shape, dispatch.part(shape, self.arch)))
                except TimeoutError as error:
                    tqdm.write(f"{shape}: {error}")
                found = pd.DataFrame(filter(None, rows))
                with whole_file(self.output) as temporary:
                    found.to_csv(temporary, index=False)
        if found.empty:
            raise UserError(f"{self.dispatch.name}: at none of {len(shapes)} shapes was it right")
        ratio = found.library_microseconds / found.microseconds
        print(
            f"{len(found)} of {len(shapes)} shapes, library's time / its time: "
            f"worst {ratio.min():.3f} at {found.loc[ratio.idxmin(), 'shape']}, "
            f"5% {ratio.quantile(0.05):.3f}, median {ratio.median():.3f}, "
            f"geometric mean {gmean(ratio):.3f}; {(ratio < 1).sum()} below 1"
        )

    @contextmanager
    def timer(self) -> Iterator[tuple[Alone, float]]:
        """What times blocks alone, and the card's power limit in W."""
        with recording(self.gpu.nvml) as recorder:
            limit_w = self.gpu.facts()["power_limit_w"] or inf
            yield Alone(self.race.stream, recorder, limit_w), limit_w

    def alone(
        self, costs: Sequence[Cost], shapes: Sequence[Shape], before: Sequence[Any] = ()
    ) -> Rows:
        """What a program gets at these shapes, of the candidates that these costs promise the most,
        behind the rows of before; written after each shape."""
        found, winners = [*before], {cost.variant.name for cost in self.table if cost.shapes}
        with self.timer() as timed:
            blocks = partial(self.race.blocks, *timed)
            of_card = architecture(self.arch).multiprocessors
            for rows in alone(blocks, costs, winners, tqdm(shapes), of_card):
                found += rows
                save(found, self.output)
        return found


def search(options: Namespace, build: Path) -> None:
    """Raises UserError, NoDevice."""
    with opened() as gpu:
        own = Search(options, gpu, build)
        if options.judge is not None:
            own.judge(options.judge, options.shapes)
            return
        costs = own.limited() if options.limits else own.fitted()
    if options.table and own.dispatch.dispatch:
        write_table(own.dispatch.dispatch, own.arch, costs)


@command_line
def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        try:
            search(options, Path(folder))
        except NoDevice as error:
            raise UserError(f"a search needs a GPU, and {error}") from None


if __name__ == "__main__":
    main()
