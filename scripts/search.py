"""Search kernel parameters on this GPU: compile all candidates, prune, time the rest, pick a few.

    python scripts/search.py config/search/sgemm.yaml --table kernels/gemm/sgemm.csv

Before anything is timed, the search drops parameters that do not fit each other or a
multiprocessor, sources that do not compile (a static_assert says why), and spilled registers. Each
candidate is verified at every shape; its error may be at most ERROR_RATIO times its library's. Then
it is timed in pairs with the library: a few pairs of each candidate first, and more of the fastest
ones. The output has one row per candidate and shape.

--table writes this architecture's rows of a dispatch, or with --shapes only the rows of these
shapes. Each shape gets one of a few variants that lose at most SLACK to the fastest there. New
tilings are printed, to be added to the catalogue. Candidates are chosen by their own time, not by
the ratio, because a kernel can change the time of the library that runs after it, for example by
giving a large part of the L1 to shared memory.
"""

import itertools
import json
import os
import re
import tempfile
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from matmul.build.binaries import compile_instruments, compile_into, digest
from matmul.catalogue.entries import Catalogue, Kernel, Variant, check_variant, load_catalogue
from matmul.catalogue.schema import read_yaml
from matmul.dataset.tables import whole_file
from matmul.gpu.device import NoDevice, opened
from matmul.gpu.instruments import Instruments
from matmul.measure.products import gpu_product
from matmul.measure.reference import reference
from matmul.measure.timing import HeldStream
from matmul.measure.verification import Accuracy
from matmul.operations import parse_shape
from matmul.operations.shapes import Shape
from matmul.process.errors import Unfinished, UserError, command_line
from matmul.settings import arguments

SEED, FILL = 2026, "uniform"
SLACK = 0.005  # what choosing fewer variants may cost, as a share of the fastest time
ERROR_RATIO = 1.5  # to the library's error, in the mean and at most
SPILL_BYTES = 256  # at most: this few are spilled outside the loop
HANG_SECONDS = 10.0  # after which a launch, and the search with it, is given up
KEPT = 8  # candidates of each shape in the second round
LAUNCHES_MS = (8, 120)  # for a candidate's pairs, in the first and the second round
MOST_PAIRS = 60  # of a hold


def candidates(
    kernel: Kernel, boxes: Sequence[Mapping[str, Any]], shape: Shape | None = None
) -> Iterable[Variant]:
    """Every combination of the values in a box that fits a multiprocessor. A parameter without
    values has the value of the kernel's first tiling.

    With a shape, only those from boxes that name it among their `shapes` or have no `shapes`.
    Raises UserError if a box names a parameter that the kernel lacks.
    """
    defaults = kernel.variants[0].parameters
    for box in boxes:
        if unknown := set(box) - {"shapes", *defaults}:
            raise UserError(
                f"{kernel.name} has no parameter {unknown.pop()}; it has {', '.join(defaults)}"
            )
        shapes = [str(parse_shape(str(text), kernel.operation)) for text in box.get("shapes", [])]
        if shape and shapes and str(shape) not in shapes:
            continue
        own = [box.get(name, [value]) for name, value in defaults.items()]
        for values in itertools.product(*own):
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


def compiled(
    variants: Sequence[Variant], arch: str, build: Path
) -> list[tuple[Variant, dict[str, Any]]]:
    """The variants that compile and spill almost nothing, with their compile records, on all cores.

    A variant that an earlier search compiled from the same source is not compiled again.
    """

    def attempt(variant: Variant) -> dict[str, Any]:
        earlier = build / arch / f"{variant.slug}.json"
        if earlier.exists():
            record: dict[str, Any] = json.loads(earlier.read_text())
            if record["sha256"] == digest(variant):
                return record
        return compile_into(variant, arch, build)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        records = list(tqdm(pool.map(attempt, variants), total=len(variants), desc="compile"))
    kept = [
        (variant, record)
        for variant, record in zip(variants, records, strict=True)
        if record["status"] == "ok" and record["spill_bytes"] <= SPILL_BYTES
    ]
    print(f"{len(variants)} candidates fit, and {len(kept)} of them compile and hardly spill")
    return kept


