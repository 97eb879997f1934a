"""The steps of a staircase at every square size: what a reader sees who chooses the size."""

from collections.abc import Collection
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, fastest, leading, squares
from matmul_sweep.experiment.report.facts.findings import marked
from matmul_sweep.experiment.report.facts.ladder import shares
from matmul_sweep.experiment.report.numbers import known


def by_size(view: Results, kernels: Collection[str], factor: int) -> dict[int, dict[str, Any]]:
    """Each square size that was timed, with what each of the kernels reached there. Rates are in
    the unit of which `factor` are a TFLOP/s."""
    rows = squares(fastest(view.leads))
    rows = rows[rows.kernel.isin(kernels)]
    way = leading(rows)
    return {
        int(n): {row.kernel: reached(view, row, factor, way) for _, row in own.iterrows()}
        for n, own in rows.groupby("n")
    }


def reached(view: Results, row: pd.Series, factor: int, way: str) -> dict[str, Any]:
    """The rate of a row, that of the fastest library from the same launches, None if there is none,
    and the card's power and clock meanwhile, each None if it is not on record."""
    pairs = shares(view, row, factor)
    return {
        "rate": marked(row, factor, way),
        "library": min(pairs, key=lambda pair: pair["ratio"], default=None),
        "power_w": known(row.power_w),
        "clock_mhz": known(row.sm_clock_mhz),
    }
