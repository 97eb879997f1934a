"""Fit a dispatch to this card: time its candidates at random shapes, and write what they cost.

A file in config/search names the dispatch, its candidates (boxes of values of compile-time
parameters beside the catalogue's tilings), the values of the inputs (`fill`, uniform without it),
and the shapes: those that costs are fitted to, and others, of another seed, at which the choice is
judged. Before anything is timed, candidates are dropped whose parameters do not fit each other or a
multiprocessor, that do not compile (a static_assert says why), or that spill registers. At each
shape each candidate is verified; then the candidates and the library are timed in random order,
each several launches in a row, the fastest ones more often. The output has a row for each candidate
and shape; a search that is started again goes on from there.

--table writes this architecture's rows of the dispatch: the variants that the choice by predicted
time takes at some shape, each with its costs (matmul_sweep.dispatch.cost). If new tilings are among
them, these are printed instead, to be added to the catalogue first.
"""

import itertools
import os
import re
import tempfile
from argparse import Namespace
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from matmul_sweep.build.binaries import compile_instruments, compile_into
from matmul_sweep.catalogue.entries import Catalogue, Kernel, Variant, check_variant, load_catalogue
from matmul_sweep.catalogue.schema import read_yaml
from matmul_sweep.dispatch import fit
from matmul_sweep.dispatch.cost import TERMS
from matmul_sweep.experiment.measure.gpu_bench import MOST_LAUNCHES, in_a_row, launches_of
from matmul_sweep.experiment.measure.instruments import Instruments
from matmul_sweep.experiment.measure.timing import HeldStream
from matmul_sweep.experiment.verify.reference import reference
from matmul_sweep.launch.device import NoDevice, opened
from matmul_sweep.launch.products import NoRoom, gpu_product
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.random_shapes import drawn_shapes
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process import arguments
from matmul_sweep.process.errors import Unfinished, UserError, command_line
from matmul_sweep.process.files import whole_file

SEED = 2026
SPILL_BYTES = 256  # at most: this few are spilled outside the loop
HANG_SECONDS = 10.0  # after which a launch, and the search with it, is given up
SAMPLE_SECONDS = 0.0002  # of launches in a row
SAVE_SECONDS = 5.0  # so that a search that is stopped loses few shapes
ROUNDS = 4  # samples of a candidate that is not much slower than the fastest


def candidates(kernel: Kernel, boxes: Sequence[Mapping[str, Any]]) -> Iterable[Variant]:
    """The tilings of the catalogue, and every combination of the values in a box that fits a
    multiprocessor. A parameter without values has the value of the kernel's first tiling.

    Raises UserError if a box names a parameter that the kernel lacks.
    """
    yield from kernel.every_variant
    defaults = kernel.variants[0].parameters
    for box in boxes:
        if unknown := set(box) - {*defaults}:
            raise UserError(
                f"{kernel.name} has no parameter {unknown.pop()}; it has {', '.join(defaults)}"
            )
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
    assert kernel.tile
    rows, columns = kernel.tile
    size = f"{unnamed.tile[0]}" if rows == columns else "{}x{}".format(*unnamed.tile)
    base = known.get(size, kernel.variants[0]).parameters
    sized = re.findall(r"[A-Z]\w*", f"{rows} {columns}")
    others = [
        f"{name.replace('_', '').lower()}{value}"
        for name, value in parameters.items()
        if value != base[name] and name not in sized
    ]
    return Variant(kernel, "-".join([size, *others]), parameters)


def entry(variant: Variant) -> str:
    """A tiling as a line of the catalogue: where it differs from its kernel's parameters."""
    shared = variant.kernel.parameters
    own = [f"{name}: {v}" for name, v in variant.parameters.items() if shared.get(name) != v]
    return f"    {variant.tiling}: {{{', '.join(own)}}}"