def mistake(own: Accuracy, library: Accuracy) -> str | None:
    """What is wrong with a product with these errors beside its library's; None if nothing is."""
    if not own.share <= 1:
        return "wrong result"
    if own.mean > ERROR_RATIO * library.mean or own.largest > ERROR_RATIO * library.largest:
        return (
            f"errs {own.mean:.2g} of Σ|a||b| and at most {own.largest:.2g}, "
            f"the library {library.mean:.2g} and {library.largest:.2g}"
        )
    return None


class Race:
    """Candidates beside their library at one shape."""

    def __init__(self, tools: Instruments, library: Variant, shape: Shape) -> None:
        self.tools, self.shape = tools, shape
        self.stream, self.library = HeldStream(tools), library
        dtype = library.kernel.dtype
        self.inputs = [
            tools.filled(FILL, SEED, which, count, dtype)
            for which, count in enumerate(shape.elements[:-1])
        ]
        self.c, self.other = (tools.poisoned(shape.elements[-1], dtype) for _ in range(2))
        self.reference = reference(tools, shape, FILL, self.inputs)
        self.rival = gpu_product(library, tools)
        self.launch(self.rival, self.other)
        self.tools.stream.synchronize()
        (self.library_accuracy,) = self.reference.errors([self.other], [library.kernel])

    def launch(self, product: Any, c: Any) -> None:
        product(self.shape, *self.inputs, c)

    def accuracy(self, variant: Variant) -> Accuracy:
        """The errors of its product at this shape."""
        self.tools.poison(self.c, self.shape.elements[-1], variant.kernel.dtype)
        product = gpu_product(variant, self.tools)
        self.launch(product, self.c)
        self.tools.wait()
        (error,) = self.reference.errors([self.c], [variant.kernel])
        return error

    def pairs(self, variant: Variant, budget_ms: float) -> tuple[float, float]:
        """Median milliseconds, and the median ratio of the library's time to the candidate's, from
        pairs that take about `budget_ms`."""
        product = gpu_product(variant, self.tools)
        both = [lambda: self.launch(product, self.c), lambda: self.launch(self.rival, self.other)]
        once = self.stream.times(both)
        count = int(np.clip(budget_ms / sum(once), 2, MOST_PAIRS))
        times = np.array(self.stream.times(both * count)).reshape(-1, 2)
        return float(np.median(times[:, 0])), float(np.median(times[:, 1] / times[:, 0]))

    def run(self, entries: Sequence[tuple[Variant, dict[str, Any]]]) -> pd.DataFrame:
        """One row per correct candidate; the fastest ones are timed again for longer."""
        rows = []
        for variant, record in tqdm(entries, desc=str(self.shape)):
            if self.variant_fails(variant):
                continue
            time_ms, ratio = self.pairs(variant, LAUNCHES_MS[0])
            shared = record["shared_bytes"] + variant.dynamic_shared_bytes
            rows.append({"shape": str(self.shape), "variant": variant.name, "round": 1,
                         "time_ms": time_ms, "ratio": ratio,
                         "registers": record["registers"], "shared_bytes": shared})  # fmt: skip
        if not rows:
            raise UserError(f"no candidate is correct at {self.shape}")
        rows.sort(key=lambda row: row["time_ms"])
        by_name = {variant.name: variant for variant, _ in entries}
        for row in rows[:KEPT]:
            time_ms, ratio = self.pairs(by_name[row["variant"]], LAUNCHES_MS[1])
            row |= {"round": 2, "time_ms": time_ms, "ratio": ratio}
        return pd.DataFrame(rows).sort_values(["round", "time_ms"], ascending=[False, True])

    def variant_fails(self, variant: Variant) -> bool:
        """Whether it rejects the shape, cannot be launched, or is wrong."""
        if variant.refusal(self.shape):
            return True
        try:
            wrong = mistake(self.accuracy(variant), self.library_accuracy)
        except (self.tools.drv.LaunchError, Unfinished) as error:
            raise UserError(f"{variant.name} at {self.shape}: {error}") from None
        except self.tools.drv.Error as error:
            tqdm.write(f"{variant.name} at {self.shape}: {error}")
            return True
        if wrong:
            tqdm.write(f"{variant.name} at {self.shape}: {wrong}")
        return wrong is not None


