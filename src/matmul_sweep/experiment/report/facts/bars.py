"""The bars of a ladder at every square size: what its picture shows, and on the site a reader who
chooses the size."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, fastest, leading, squares
from matmul_sweep.experiment.report.facts.findings import marked
from matmul_sweep.experiment.report.facts.ladder import gain, shares
from matmul_sweep.experiment.report.numbers import significant

PER_TFLOPS = {"TFLOP/s": 1, "GFLOP/s": 1000}


def bars(view: Results, ladder: Mapping[str, Any]) -> dict[str, Any]:
    """The bars of a ladder: `sizes`, the cells of each square size; `size`, which of them is shown
    first, None if nothing was timed at a square; `bounds`, the rates that the steps' machine code
    allows; `most`, the highest number of all."""
    rows = squares(fastest(view.leads))
    sizes = {int(n): found for n, own in rows.groupby("n") if (found := cells(view, ladder, own))}
    bounds = {step["name"]: step["bound"]["rate"] for step in ladder["steps"]
              if step["name"] in ladder["stairs"] and step["bound"]}  # fmt: skip
    told = int(ladder["size"]) if str(ladder["size"]).isdigit() else None
    return {
        "size": told if told in sizes else max(sizes, default=None),
        "bounds": bounds,
        "most": most(bounds, *sizes.values()),
        "sizes": sizes,
    }


def most(bounds: Mapping[str, float | None], *drawn: Mapping[str, Mapping[str, Any]]) -> float:
    """The highest of these bounds and of the rates in cells; 1 without any."""
    rates = [cell[of] for own in drawn for cell in own.values() for of in ("reached", "library")]
    return max([*filter(None, bounds.values()), *filter(None, rates)], default=1.0)


def cells(view: Results, ladder: Mapping[str, Any], own: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """A cell for each step of the ladder's picture among the rows of one shape, in their order."""
    known = {step["name"]: step for step in ladder["steps"]}
    found, before = {}, None
    for name in ladder["stairs"]:
        for _, row in own[own.kernel == name].iterrows():
            found[name] = cell(view, ladder["unit"], known[name], row, before)
            before = row
    return found


def cell(
    view: Results, unit: str, step: Mapping[str, Any], row: pd.Series, before: pd.Series | None
) -> dict[str, Any]:
    """A bar: its step's title, the rate that was `reached`, that of the fastest `library` from the
    same launches, its name (`rival`), and what stands beside them; `before` is the row of the step
    above."""
    rate = marked(row, PER_TFLOPS[unit], leading(view.leads))
    library = min(shares(view, row, PER_TFLOPS[unit]), key=lambda pair: pair["ratio"], default=None)
    said = f"{step['title']} at n = {row.n}: {significant(rate['value'])} {unit}"
    if library:
        said += f", {library['library']['title']} against it {significant(library['rate'])}"
    states = {"{:.0f} W": row.power_w, "{:.0f} MHz": row.sm_clock_mhz}
    return {
        "title": step["title"],
        "reached": rate["value"],
        "library": library and library["rate"],
        "rival": library and library["library"]["title"],
        "rate": significant(rate["value"]),
        "gain": gained(gain(view, before, row)),
        "theirs": significant(library["rate"]) if library else "–",
        "times": significant(library["ratio"]) if library else "–",
        "state": ", ".join(words.format(x) for words, x in states.items() if pd.notna(x)),
        "limited": "p" if "p" in rate["limits"] else "",
        "said": said,
    }


def gained(gain: Mapping[str, Any] | None) -> str:
    """`×2.76`, or `≈1.01` for a tie; empty if the two cannot be compared."""
    if not gain:
        return ""
    return f"{'≈' if gain['verdict'] in ('tie', 'same') else '×'}{significant(gain['quotient'])}"