def compiled(variants: Sequence[Variant], arch: str, build: Path) -> list[Variant]:
    """The variants that compile and spill almost nothing, compiled on all cores."""

    def attempt(variant: Variant) -> dict[str, Any]:
        return compile_into(variant, arch, build)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        records = list(tqdm(pool.map(attempt, variants), total=len(variants), desc="compile"))
    kept = [
        variant
        for variant, record in zip(variants, records, strict=True)
        if record["status"] == "ok" and record["spill_bytes"] <= SPILL_BYTES
    ]
    print(f"{len(variants)} candidates fit, and {len(kept)} of them compile and hardly spill")
    return kept


class Race:
    """Candidates and their libraries, side by side."""

    def __init__(
        self, tools: Instruments, variants: Sequence[Variant], libraries: Sequence[Variant],
        fill: str = "uniform",
    ) -> None:  # fmt: skip
        self.tools, self.variants, self.libraries = tools, variants, libraries
        self.fill, self.stream = fill, HeldStream(tools)
        self.random = np.random.default_rng(SEED)
        self.products = {v.name: gpu_product(v, tools) for v in [*variants, *libraries]}

    def run(self, shape: Shape, measured: Collection[str]) -> pd.DataFrame:
        """A row for each candidate that may be chosen there, is correct and is not `measured`:
        variant, microseconds, those of the fastest library beside it, error and largest_error as
        shares of the last library's. Empty without such a candidate.

        Raises UserError if a launch does not end.
        """
        able = [v for v in self.variants if v.name not in measured and v.may_be_chosen(shape)]
        if not able:
            return pd.DataFrame()
        dtype = self.libraries[0].kernel.dtype
        inputs = [
            self.tools.filled(self.fill, SEED, which, count, dtype)
            for which, count in enumerate(shape.elements[:-1])
        ]
        c = self.tools.poisoned(shape.elements[-1], dtype)
        truth = reference(self.tools, shape, self.fill, inputs)
        rows = {}
        for variant in [*self.libraries, *able]:
            self.tools.poison(c, shape.elements[-1], dtype)
            try:
                self.products[variant.name](shape, *inputs, c)
                self.tools.wait()
            except NoRoom as error:
                raise UserError(str(error)) from None
            except (self.tools.drv.Error, Unfinished) as error:
                raise UserError(f"{variant.name} at {shape}: {error}") from None
            (found,) = truth.errors([c], [variant.kernel])
            if found.share <= 1:
                rows[variant.name] = {"error": found.mean, "largest_error": found.largest}
            else:
                tqdm.write(f"{variant.name} at {shape}: wrong result")
        times = self.times({name: self.products[name] for name in rows}, (shape, *inputs, c))
        table = pd.DataFrame.from_dict(rows, orient="index")
        names = [library.name for library in self.libraries]
        table = table / table.loc[names[-1]]
        table.insert(0, "microseconds", pd.Series(times) * 1e3)
        table.insert(1, "library", table.microseconds[names].min())
        return table.drop(names).rename_axis("variant").reset_index()

    def times(self, products: Mapping[str, Any], product: tuple[Any, ...]) -> dict[str, float]:
        """Milliseconds of each: the median of some samples, for a slow one a second launch's. At a
        first launch the kernel's code is not in the instruction cache, and takes up to half as long
        again."""
        launches = {name: (lambda f=f: f(*product)) for name, f in products.items()}
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


def shapes_of(space: Mapping[str, Any], operation: str) -> dict[str, list[Shape]]:
    """The shapes of a search by set; a set is a list of shapes and rules that draw shapes."""

    def texts(item: Any) -> list[str]:
        return drawn_shapes(item, operation) if isinstance(item, Mapping) else [str(item)]

    sets = ("known", "fitted", "judged")
    found: dict[Shape, str] = {}  # each in one set, the first that has it
    for key in sets:
        for text in itertools.chain.from_iterable(map(texts, space[key])):
            found.setdefault(parse_shape(text, operation), key)
    return {key: [shape for shape, of in found.items() if of == key] for key in sets}


