"""The bars of a staircase at every size, in words and in percent of the width of a page."""

from collections.abc import Mapping
from typing import Any

from matmul_sweep.experiment.dataset.selection import Results
from matmul_sweep.experiment.report.facts.sizes import by_size
from matmul_sweep.experiment.report.numbers import significant

PER_TFLOPS = {"TFLOP/s": 1, "GFLOP/s": 1000}


def bars(view: Results, ladder: Mapping[str, Any]) -> dict[str, Any]:
    """The bars of a ladder's staircase: `sizes`, a cell for each step at each square size; `size`,
    which of them is shown first, None if nothing was timed at a square; the places of the
    `bounds`."""
    steps = {step["name"]: step for step in ladder["steps"] if step["name"] in ladder["stairs"]}
    sizes = by_size(view, steps, PER_TFLOPS[ladder["unit"]])
    bounds = {name: step["bound"]["rate"] for name, step in steps.items() if step["bound"]}
    reached = [cell["rate"]["value"] for own in sizes.values() for cell in own.values()]
    theirs = [cell["library"]["rate"] for own in sizes.values() for cell in own.values()
              if cell["library"]]  # fmt: skip
    most = max([*filter(None, bounds.values()), *reached, *theirs], default=1.0)
    told = int(ladder["size"]) if str(ladder["size"]).isdigit() else None
    return {
        "size": told if told in sizes else max(sizes, default=None),
        "bounds": {name: percent(rate / most) for name, rate in bounds.items() if rate},
        "sizes": {
            n: {
                name: cell(steps[name]["title"], n, ladder["unit"], reached, most)
                for name, reached in own.items()
            }
            for n, own in sizes.items()
        },
    }


def cell(
    title: str, n: int, unit: str, reached: Mapping[str, Any], most: float
) -> dict[str, str | None]:
    """A bar: its `width`, the place of the `library`, and what stands beside it."""
    rate, library = reached["rate"]["value"], reached["library"]
    said = [f"{title} at n = {n}: {significant(rate)} {unit}"]
    if library:
        said.append(f"{library['library']['title']} beside it {significant(library['rate'])}")
    states = {"{:.0f} W": reached["power_w"], "{:.0f} MHz": reached["clock_mhz"]}
    return {
        "width": percent(rate / most),
        "library": library and percent(library["rate"] / most),
        "rate": significant(rate),
        "theirs": significant(library["rate"]) if library else "–",
        "times": significant(library["ratio"]) if library else "–",
        "state": ", ".join(words.format(x) for words, x in states.items() if x is not None),
        "limited": "p" if "p" in reached["rate"]["limits"] else "",
        "said": ", ".join(said),
    }


def percent(share: float) -> str:
    return f"{share:.2%}"