def few(found: pd.DataFrame) -> pd.Series:
    """The variant for each shape: few variants in all, each at most SLACK slower than the fastest.

    Each step adds the variant that brings the shapes nearest to their fastest times.
    """
    time_ms = found.pivot_table(index="shape", columns="variant", values="time_ms", sort=False)
    share = time_ms.rdiv(time_ms.min(axis=1), axis=0).fillna(0)
    enough = share.clip(upper=1 - SLACK)
    chosen: list[str] = []
    while not chosen or (share[chosen].max(axis=1) < 1 - SLACK).any():
        reached = enough[chosen].max(axis=1).fillna(0).to_numpy()[:, None]
        chosen.append(str(np.maximum(enough, reached).sum().idxmax()))
    return share[chosen].idxmax(axis=1)


def write_table(path: Path, arch: str, choices: pd.Series, whole: bool = True) -> None:
    """Replace the table's rows for `arch` by the choices, or only the rows of the same shapes if
    the choices are not the whole table; other rows stay."""
    table = pd.read_csv(path, dtype=str)
    rows = pd.DataFrame({"architecture": arch, "shape": choices.index, "variant": choices.values})
    own = table.architecture == arch
    replaced = own if whole else own & table["shape"].isin(choices.index)
    with whole_file(path) as temporary:
        pd.concat([table[own & ~replaced], rows, table[~own]]).to_csv(temporary, index=False)


def parse() -> Namespace:
    parser = arguments.parser(__doc__)
    parser.add_argument("space", type=Path, help="YAML: shapes, and boxes of values by kernel")
    arguments.add_catalogue(parser)
    parser.add_argument("--shapes", nargs="+", help="instead of the file's")
    parser.add_argument("--build", type=Path, help="folder of the binaries, to keep them")
    parser.add_argument("--output", type=Path, default=Path("results/search.csv"))
    parser.add_argument("--table", type=Path, help="of a dispatch, to write")
    return parser.parse_args()


def search(
    options: Namespace, catalogue: Catalogue, build: Path
) -> tuple[str, pd.DataFrame, dict[str, Variant]]:
    """The architecture, the rows of all shapes (written as they come), and all candidates.

    Raises UserError, NoDevice.
    """
    space = read_yaml(options.space)
    kernels = [catalogue.variant(name).kernel for name in space["kernels"]]
    library = catalogue.rivals(kernels[0])[-1]

    texts = options.shapes or map(str, space["shapes"])
    shapes = [parse_shape(text, library.kernel.operation) for text in texts]
    tried = {
        shape: {v.name: v for k in kernels for v in candidates(k, space["kernels"][k.name], shape)}
        for shape in shapes
    }
    with opened() as gpu:
        arch = gpu.architecture
        compile_instruments(arch, build / arch / "instruments.cubin")
        every = {name: variant for own in tried.values() for name, variant in own.items()}
        entries = compiled(list(every.values()), arch, build)
        tools = Instruments(gpu, build, HANG_SECONDS)
        found = pd.DataFrame()
        for shape in shapes:
            entered = [entry for entry in entries if entry[0].name in tried[shape]]
            own = Race(tools, library, shape).run(entered)
            print(own.head(KEPT).to_string(index=False, float_format="{:.4g}".format))
            found = pd.concat([found, own], ignore_index=True)
            with whole_file(options.output) as temporary:
                found.to_csv(temporary, index=False)
    return arch, found, every


def tell_new(chosen: Iterable[Variant], catalogue: Catalogue) -> None:
    """Print entries for the tilings that a table names and the catalogue lacks."""
    known = catalogue.buildable
    for variant in chosen:
        if variant.slug not in known:
            print(f"add to `dispatched` of {variant.kernel.name}, perhaps with better names:")
            print(entry(variant))


@command_line
def main() -> None:
    options = parse()
    catalogue = load_catalogue(options.catalogue)
    with tempfile.TemporaryDirectory() as folder:
        try:
            arch, found, every = search(options, catalogue, options.build or Path(folder))
        except NoDevice as error:
            raise UserError(f"a search needs a GPU, and {error}") from None
    if options.table:
        choices = few(found)
        write_table(options.table, arch, choices, whole=options.shapes is None)
        tell_new((every[name] for name in dict.fromkeys(choices)), catalogue)


if __name__ == "__main__":
    main()
