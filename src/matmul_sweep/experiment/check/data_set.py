"""A data set under a check, and the lines that say what is wrong with it.

A finding is one line: the file, the line, what stands there, what should, and the remedy.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep.experiment.dataset.tables import DICTIONARY, TABLES, TEXT
from matmul_sweep.process.errors import shown
from matmul_sweep.process.files import remedy

CLOSE = 1e-9  # relative; the same samples give the same numbers but for rounding
SAMPLES = "samples.csv.gz"
JOB = TABLES["jobs.csv"].key
# Keys of the configuration that came after the first sets, and their values at that time.
LATER = {"verify": "measured", "published": "linked"}


@dataclass(frozen=True)
class DataSet:
    """A data set's folder, its device.json and its tables by file name; optional ones may be
    without rows."""

    folder: Path
    device: dict[str, Any]
    tables: dict[str, pd.DataFrame]

    def __getitem__(self, kind: str) -> pd.DataFrame:
        return self.tables[kind]

    @property
    def timed(self) -> pd.DataFrame:
        """The rows of summary.csv that were measured."""
        return self["summary.csv"].query("status == 'ok'")

    @property
    def configuration(self) -> Any:
        """What the run was given."""
        return LATER | self.device["configuration"]

    @property
    def sweeps(self) -> Mapping[str, Any]:
        return self.device["configuration"]["sweeps"]

    @property
    def kernel_names(self) -> dict[str, str]:
        """The kernel of each variant."""
        return self["kernels.csv"].set_index("variant").kernel.to_dict()

    def said(self, kind: str, what: str, place: str = "") -> str:
        """A finding about a file, or a place in it."""
        path = self.folder / kind
        return f"{path}{place}: {what}; {remedy(path)}"

    def rows(self, kind: str, wrong: pd.Series, column: str, why: str | pd.Series) -> Iterator[str]:
        """A finding for each of the rows of a table that are `wrong`, a boolean by index."""
        for index in sorted(wrong.index[wrong.astype(bool)]):
            row, reason = self[kind].loc[index], why if isinstance(why, str) else why[index]
            what = f"{column} is '{shown(row[column])}', {reason}"
            yield self.said(kind, what, f", line {index + 2}, {named(row)}")

    def lacking(
        self, kind: str, rows: pd.DataFrame, other: str, others: pd.DataFrame, key: list[str]
    ) -> Iterator[str]:
        """Findings for `rows`, of the table `kind`, whose key no row of `others`, of `other`,
        has."""
        wrong = ~among(rows, others, key)
        yield from self.rows(kind, wrong, key[0], f"and {other} has no row for it")

    def unlike(
        self, kind: str, given: pd.DataFrame, expected: pd.DataFrame, source: str
    ) -> Iterator[str]:
        """Findings for the cells of `given`, rows of the table `kind`, that differ from those of
        `expected`, which has the same rows in the same order, from `source`."""
        for column in expected.columns:
            theirs, ours = expected[column].set_axis(given.index), given[column]
            wrong = ours != theirs
            if DICTIONARY[column].kind != TEXT:
                pair = ours.astype(float), theirs.astype(float)
                wrong &= ~np.isclose(*pair, CLOSE, 0, equal_nan=True)
            why = theirs.map(lambda value: f"and {source} '{shown(value)}'")
            yield from self.rows(kind, wrong, column, why)

    def on_gpu(self, rows: pd.DataFrame) -> pd.Series:
        """Which rows of a table are of jobs that ran on a GPU."""
        return among(rows, self["jobs.csv"].query("uuid != ''"), JOB)


def among(rows: pd.DataFrame, others: pd.DataFrame, key: list[str]) -> pd.Series:
    """Which rows have the key of one of the others."""
    both = rows[key].merge(others[key].drop_duplicates(), how="left", indicator=True)
    return (both["_merge"] == "both").set_axis(rows.index)


def named(row: pd.Series) -> str:
    """What a row is of, in a few words: `naive/32 at 64x64x64, kernel, hot`."""
    sizes = [str(row[name]) for name in ("m", "n", "k") if name in row and pd.notna(row[name])]
    name = row["variant"] if "variant" in row else row["name"]
    at = f"{name} at {'x'.join(sizes)}" if sizes else str(name)
    return shown(", ".join([at, *(row[name] for name in ("phase", "cache") if name in row)]), 120)
