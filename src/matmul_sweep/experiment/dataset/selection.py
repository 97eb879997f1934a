"""A data set for figures and tables: loaded, ordered by the catalogue, and ready for selections.

Selected rows keep their index in the file, so that a number can name its line.
"""

import dataclasses
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep.build.binaries import digest
from matmul_sweep.catalogue.entries import Catalogue, Kind, Variant, kernel_name
from matmul_sweep.experiment.dataset.tables import EVERY, POINT, PRODUCT, read_folder
from matmul_sweep.experiment.dataset.words import CACHES, MODES, POWER, THERMAL
from matmul_sweep.operations import OPERATIONS, operation_of, shape_of
from matmul_sweep.operations.fills import FILLS
from matmul_sweep.operations.operation import OTHER, Operation
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError

A_TIE = 0.97  # of the fastest kernel's rate: a dispatch stands for it
NEAR_LIMIT = 0.85  # of the power limit, which holds for an average: the power of a card at it
HELD_DOWN = 0.9  # of the highest clock: at it and below, a low power is the reading of a moment
A_STEP = 1.4  # a kernel that is this many times as fast as the one before it is worth a name
# The values of a sweep's axes, in display order.
AXES = {"fill": FILLS, "mode": MODES}
# What a row is of, whatever its sweep.
SPAN = ["variant", "baseline", *PRODUCT, "fill", "mode", "phase", "cache"]


