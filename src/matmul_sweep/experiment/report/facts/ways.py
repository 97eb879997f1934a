"""The ways of timing beside each other: what each gives of a dispatch at one size."""

from collections.abc import Iterator
from typing import Any

from matmul_sweep.experiment.dataset.selection import Results, squares
from matmul_sweep.experiment.report.numbers import known
from matmul_sweep.operations import OPERATIONS


def ways(results: Results) -> list[dict[str, Any]]:
    """What is reported of each dispatch at each square size at which it was timed alone."""
    return [own for name in OPERATIONS for own in of_dispatches(results.of(name, reduced=True))]


def of_dispatches(view: Results) -> Iterator[dict[str, Any]]:
    """The rates in TFLOP/s by the way of timing, as far as they are known, and alone what the card
    drew. Hot samples of one launch were taken in turn, those of several in a row."""
    rows = squares(view.launches).sort_values(
        "kernel", key=lambda names: names.map(view.position), kind="stable"
    )
    rows = rows[rows.kernel.map(view.is_dispatch).astype(bool)]
    many = (rows.cache == "hot") & (rows.launches > 1)
    rows = rows.assign(way=rows.cache.replace("hot", "in turn").mask(many, "in a row"))
    for row in rows[rows.way == "alone"].itertuples():
        same = rows[(rows.kernel == row.kernel) & (rows.n == row.n) & (rows.fill == row.fill)]
        yield {
            "kernel": view.title(row.kernel),
            "n": row.n,
            "rates": same.groupby("way").tflops.max().to_dict(),
            "power_w": known(row.power_w),
            "clock_mhz": known(row.sm_clock_mhz),
            "per_joule": known(per_joule(row)),
        }


def per_joule(rows: Any) -> Any:
    """Operations per joule, in GFLOP, of a row or of a table's rows."""
    return 1e3 * rows.tflops / rows.power_w
