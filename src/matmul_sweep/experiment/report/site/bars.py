"""The bars of a staircase at every square size: what a reader sees who chooses the size."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, fastest, leading, squares
from matmul_sweep.experiment.report.facts.findings import marked
from matmul_sweep.experiment.report.facts.ladder import shares
from matmul_sweep.experiment.report.numbers import significant

PER_TFLOPS = {"TFLOP/s": 1, "GFLOP/s": 1000}


def bars(view: Results, ladder: Mapping[str, Any]) -> dict[str, Any]:
    """The bars of a ladder's staircase: `sizes`, a cell for each step at each square size; `size`,
    which of them is shown first, None if nothing was timed at a square; the places of the
    `bounds`."""
    steps = {step["name"]: step for step in ladder["steps"] if step["name"] in ladder["stairs"]}
    unit, factor = ladder["unit"], PER_TFLOPS[ladder["unit"]]
    bounds = {name: step["bound"]["rate"] for name, step in steps.items() if step["bound"]}
    rows = squares(fastest(view.leads))
    rows = rows[rows.kernel.isin(steps)]
    rates = [marked(row, factor, leading(rows)) for _, row in rows.iterrows()]
    # The fastest library from the same launches.
    beside = [min(shares(view, row, factor), key=lambda pair: pair["ratio"], default=None)
              for _, row in rows.iterrows()]  # fmt: skip
    reached = [own["value"] for own in rates] + [pair["rate"] for pair in beside if pair]
    most = max([*filter(None, bounds.values()), *reached], default=1.0)
    sizes: dict[int, dict[str, Any]] = {}
    for row, rate, library in zip(rows.itertuples(), rates, beside, strict=True):
        shown = cell(f"{steps[row.kernel]['title']} at n = {row.n}", row, unit, rate, library, most)
        sizes.setdefault(int(row.n), {})[row.kernel] = shown
    told = int(ladder["size"]) if str(ladder["size"]).isdigit() else None
    return {
        "size": told if told in sizes else max(sizes, default=None),
        "bounds": {name: f"{rate / most:.2%}" for name, rate in bounds.items() if rate},
        "sizes": sizes,
    }


def cell(
    title: str, row: Any, unit: str, rate: Mapping[str, Any], library: Mapping[str, Any] | None,
    most: float,
) -> dict[str, Any]:  # fmt: skip
    """A bar: its `width`, the place of the `library`, and what stands beside it."""
    said = f"{title}: {significant(rate['value'])} {unit}"
    if library:
        said += f", {library['library']['title']} beside it {significant(library['rate'])}"
    states = {"{:.0f} W": row.power_w, "{:.0f} MHz": row.sm_clock_mhz}
    return {
        "width": f"{rate['value'] / most:.2%}",
        "library": library and f"{library['rate'] / most:.2%}",
        "rate": significant(rate["value"]),
        "theirs": significant(library["rate"]) if library else "–",
        "times": significant(library["ratio"]) if library else "–",
        "state": ", ".join(words.format(x) for words, x in states.items() if pd.notna(x)),
        "limited": "p" if "p" in rate["limits"] else "",
        "said": said,
    }
