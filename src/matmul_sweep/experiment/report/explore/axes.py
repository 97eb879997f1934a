"""The axes of a choice, and what is alike in all of them, in plotly.js's form."""

from collections.abc import Mapping
from typing import Any

from matmul_sweep.experiment.report.explore.points import ERROR, RATE, TIME, plain
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.operation import OTHER

CLEAR = "rgba(0, 0, 0, 0)"  # the page has a dark scheme too
LAYOUT = {
    "font": {"family": "DejaVu Sans, Verdana, sans-serif", "color": style.INK},
    "hovermode": "closest",
    "hoverlabel": {"align": "left", "bgcolor": "white", "font": {"color": style.INK}},
    "modebar": {"bgcolor": CLEAR},
    "margin": {"t": 20, "r": 20},
    "paper_bgcolor": CLEAR,
    "plot_bgcolor": CLEAR,
    "showlegend": True,  # of one kernel too
    "uirevision": "kept",  # a hidden kernel stays hidden
}
# No other button: one of plotly.js's own sends the chart to a server.
BUTTONS = ["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]
CONFIG = {"modeBarButtons": [BUTTONS], "displaylogo": False, "responsive": True, "showTips": False}
GRID = {"gridcolor": style.PALE, "linecolor": style.QUIET, "zeroline": False,
        "rangemode": "tozero", "automargin": True}  # fmt: skip
POWERS = {"type": "log", "tickvals": [2**i for i in range(31)], "tickformat": "d"}
LOG = {"type": "log", "dtick": 1, "exponentformat": "power"}
PERCENT = {"tickformat": ".0%"}
PARITY = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
          "line": {"color": style.INK, "width": 1, "dash": "dash"}}  # fmt: skip
NOTHING = {
    "xaxis": {"visible": False},
    "yaxis": {"visible": False},
    "annotations": [{"text": "Nothing was measured for this choice.", "showarrow": False}],
}


def axes(chosen: Mapping[str, str], unit: str) -> dict[str, Any]:
    """The axes of a choice; an axis is reset when its meaning changes."""
    quantity, series = chosen["quantity"], chosen["series"]
    speed = f"speed in {unit} ({OPERATIONS[chosen['operation']].work} operations)"
    across = GRID | (titled("shape") | {"type": "category"} if series == OTHER
                     else POWERS | titled("n, columns of C"))  # fmt: skip
    if quantity == ERROR:
        across = GRID | LOG | titled(speed)
    upright = {
        RATE: titled(speed),
        TIME: titled("time in ms") | LOG,
        ERROR: titled("mean error relative to Σ|a||b|")
        | {"type": "log", "nticks": 8, "exponentformat": "power"},
    }
    speedup = titled(f"{quantity}: its time / kernel time")
    return {
        "xaxis": across | {"uirevision": f"{series} {quantity == ERROR}"},
        "yaxis": GRID | upright.get(quantity, speedup) | {"uirevision": f"{quantity} {unit}"},
        "shapes": [] if quantity in upright else [PARITY],
    }


def titled(words: str) -> dict[str, Any]:
    return {"title": {"text": plain(words)}}