def measured(race: Race, shapes: Mapping[str, Sequence[Shape]], output: Path) -> pd.DataFrame:
    """The rows of all shapes; `set` says which they belong to. Written every SAVE_SECONDS, beside
    those of earlier searches, which may have had other candidates."""
    found = pd.read_csv(output) if output.exists() else pd.DataFrame(columns=["shape", "variant"])
    saved = monotonic()
    try:
        for name, own in shapes.items():
            for shape in tqdm(own, desc=name):
                known = set(found[found["shape"] == str(shape)].variant)
                rows = race.run(shape, known).assign(set=name, shape=str(shape))
                found = pd.concat([found, rows], ignore_index=True)
                if monotonic() > saved + SAVE_SECONDS:
                    save(found, output)
                    saved = monotonic()
    finally:
        save(found, output)
    return found


def save(found: pd.DataFrame, output: Path) -> None:
    with whole_file(output) as temporary:
        found.to_csv(temporary, index=False)


def write_table(path: Path, arch: str, costs: pd.DataFrame) -> None:
    """Replace the table's rows for `arch`; other rows stay. costs: as fit.fitted returns them."""

    def text(value: float) -> str:
        return "" if np.isnan(value) else f"{value:.4g}"

    rows = costs.loc[:, list(TERMS)].map(text)
    rows["most_additions"] = [f"{most:.0f}" if most > 0 else "" for most in costs.most_additions]
    rows["shapes"] = costs.shapes
    rows = rows.rename_axis("variant").reset_index()
    rows.insert(0, "architecture", arch)
    table = pd.read_csv(path, dtype=str)
    with whole_file(path) as temporary:
        pd.concat([table[table.architecture != arch], rows]).to_csv(temporary, index=False)


def parse() -> Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("space", type=Path, help="YAML: dispatch, shapes, boxes of values")
    arguments.add_catalogue(parser)
    parser.add_argument("--fit-only", action="store_true", help="try the catalogue's tilings only")
    parser.add_argument("--build", type=Path, help="folder of the binaries, to keep them")
    parser.add_argument("--output", type=Path, help="CSV; by default results/search-DISPATCH.csv")
    parser.add_argument("--table", action="store_true", help="write the dispatch's table")
    return parser.parse_args()


def search(
    options: Namespace, space: Mapping[str, Any], catalogue: Catalogue, build: Path
) -> tuple[str, pd.DataFrame, list[Variant]]:
    """The architecture, the rows of all shapes, and all candidates. Raises UserError, NoDevice."""
    dispatch = catalogue[space["dispatch"]]
    every = {v.name: v for name, boxes in space["candidates"].items()
             for v in candidates(catalogue[name], [] if options.fit_only else boxes)}  # fmt: skip
    shapes = shapes_of(space, dispatch.operation)
    output = options.output or Path(f"results/search-{dispatch.name}.csv")
    output.parent.mkdir(parents=True, exist_ok=True)
    with opened() as gpu:
        arch = gpu.architecture
        compile_instruments(arch, build / arch / "instruments.cubin")
        kept = compiled([v for v in every.values() if v.runs_on(arch)], arch, build)
        tools, rivals = Instruments(gpu, build, HANG_SECONDS), catalogue.rivals(dispatch)
        race = Race(tools, kept, rivals, space.get("fill", "uniform"))
        return arch, measured(race, shapes, output), kept


@command_line
def main() -> None:
    options = parse()
    catalogue = load_catalogue(options.catalogue)
    space = read_yaml(options.space)
    with tempfile.TemporaryDirectory() as folder:
        try:
            arch, found, kept = search(options, space, catalogue, options.build or Path(folder))
        except NoDevice as error:
            raise UserError(f"a search needs a GPU, and {error}") from None
    dispatch = catalogue[space["dispatch"]]
    product = dispatch.product
    costs = fit.fitted(found, kept, product, arch, space.get("everywhere"))
    print(fit.judgement(found, costs, kept, product, arch))
    if options.table and dispatch.dispatch:
        new = [v for v in kept if v.name in costs.index and v.slug not in catalogue.buildable]
        for variant in new:
            print(f"add to `dispatched` of {variant.kernel.name}:\n{entry(variant)}")
        if new:
            print("then search again: all times are kept, and the table will be written")
        else:
            write_table(dispatch.dispatch, arch, costs)


if __name__ == "__main__":
    main()