@dataclass(frozen=True)
class Results:
    """A data set, or its part for one operation, and the catalogue that names its kernels."""

    catalogue: Catalogue
    device: dict[str, Any]
    kernels: pd.DataFrame
    summary: pd.DataFrame
    ratios: pd.DataFrame
    verification: pd.DataFrame
    jobs: pd.DataFrame
    cross_check: pd.DataFrame
    timer_check: pd.DataFrame
    ceilings: pd.DataFrame
    instructions: pd.DataFrame
    counters: pd.DataFrame
    loads: pd.DataFrame
    earlier: bool = False  # whether kernels have changed since they were measured
    operation: str | None = None  # the operation of summary and ratios; None: everything
    whole: "Results | None" = None  # the data set of which this is a part
    others: tuple["Results", ...] = ()  # the published sets of other cards
    folder: Path = Path()
    # The parts that were asked for.
    views: dict[tuple[str, bool], "Results"] = field(default_factory=dict, init=False, repr=False)

    def of(self, operation: str, reduced: bool = False) -> "Results":
        """The same data set with the summary and ratios of one operation only: the points of the
        sweep with its name and of its lessons, each from the longest sweep that has it. Kernels
        with reduced arithmetic are included only on request."""
        if (operation, reduced) not in self.views:
            tables = (table[table.operation == operation] for table in (self.summary, self.ratios))
            summary, ratios = map(self.quoted, tables)
            if not reduced:
                summary, ratios = self.rivals(summary), self.rivals(ratios)
            self.views[operation, reduced] = dataclasses.replace(
                self, operation=operation, whole=self, summary=summary, ratios=ratios
            )
        return self.views[operation, reduced]

    def quoted(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Those rows of an operation that are of the sweep with its name or of its lessons, or were
        timed alone at shapes that were not drawn. Where several sweeps measured the same, they are
        those of the longest, alone of the one with the most variants."""
        common = (self.device.get("configuration") or {}).get("sampling", {})
        seconds = {}
        for name, own in self.sweeps.items():
            rule = common | own.get("sampling", {})
            seconds[name] = 0 if drawn_at_random(own) else rule.get("seconds", 0)
        lesson, taken = rows.sweep.isin(self.lessons), rows.sweep.map(seconds)
        contenders = self.timed(cache="alone").groupby("sweep").variant.nunique()
        alone = (rows.cache == "alone") & ~self.drawn(rows)
        main = lesson | alone | (rows.sweep == rows.operation)
        longer = ~alone & (taken > rows.operation.map(seconds))
        longer &= rows.status == "ok" if "status" in rows else True
        key = [name for name in SPAN if name in rows]
        known = main.groupby([rows[name] for name in key], dropna=False).transform("any")
        rank = taken.where(longer, lesson - 1.0).mask(alone, rows.sweep.map(contenders))
        ranked = rows.assign(rank=rank)[known & (main | longer)]
        first = ranked.sort_values("rank", ascending=False, kind="stable").drop_duplicates(key)
        return rows[rows.index.isin(first.index)]

    @cached_property
    def launches(self) -> pd.DataFrame:
        """Measured kernel rows, in every cache state."""
        return self.summary[(self.summary.phase == "kernel") & (self.summary.status == "ok")]

    @cached_property
    def timed_gpu(self) -> bool:
        """Whether a kernel was timed on a GPU."""
        return bool(self.gpu(self.launches).any())

    @property
    def sweeps(self) -> dict[str, Mapping[str, Any]]:
        """The configuration of each sweep, by name."""
        return (self.device.get("configuration") or {}).get("sweeps", {})

    @property
    def lessons(self) -> list[str]:
        """The sweeps that are measured only without a GPU: what the processor teaches."""
        return [name for name, own in self.sweeps.items() if own.get("without_gpu")]

    def drawn(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows are of shapes drawn at random."""
        return rows.sweep.isin([k for k, own in self.sweeps.items() if drawn_at_random(own)])

    def study_points(self, axis: str) -> pd.DataFrame:
        """For each kernel of the sweeps that vary `axis`, fill or mode, the rows of one variant
        that differ only in it, in its order: at the largest shape, hot if possible, with the other
        axis at its first value. The variant is the fastest one at the first value of `axis`."""
        rows = self.rivals(self.launches)
        rows = rows[rows.groupby("sweep")[axis].transform("nunique") > 1]
        return pd.concat([kernel_study(own, axis) for _, own in rows.groupby("kernel")] or [rows])

    def rivals(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows of kernels that compute with all bits of their dtype.

        The others (TF32) do less work, so their speed cannot be compared with float32's.
        """
        return rows[rows.kernel.map(self.arithmetic) == "full"]

    @cached_property
    def order(self) -> list[str]:
        """All kernels: those in the catalogue, then those that only the data have."""
        known = [k.name for k in self.catalogue.values() if self.operation in (None, k.operation)]
        return list(dict.fromkeys([*known, *sorted(set(self.summary.kernel))]))

    def position(self, kernel: str) -> int:
        """A kernel's place in the whole catalogue, or after it, which decides its look."""
        return list(dict.fromkeys([*self.catalogue, *self.order])).index(kernel)

    @cached_property
    def present(self) -> list[str]:
        """Kernels with rows in the data set, in order."""
        return [name for name in self.order if name in set(self.summary.kernel)]

    def timed(self, phase: str = "kernel", cache: str | None = None) -> pd.DataFrame:
        """Measured rows of a phase; without `cache` each variant's hot rows, or else its others,
        but none that were timed alone, at a clock of their own."""
        rows = self.summary[(self.summary.phase == phase) & (self.summary.status == "ok")]
        if cache is not None:
            return rows[rows.cache == cache]
        rows = rows[rows.cache != "alone"]
        rank = rows.cache.map(CACHES.index)
        return rows[rank == rank.groupby(rows.variant).transform("min")]

    @cached_property
    def leads(self) -> pd.DataFrame:
        """The rows of an operation that compare its kernels at one size: those timed alone, which
        is what a program gets, or where no hand-written kernel was, those of timed()."""
        alone = self.timed(cache="alone")
        return alone if alone.kernel.map(self.hand_written).any() else self.timed()

    @property
    def product(self) -> Operation:
        """The operation of these results; a KeyError if they are of everything."""
        return OPERATIONS[str(self.operation)]

    @property
    def full_rivals(self) -> list[str]:
        """The library entries that kernels are compared with and that fill C, as kernels do."""
        first, *others = self.product.rivals
        whole = {name for name, kernel in self.catalogue.items() if kernel.writes == "full"}
        return [first, *(name for name in others if name in whole)]

    @cached_property
    def compared(self) -> Shape | None:
        """The shape that compares the kernels of one operation where one size represents the data
        set: the largest square at which more than half of the hand-written kernels were timed, all
        of them often enough for an interval. Without such a square it is the largest that was
        timed, without a square another shape, and without hand-written kernels the shape of the
        others.
        """
        timed = fastest(self.leads)
        own = timed[timed.kernel.map(self.hand_written).astype(bool)]
        rows = timed if own.empty else own
        candidates = squares(rows) if len(squares(rows)) else rows
        sure = [
            shape
            for shape in shapes_of(candidates)
            if len(here := at(candidates, shape)) > rows.kernel.nunique() / 2
            and len(quotable(here)) == len(here)
        ]
        return next(reversed(sure or shapes_of(candidates)), None)

    def at_compared(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Rows at the shape of the comparison."""
        return at(rows, self.compared) if self.compared else rows[:0]

    @cached_property
    def told(self) -> list[str]:
        """The hand-written kernels of an operation that figures and sentences name, in order; all
        others are their context. At the shape of the comparison these are the first, each that is
        A_STEP times as fast as the last one named, the fastest, and each dispatch. Where one kernel
        only was timed alone, the others are known by what they reach in turn."""
        rows = self.at_compared(fastest(self.rivals(self.leads)))
        if sum(map(self.hand_written, rows.kernel)) < 2:
            others = self.at_compared(fastest(self.rivals(self.timed())))
            rows = pd.concat([rows, others[~others.kernel.isin(rows.kernel)]])
        best = set(fastest_own(self, rows).kernel)
        rates = dict(zip(rows.kernel, rows.tflops, strict=True))
        named: list[str] = []
        for kernel in filter(self.hand_written, self.order):
            last = rates[named[-1]] if named else 0
            chosen = kernel in best or (self.is_dispatch(kernel) and kernel in rates)
            if chosen or rates.get(kernel, -1) >= A_STEP * last:
                named.append(kernel)
        return named

    @property
    def overlaps(self) -> bool:
        """Whether what leads is of launches that overlap with each other, of kernels of all bits of
        16-bit inputs, whose products are short. A program that does something between two launches
        does not get such times, so no first page tells of them."""
        known = [self.catalogue[name] for name in self.order if name in self.catalogue]
        return leading(self.leads) != "alone" and any(
            one.overlaps and one.arithmetic == "full" and "16" in one.dtype for one in known
        )

    @property
    def cards(self) -> set[str]:
        """UUIDs of the cards that jobs ran on."""
        return set(self.jobs.uuid) - {""}

    def title(self, kernel: str) -> str:
        return self.catalogue[kernel].title if kernel in self.catalogue else kernel

    def on_gpu(self, kernel: str) -> bool:
        return kernel not in self.catalogue or self.catalogue[kernel].on_gpu

    def gpu(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows are of kernels that run on a GPU."""
        return rows.kernel.map(self.on_gpu).astype(bool)

    def kind(self, kernel: str) -> Kind:
        return self.catalogue[kernel].kind if kernel in self.catalogue else Kind.CUDA

    def arithmetic(self, kernel: str) -> str:
        return self.catalogue[kernel].arithmetic if kernel in self.catalogue else "full"

    def hand_written(self, kernel: str) -> bool:
        """Whether it runs on a GPU and is not a library routine."""
        return kernel not in self.catalogue or self.catalogue[kernel].hand_written

    @property
    def architecture(self) -> str | None:
        """The architecture of this GPU, such as sm_90; None without one."""
        capability = self.device.get("compute_capability")
        return capability and "sm_" + capability.replace(".", "")

    def variant(self, name: str) -> Variant | None:
        """The hand-written variant of that name, None if the catalogue has none."""
        kernel = self.catalogue.get(kernel_name(name))
        own = kernel.every_variant if kernel and kernel.hand_written else []
        return next((variant for variant in own if variant.name == name), None)

    def ran(self, row: pd.Series) -> Variant | None:
        """The hand-written variant that ran in a row of the summary, for a dispatch the one that it
        chose. None if the catalogue has no such variant, or the data do not say which it was."""
        return self.variant(row.ran or ("" if self.is_dispatch(row.kernel) else row.variant))

    def is_dispatch(self, kernel: str) -> bool:
        return self.kind(kernel) is Kind.DISPATCH

    def writes_half(self, kernel: str) -> bool:
        """Whether it leaves one triangle of C unchanged."""
        return kernel in self.catalogue and self.catalogue[kernel].writes != "full"

    def computes_all(self, library: str) -> bool:
        """Whether a library's entry computes all of a symmetric C: none with its routine leaves a
        triangle unchanged."""
        if library not in self.catalogue or not self.product.symmetric:
            return False
        routine = self.catalogue[library].library
        return all(k.writes == "full" for k in self.catalogue.values() if k.library == routine)

    def of_document(self, document: str) -> list[str]:
        """Kernels of the catalogue that a document describes."""
        return [name for name, kernel in self.catalogue.items() if document in kernel.documents]

    def gpu_absence(self) -> str:
        """In words, why there is no time of any GPU kernel."""
        return self.absence(kernel for kernel in self.order if self.on_gpu(kernel))

    def absence(self, kernels: Iterable[str], shape: Shape | None = None) -> str:
        """In words, why there is no time of these kernels (at `shape`)."""
        rows = self.summary[self.summary.kernel.isin(list(kernels))]
        if rows.empty:
            return "not in this data set"
        here = points_of(at(rows, shape) if shape else rows)
        refused = here[here.status != "ok"]
        refused = rows if refused.empty and (rows.status != "ok").all() else refused
        if len(refused):
            return str(refused.reason.value_counts().index[0])
        if here.empty and shape:
            return f"{size_name(shape)} is not among the shapes of this sweep"
        return "this phase was not timed"


def load_results(folder: Path, catalogue: Catalogue) -> Results:
    """Read a data set's folder. Raises UserError naming a missing, cut or foreign file."""
    device, read = read_folder(folder, {*EVERY} - {"samples.csv.gz", "states.csv"})
    # A copy has its columns side by side in memory, so selecting rows is several times faster.
    tables = {kind.partition(".")[0]: table.copy() for kind, table in read.items()}
    summary = tables["summary"]
    empty = summary[["time_ms", "samples"]].isna().any(axis=1)
    if len(holes := summary.index[(summary.status == "ok") & empty]):
        place = f"{folder / 'summary.csv'}, line {holes[0] + 2}"
        raise UserError(f"{place}: its status is ok, but it has no time")
    summary["throttled"] = limited(summary, device)
    earlier = bool(changed_variants(tables["kernels"], catalogue))
    return Results(catalogue, device, earlier=earlier, folder=folder, **tables)


def drawn_at_random(sweep: Mapping[str, Any]) -> bool:
    return isinstance(sweep["shapes"], Mapping)


def with_others(results: Results, folders: Iterable[Path]) -> Results:
    """A data set with those of other cards in these folders. One that cannot be read is left out,
    and the log says why."""
    found = []
    for folder in folders:
        try:
            other = load_results(folder, results.catalogue)
        except UserError as error:
            logging.warning("not compared: %s", error)
            continue
        if other.device.get("gpu") not in (None, results.device.get("gpu")):
            found.append(other)
    return dataclasses.replace(results, others=tuple(found))


def limited(summary: pd.DataFrame, device: Mapping[str, Any]) -> pd.Series:
    """What slowed the card down. Its power limit did if it drew about that much and the clock was
    not the highest: in turn if the driver names it too, which it also does for a while after a
    launch that drew more, and then a clock far below the highest will do; alone, where no driver
    was asked, without."""
    clock = summary.sm_clock_mhz / (device.get("clock_mhz") or np.nan)
    near = summary.power_w >= NEAR_LIMIT * (device.get("power_limit_w") or 0)
    alone = summary.cache == "alone"
    named = near | (clock <= HELD_DOWN) | summary.power_w.isna()
    capped = ~(clock >= 1) & np.where(alone, near & summary.sm_clock_mhz.notna(), named)
    others = summary.throttled.map(
        lambda text: "+".join(reason for reason in text.split("+") if reason != POWER)
    )
    return summary.throttled.mask(alone & capped, POWER).where(capped, others)


def changed_variants(kernels: pd.DataFrame, catalogue: Catalogue) -> list[str]:
    """The variants in kernels.csv that this checkout lacks, or has with other sources or flags."""
    names = {*kernels.variant}
    today = {v.name: digest(v) for v in catalogue.buildable.values() if v.name in names}
    return [row.variant for row in kernels.itertuples() if row.sha256 != today.get(row.variant)]


def fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """The fastest variant of each kernel at each shape."""
    best = rows.groupby(["kernel", "m", "n", "k"], sort=False, dropna=False).time_ms.idxmin()
    return rows.loc[best]


def kernel_study(rows: pd.DataFrame, axis: str) -> pd.DataFrame:
    """One kernel's rows of a study, as in Results.study_points."""
    rows = rows[rows.sweep == rows.sweep.iloc[0]]
    rows = at(rows, max(shapes_of(rows), key=lambda shape: shape.operations))
    rows = rows[rows.cache == min(rows.cache, key=CACHES.index)]
    (other,) = AXES.keys() - {axis}
    rows = rows[rows[other] == min(rows[other], key=AXES[other].index)]
    rows = rows.sort_values(axis, key=lambda column: column.map(AXES[axis].index), kind="stable")
    first = rows[rows[axis] == rows[axis].iloc[0]]
    return rows[rows.variant == first.variant[first.time_ms.idxmin()]]


def quotable(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with enough samples, or pairs, for an interval. No headline rests on fewer."""
    column = "ratio_low" if "ratio_low" in rows else "time_low_ms"
    return rows[rows[column].notna()]


def fastest_own(results: Results, rows: pd.DataFrame) -> pd.DataFrame:
    """The row of the fastest hand-written kernel among rows at one shape; no row if there is none.

    Alone its rate decides, but a dispatch that comes near it stands for it, since that is what a
    program gets. In turn its speed-up over the library does, because a card at its power
    limit has another clock in each series, and its rate only without one.
    """
    own = rows[rows.kernel.map(results.hand_written).astype(bool)]
    if len(own) < 2:
        return own
    if leading(own) == "alone":
        chosen = own[own.kernel.map(results.is_dispatch).astype(bool)]
        near = chosen[chosen.tflops >= A_TIE * own.tflops.max()]
        return (own if near.empty else near).nlargest(1, "tflops")
    speedups = results.ratios[results.ratios.baseline == results.full_rivals[-1]]
    held = own.merge(speedups, on=["variant", *POINT, "cache"], how="left", validate="one_to_one")
    known = own.assign(speedup=held.ratio.to_numpy())
    order = known.sort_values(["speedup", "tflops"], ascending=False, kind="stable")
    return own.loc[order.index[:1]]


def leading(rows: pd.DataFrame) -> str:
    """The cache state of the rows, or ratios, that lead: timed alone, which is what a program gets,
    or without such rows the first of CACHES."""
    return min(rows.cache, key=("alone", *CACHES).index, default=CACHES[0])


def compared_leads(results: Results, arithmetic: str) -> pd.DataFrame:
    """Those of the kernels of that arithmetic that lead at the shape of the comparison, with enough
    samples for an interval."""
    rows = quotable(results.at_compared(results.leads))
    return rows[rows.kernel.map(results.arithmetic) == arithmetic]


def leading_own(results: Results, arithmetic: str = "full") -> pd.DataFrame:
    """The row that leads of the fastest hand-written kernel of that arithmetic at the shape of the
    comparison, with enough samples for an interval; no row if there is none. Of reduced arithmetic
    it is that of a dispatch, if one was timed, because variants of it may differ in error."""
    rows = compared_leads(results, arithmetic)
    chosen = rows[rows.kernel.map(results.is_dispatch).astype(bool)]
    return fastest_own(results, fastest(rows if arithmetic == "full" or chosen.empty else chosen))


def row_of(rows: pd.DataFrame, name: str | None, column: str = "variant") -> pd.Series | None:
    """The first row of a table that is of this name and ok; None if there is none."""
    own = rows[(rows[column] == name) & (rows.status == "ok")]
    return None if own.empty else own.iloc[0]


def to_fastest(ratios: pd.DataFrame) -> pd.DataFrame:
    """Of each product's ratios that to the fastest library that was timed with it."""
    product = ["variant", *POINT, "cache"]
    return ratios.loc[ratios.groupby(product, sort=False, dropna=False).ratio.idxmin()]


def told_ratios(results: Results, ratios: pd.DataFrame) -> pd.DataFrame:
    """Of ratios those that sentences tell, to libraries that fill C: alone to the fastest, in turn
    to each."""
    full = ratios[~ratios.baseline.map(results.writes_half).astype(bool)]
    return to_fastest(full) if leading(full) == "alone" else full


def compared_errors(results: Results) -> pd.DataFrame:
    """The row of each kernel's fastest variant at the shape of the comparison, for GPU kernels if
    some were timed. Empty if no error is on record."""
    rows = results.at_compared(fastest(results.leads))
    rows = rows[(rows.mean_error > 0) & np.isfinite(rows.largest_error)]
    gpu = results.gpu(rows)
    return rows[gpu] if gpu.any() else rows


def squares(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of products of square matrices, by size."""
    square = (rows.m == rows.n) & (rows.k.fillna(rows.n) == rows.n)
    return rows[square].sort_values("n", kind="stable")


def at(rows: pd.DataFrame, shape: Shape) -> pd.DataFrame:
    """Rows of one shape."""
    here = rows.operation.to_numpy() == shape.operation
    for name, extent in zip(shape.__match_args__, shape.dimensions, strict=True):
        here &= rows[name].to_numpy(float, na_value=np.nan) == extent
    return rows[here]


def size_name(shape: Shape) -> str:
    """`640` for a square product, `3200×2400×1600` (m×n×k) or `250×500` (m×n) for another."""
    return str(shape.n) if shape.square else "×".join(map(str, shape.dimensions))


def of_series(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of one operation in one of its series, by size."""
    inside = [series_of(shape_of(row)) == name for row in rows.itertuples()]
    return rows[np.array(inside, bool)].sort_values("n", kind="stable")


def series_of(shape: Shape) -> str:
    """The series of a shape, or OTHER; empty if its operation has no series."""
    return operation_of(shape).series_of(shape)


def in_order(shapes: Iterable[Shape]) -> list[Shape]:
    """Shapes without repetition, by series and then by number of operations."""

    def place(shape: Shape) -> tuple[object, ...]:
        order = ["", *operation_of(shape).series, OTHER]
        return order.index(series_of(shape)), shape.operations, shape.dimensions

    return sorted(set(shapes), key=place)


def shapes_of(rows: pd.DataFrame) -> list[Shape]:
    """Every shape of these rows, in order."""
    distinct = rows[["operation", "m", "n", "k"]].drop_duplicates()
    return in_order(shape_of(row) for row in distinct.itertuples())


def verdict_of(ratio_low: float, ratio_high: float) -> str:
    """What the 95% interval of a ratio, another time over ours, says about ours.

    `faster` or `slower` if it excludes 1, `tie` if it contains 1, `unknown` if there is none
    because there were too few samples.
    """
    if pd.isna([ratio_low, ratio_high]).any():
        return "unknown"
    return "faster" if ratio_low > 1 else "slower" if ratio_high < 1 else "tie"


def quotient_interval(one: Any, other: Any) -> tuple[Any, Any]:
    """The widest interval of one row's time over another's that their own intervals allow; for two
    tables with the same index, row by row."""
    return one.time_low_ms / other.time_high_ms, one.time_high_ms / other.time_low_ms


def points_of(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per point of the kernel phase for all cache states; ok wins."""
    ordered = rows[rows.phase == "kernel"].assign(bad=lambda table: table.status != "ok")
    return ordered.sort_values("bad", kind="stable").drop_duplicates(["variant", *POINT])


def thermally_throttled(throttled: pd.Series) -> pd.Series:
    """Which rows were measured while the card slowed down for heat."""
    return throttled.fillna("").str.contains("|".join(THERMAL))


def power_capped(throttled: pd.Series) -> pd.Series:
    """Which rows were measured while the card was at its power limit."""
    return throttled.fillna("").str.contains(POWER)


def way_of(rows: pd.DataFrame) -> str:
    """How rows of one cache state were timed, in words, if their speed-ups depend on it: a kernel
    that draws more power slows down its rival as much as itself in turn, and alone only itself."""
    if (rows.cache == "alone").any():
        return "alone"
    return "in turn, at one clock" if power_capped(rows.throttled).any() else ""


def limits_of(throttled: str | float) -> str:
    """What limited the card at a point, one letter each: `p` its power limit, `h` heat."""
    reasons = throttled.split("+") if isinstance(throttled, str) else []
    return "p" * (POWER in reasons) + "h" * any(reason in THERMAL for reason in reasons)


def state_absence(device: Mapping[str, Any]) -> str:
    """Why the data set of a GPU has no clock, power and temperature."""
    nvml = str(device.get("nvml") or "")
    return f"NVML {nvml}" if nvml.startswith("unavailable") else "no reading is on record"


def rate_unit(tflops: pd.Series) -> tuple[str, int]:
    """The unit for rates and its number per TFLOP/s: GFLOP/s if no rate reaches 1 TFLOP/s."""
    return ("TFLOP/s", 1) if (tflops >= 1).any() else ("GFLOP/s", 1000)


def version_words(results: Results) -> str:
    """Which kernels a data set measured, if not today's; else an empty text."""
    return f"earlier kernels, of version {results.device['version']}" if results.earlier else ""


def short_commit(device: dict[str, Any]) -> str:
    """`1a2b3c4`, followed by `, modified files` if the code differed from the commit."""
    short = "+".join(commit[:7] for commit in str(device.get("commit") or "unknown").split("+"))
    return short + (", modified files" if device.get("dirty") else "")


def processor(device: dict[str, Any]) -> str:
    """The name of the GPU, or without one of the CPU."""
    return device.get("gpu") or device.get("cpu") or "unknown device"


def in_words(operation: Operation) -> str:
    """`C = A·B in float32`."""
    return f"{operation.title} in {operation.dtype}"


def picture_of(operation: Operation) -> str:
    """The file of an operation's figure in the README."""
    return f"{operation.figure_prefix}ladder.svg"


def pictures() -> dict[str, str]:
    """The files of the figures that are published with a data set, by what they are called."""
    steps = {in_words(operation): picture_of(operation) for operation in OPERATIONS.values()}
    return {"time": "time_loglog.svg"} | steps


def published_name(device: dict[str, Any]) -> str:
    """The folder of a device's data set in reports/published: nvidia-h100-80gb-hbm3."""
    return re.sub(r"[^a-z0-9]+", "-", processor(device).lower()).strip("-")
