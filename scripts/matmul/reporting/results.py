"""A data set as figures and tables read it: loaded, ordered by the catalogue, and selected from.

Selected rows keep the index that they have in their file, so that a number can name its line.
"""

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from matmul.catalogue import Catalogue
from matmul.dataset import COLUMNS, read_json, read_table
from matmul.shapes import OPERATIONS, Gram, Shape, shape_of

THERMAL = ("hw_thermal", "sw_thermal", "hw_slowdown")
# What AᵀA is held against: the library's general product, and its symmetric one, which writes both
# triangles too.
GRAM_LIBRARIES = ("cublas_dgemm", "cublas_dsyrk")
# Document 004's three series of A, m×n, by rows per column.
SERIES = {"square (m = n)": 1.0, "wide (m = n/2)": 0.5, "tall (m = 2n)": 2.0}
OTHER = "other"  # of gram, and in no series


@dataclass(frozen=True)
class Results:
    """One data set, or what it has of one operation, and the catalogue that names its kernels."""

    catalogue: Catalogue
    device: dict[str, Any]
    kernels: pd.DataFrame
    summary: pd.DataFrame
    ratios: pd.DataFrame
    verification: pd.DataFrame
    jobs: pd.DataFrame
    operation: str | None = None  # whose summary and ratios these are; None: everything

    def of(self, operation: str) -> "Results":
        """The same data set with the summary and the ratios of one operation."""
        return self.views[operation]

    @cached_property
    def views(self) -> dict[str, "Results"]:
        """What there is of each operation."""
        return {
            operation: dataclasses.replace(
                self,
                operation=operation,
                summary=self.summary[self.summary.operation == operation],
                ratios=self.ratios[self.ratios.operation == operation],
            )
            for operation in OPERATIONS
        }

    @cached_property
    def order(self) -> list[str]:
        """All kernels: the catalogue's, then those that only the data know."""
        known = [
            name
            for name, kernel in self.catalogue.items()
            if self.operation in (None, kernel.operation)
        ]
        return list(dict.fromkeys([*known, *sorted(set(self.summary.kernel))]))

    def position(self, kernel: str) -> int:
        """A kernel's place in the whole catalogue, or behind it: it decides the kernel's look."""
        return list(dict.fromkeys([*self.catalogue, *self.order])).index(kernel)

    @cached_property
    def present(self) -> list[str]:
        """Kernels that the data set has rows of, in order."""
        return [name for name in self.order if name in set(self.summary.kernel)]

    @cached_property
    def spans(self) -> dict[tuple[str, str], pd.DataFrame]:
        """Measured rows by phase and cache."""
        rows = self.summary[self.summary.status == "ok"]
        return dict(list(rows.groupby(["phase", "cache"], sort=False)))

    def timed(self, phase: str = "kernel", cache: str | None = None) -> pd.DataFrame:
        """Measured rows of a phase; without `cache`, each variant's hot ones, or cold for want."""
        none = self.summary[:0]
        if cache is not None:
            return self.spans.get((phase, cache), none)
        hot, cold = (self.spans.get((phase, which), none) for which in ("hot", "cold"))
        cold = cold[~cold.variant.isin(hot.variant)]
        return hot if cold.empty else pd.concat([hot, cold]).sort_index()

    def square_ratios(self) -> pd.DataFrame:
        """Ratios of square products to the library, hot where there are any, by size."""
        hot = self.ratios[self.ratios.cache == "hot"]
        return squares(self.ratios if hot.empty else hot)

    def title(self, kernel: str) -> str:
        return self.catalogue[kernel].title if kernel in self.catalogue else kernel

    def on_gpu(self, kernel: str) -> bool:
        return kernel not in self.catalogue or self.catalogue[kernel].on_gpu

    def gpu(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows are of kernels that run on a GPU."""
        return rows.kernel.map(self.on_gpu).astype(bool)

    def language(self, kernel: str) -> str:
        return self.catalogue[kernel].language if kernel in self.catalogue else "cuda"

    def writes_half(self, kernel: str) -> bool:
        """Whether it leaves one triangle of C as it was."""
        return kernel in self.catalogue and self.catalogue[kernel].writes != "full"

    def of_document(self, document: str) -> list[str]:
        """Kernels of the catalogue that a document describes."""
        return [name for name, kernel in self.catalogue.items() if document in kernel.documents]

    def absence(self, kernels: Iterable[str], shape: Shape | None = None) -> str:
        """In words, why there is no time of these kernels (at `shape`)."""
        rows = self.summary[self.summary.kernel.isin(list(kernels))]
        if rows.empty:
            return "not in this data set"
        here = at(rows, shape) if shape else rows
        # A point that was timed in another cache is not what is missing.
        point = ["variant", "m", "n", "k"]
        timed = here[(here.status == "ok") & (here.phase == "kernel")].set_index(point).index
        refused = here[(here.status != "ok") & ~here.set_index(point).index.isin(timed)]
        if refused.empty and (rows.status != "ok").all():
            refused = rows
        if not refused.empty:
            return str(refused.reason.value_counts().index[0])
        if shape and here.empty:
            return f"{size_name(shape)} is not among the shapes of this sweep"
        return "this phase was not timed"


def load_results(folder: Path, catalogue: Catalogue) -> Results:
    """Read a data set's folder. Raises UserError naming a missing, cut or foreign file.

    Only device.json and summary.csv have to exist: a table that is not there has no rows.
    """

    def table(kind: str) -> pd.DataFrame:
        path = folder / kind
        empty = pd.DataFrame(columns=COLUMNS[kind])
        # A copy has its columns side by side in memory: selecting rows is several times faster.
        return read_table(kind, path).copy() if path.exists() else empty

    device = read_json(folder / "device.json")
    summary = read_table("summary.csv", folder / "summary.csv").copy()
    others = [table(f"{name}.csv") for name in ("ratios", "verification", "jobs")]
    return Results(catalogue, device, table("kernels.csv"), summary, *others)


def fastest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each kernel at each shape the variant with the least time."""
    shape = ["kernel", "m", "n", "k"]
    best = rows.groupby(shape, sort=False, dropna=False).time_ms.idxmin()
    return rows.loc[best]


def squares(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of products of square matrices, by size."""
    square = (rows.m == rows.n) & (rows.k.fillna(rows.n) == rows.n)
    return rows[square].sort_values("n", kind="stable")


def at(rows: pd.DataFrame, shape: Shape) -> pd.DataFrame:
    """Rows of one shape."""
    here = rows.operation == shape.operation
    for name, extent in zip(shape.__match_args__, shape.dimensions, strict=True):
        here &= rows[name] == extent
    return rows[here]


def size_name(shape: Shape) -> str:
    """`640` for a square product, `3200×2400×1600` (m×n×k) or `250×500` (m×n) for another."""
    return str(shape.n) if shape.square else "×".join(map(str, shape.dimensions))


def of_series(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """Rows of gram in one of SERIES, by size."""
    return rows[rows.m == SERIES[name] * rows.n].sort_values("n", kind="stable")


def series_of(shape: Shape) -> str:
    """The one of SERIES, or OTHER, that a shape of gram belongs to; empty for other operations."""
    if not isinstance(shape, Gram):
        return ""
    forms = (name for name, per_column in SERIES.items() if shape.m == per_column * shape.n)
    return next(forms, OTHER)


def in_order(shapes: Iterable[Shape]) -> list[Shape]:
    """Shapes without repetition, by series, and by number of operations in each."""
    order = ["", *SERIES, OTHER]
    return sorted(
        set(shapes), key=lambda s: (order.index(series_of(s)), s.operations, s.dimensions)
    )


def shapes_of(rows: pd.DataFrame) -> list[Shape]:
    """Every shape of these rows, in order."""
    distinct = rows.drop_duplicates(["operation", "m", "n", "k"])
    return in_order(shape_of(row) for row in distinct.itertuples())


def thermally_throttled(throttled: pd.Series) -> pd.Series:
    """Which rows were measured while the card slowed down for heat."""
    return throttled.fillna("").str.contains("|".join(THERMAL))


def rate_unit(tflops: pd.Series) -> tuple[str, int]:
    """The unit for rates, and how many of it a TFLOP/s is: GFLOP/s where none reaches one."""
    return ("TFLOP/s", 1) if (tflops >= 1).any() else ("GFLOP/s", 1000)


def common_sizes(rows: pd.DataFrame, kernels: Sequence[str]) -> list[int]:
    """Sizes of square products at which all of `kernels` have a row, ascending."""
    sizes = [set(rows[rows.kernel == kernel].n) for kernel in kernels]
    return sorted(set.intersection(*sizes)) if sizes else []


def short_commit(device: dict[str, Any]) -> str:
    """`1a2b3c4`, with `, modified files` behind it where the code differed from the commit."""
    commits = str(device.get("commit") or "unknown").split("+")
    short = "+".join(c[:7] if len(c) == 40 else c for c in commits)
    return short + (", modified files" if device.get("dirty") else "")


def processor(device: dict[str, Any]) -> str:
    """The GPU's name, or the CPU's where there is none."""
    return device.get("gpu") or device.get("cpu") or "unknown device"


def published_name(device: dict[str, Any]) -> str:
    """The folder of reports/published that a device's data set has: nvidia-h100-80gb-hbm3."""
    return re.sub(r"[^a-z0-9]+", "-", processor(device).lower()).strip("-")
