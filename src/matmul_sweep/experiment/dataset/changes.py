"""What changed from one data set to another, for each common point and each variant.

A change is the new value divided by the reference's, so above 1 is slower. The value is a kernel's
time or, between different devices, its time relative to the library at the same point.

A verdict compares the 95% interval of the change with what is allowed: `same` if the interval lies
within [1/allowed, allowed], `faster` or `slower` if it lies wholly outside, `unclear` if neither,
or if it is missing because a median had too few samples. The interval covers the samples of two
runs; the allowance covers everything else in which two runs differ.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from matmul_sweep.experiment.dataset.selection import Results, processor, published_name
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.process.errors import UserError

# The columns that identify a point in two data sets; the phase is always `kernel`. A new axis of
# the sweep is one more name here.
IDENTITY = ["kernel", "variant", *POINT, "cache"]
# A ratio is also of a library; `baseline` is empty for times.
KEY = [*IDENTITY, "baseline"]
COMPARED = ["kernel", "variant", "baseline"]  # one verdict over all points of each
NAMED = 3  # variants that a line about missing points names
UNKNOWN = "–"
VERDICTS = ["same", "faster", "slower", "unclear"]
TABLE = [
    *KEY, "value_a", "low_a", "high_a", "value_b", "low_b", "high_b",
    "change", "change_low", "change_high", "allowed", "verdict",
]  # fmt: skip

# From run to run. Of 370 points in two default sweeps on one H100, 358 changed by less. The causes
# are where the matrices lie in memory, and the clock of a card at its power cap.
TOLERANCE = 0.03
# The driver's manual says "around 0.5 microseconds" for cuEventElapsedTime: a time lies within half
# a step of its reading.
RESOLUTION_MS = 0.0005


def own_times(results: Results) -> pd.DataFrame:
    """Rows of kernel times on the device of the data set: its GPU if it has one.

    CPU variants measured beside a GPU are left out, because two hosts of one model differed by up
    to a half, which says nothing about the card. So are shapes drawn at random, which are sampled
    too briefly to tell a change of a few percent.
    """
    rows = results.launches
    rows = rows[~results.drawn(rows)]
    return rows[results.gpu(rows) == bool(results.device.get("gpu"))]


def times(results: Results) -> pd.DataFrame:
    """Kernel times in ms with their 95% intervals, and how far the timer blurs each (a share)."""
    rows = own_times(results)
    blur = RESOLUTION_MS / 2 / rows.time_ms
    return rows.assign(
        baseline="", value=rows.time_ms, low=rows.time_low_ms, high=rows.time_high_ms, blur=blur
    )


def relative_times(results: Results) -> pd.DataFrame:
    """The same for kernel times relative to the library: the inverse of each ratio."""
    rows = results.ratios.merge(own_times(results)[[*IDENTITY, "time_ms"]], on=IDENTITY)
    blur = RESOLUTION_MS / 2 * (1 / rows.time_ms + 1 / (rows.ratio * rows.time_ms))
    return rows.assign(
        value=1 / rows.ratio, low=1 / rows.ratio_high, high=1 / rows.ratio_low, blur=blur
    )


VALUES = {"times": times, "ratios": relative_times}


def comparable(reference: Results, new: Results) -> str:
    """Which of VALUES can compare two data sets: times if the devices are of one model."""
    return "times" if processor(reference.device) == processor(new.device) else "ratios"


def reference_folder(given: Path, device: dict[str, Any]) -> Path:
    """`given` itself, or the data set of `device` in that folder, or else the first one there."""
    if (given / "device.json").exists():
        return given
    inside = sorted(file.parent for file in given.glob("*/device.json"))
    if not inside:
        raise UserError(f"{given}: neither a data set nor a folder of data sets (no device.json)")
    own = given / published_name(device)
    return own if own in inside else inside[0]


def chosen_values(asked: str, reference: Results, new: Results) -> str:
    """Which of VALUES to compare. Raises UserError for times of different devices."""
    fit = comparable(reference, new)
    if asked == "times" and fit != "times":
        raise UserError(
            f"--what times: A is from {processor(reference.device)}, B from "
            f"{processor(new.device)}; compare times relative to the library with --what ratios"
        )
    return fit if asked == "auto" else asked


def heading(what: str, reference: Results, new: Results) -> str:
    """What is compared, and why."""
    if what == "times":
        return f"compared: times on {processor(new.device)}"
    alike = comparable(reference, new) == "times"
    why = "" if alike else ", because the devices are of different models"
    return f"compared: kernel times relative to the library{why}"


def common_points(
    what: str, sides: Sequence[Results], tolerance: float
) -> tuple[pd.DataFrame, str | None]:
    """compare_points of A and B, and a line on the points that B lacks, if any.

    Raises UserError if there is nothing to compare.
    """
    values = [VALUES[what](side) for side in sides]
    for side, table in zip(sides, values, strict=True):
        if table.empty:
            raise UserError(
                f"{side.folder}: has no kernel {what} of {processor(side.device)}; compare data "
                "sets of one device, or of GPUs, because only they have ratios"
            )
    points = compare_points(values[0], values[1], tolerance)
    if points.empty:
        both = " and ".join(str(side.folder) for side in sides)
        raise UserError(f"{both}: no common point; measure the same kernels and shapes")
    return points, lacking_line(*values)


def compare_points(reference: pd.DataFrame, new: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """The common points of two tables of VALUES: both sides, the change and its verdict.

    The interval of the change follows from those of two independent medians, in logarithms (Zou and
    Donner, Statistics in Medicine 27, 2008). It misses as rarely as each of them; the quotients of
    their ends would be wider than necessary. `tolerance`, a share of the time, is allowed, and how
    far the timer blurs the two values.
    """
    columns = [*KEY, "value", "low", "high", "blur"]
    both = reference[columns].merge(
        new[columns], on=KEY, suffixes=("_a", "_b"), validate="one_to_one"
    )
    below = np.hypot(np.log(both.value_b / both.low_b), np.log(both.high_a / both.value_a))
    above = np.hypot(np.log(both.high_b / both.value_b), np.log(both.value_a / both.low_a))
    change = both.value_b / both.value_a
    return judged(
        both.assign(
            change=change,
            change_low=change * np.exp(-below),
            change_high=change * np.exp(above),
            allowed=1 + tolerance + both.blur_a + both.blur_b,
        )
    )


def compare_variants(points: pd.DataFrame, tolerance: float) -> pd.DataFrame:
    """For each variant the geometric mean of its changes, its verdict, and its points' verdicts.

    The mean is over the points (`resolved` of them) that have an interval and that the timer blurs
    by at most `tolerance`. Its interval follows from theirs as a point's does from two medians'.
    Differences from run to run average out over the points, except for those that all points share:
    two H100s differed by up to 0.7% in these means. So a mean is allowed less than a point; with
    four points or more, half.
    """
    clear = points[points.change_low.notna() & (points.allowed <= 1 + 2 * tolerance)]
    grouped = clear[COMPARED].assign(
        change=np.log(clear.change),
        below=np.log(clear.change / clear.change_low) ** 2,
        above=np.log(clear.change_high / clear.change) ** 2,
    ).groupby(COMPARED)  # fmt: skip
    verdicts = pd.get_dummies(points.verdict).reindex(columns=VERDICTS, fill_value=False)
    variants = points[COMPARED].join(verdicts).groupby(COMPARED, sort=False).sum()
    resolved, sums = (of.reindex(variants.index) for of in (grouped.size(), grouped.sum()))
    change = np.exp(sums.change / resolved)
    means = variants.assign(
        resolved=resolved,
        change=change,
        change_low=change * np.exp(-np.sqrt(sums.below) / resolved),
        change_high=change * np.exp(np.sqrt(sums.above) / resolved),
        allowed=1 + tolerance / np.sqrt(resolved).clip(upper=2),
    )
    return judged(means).reset_index()


def judged(changes: pd.DataFrame) -> pd.DataFrame:
    """Changes with the verdict on each; NaN, from a missing interval, compares false."""
    low, high, allowed = changes.change_low, changes.change_high, changes.allowed
    verdicts = {
        "same": (low >= 1 / allowed) & (high <= allowed),
        "faster": high < 1 / allowed,
        "slower": low > allowed,
    }
    chosen = np.select(list(verdicts.values()), list(verdicts), default="unclear")
    return changes.assign(verdict=chosen)


def summary_line(points: pd.DataFrame, variants: pd.DataFrame) -> str:
    """`248 points: 235 same, 1 faster, 0 slower, 12 unclear; kernels slower: none`."""
    slower = (variants.verdict == "slower").sum()
    count = f"{slower} of {len(variants)}" if slower else "none"
    return f"{points_line(points)}; kernels slower: {count}"


def points_line(points: pd.DataFrame) -> str:
    """`248 points: 235 same, 1 faster, 0 slower, 12 unclear`."""
    counts = points.verdict.value_counts().reindex(VERDICTS, fill_value=0)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    lacking = points.change_low.isna().sum()
    note = f" ({lacking} with too few samples for an interval)" if lacking else ""
    return f"{len(points)} points: {said}{note}"


def lacking_line(reference: pd.DataFrame, new: pd.DataFrame) -> str | None:
    """`B lacks 56 of A's 1478 points: 40 of naive, 16 of shared`; None if it lacks none."""
    both = reference[KEY].merge(new[KEY], on=KEY, how="left", indicator=True)
    lacking = both[both["_merge"] == "left_only"]
    if lacking.empty:
        return None
    counts = lacking.groupby(COMPARED, sort=False).size().reset_index(name="points")
    names = [
        f"{row.points} of {row.variant}" + (f" / {row.baseline}" if row.baseline else "")
        for row in counts.head(NAMED).itertuples()
    ]
    names += [f"and of {len(counts) - NAMED} more variants"] if len(counts) > NAMED else []
    return f"B lacks {len(lacking)} of A's {len(both)} points: {', '.join(names)}"


def variant_lines(variants: pd.DataFrame) -> list[str]:
    """Tables of the variants that are faster, slower or unclear, as a whole or at some point, one
    per library: the slower ones first, each kind by its change. Lines fit a page."""
    other = variants[(variants.verdict != "same") | (variants.faster > 0) | (variants.slower > 0)]
    rank = other.verdict.map(["slower", "faster", "unclear", "same"].index)
    order = other.assign(rank=rank).sort_values(["rank", "change"], ascending=[True, False])
    ends = {"change": order.change, "from": order.change_low, "to": order.change_high}
    shares = {name: (end - 1).map("{:+.1%}".format).mask(end.isna(), UNKNOWN)
              for name, end in ends.items()}  # fmt: skip
    points = order[VERDICTS].sum(axis=1)
    shown = order[["variant", "verdict"]].assign(**shares, points=points, **order[VERDICTS])
    lines = []
    for library, rows in shown.groupby(order.baseline):
        lines += ["", *([f"beside {library}"] if library else [])]
        lines += aligned([list(shown), *rows.astype(str).to_numpy()])
    note = f"{UNKNOWN}: no point has both an interval and a time long enough for the timer"
    return [*lines, "", note] if other.change.isna().any() else lines


def aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    """Lines with columns of one width; the first two, texts, stand left, the others right."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    form = "  ".join(f"{{:{'<' if i < 2 else '>'}{width}}}" for i, width in enumerate(widths))
    return [form.format(*row) for row in cells]
