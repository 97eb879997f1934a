"""The published data sets: which of them is quoted, and what each shows first."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from matmul_sweep.experiment.dataset.changes import (
    TOLERANCE,
    VALUES,
    comparable,
    compare_points,
    points_line,
)
from matmul_sweep.experiment.dataset.selection import (
    Results,
    fastest,
    in_words,
    leading,
    leading_own,
    pictures,
    processor,
    published_name,
    quotable,
    rate_unit,
    short_commit,
    squares,
    told_ratios,
    verdict_of,
    version_words,
)
from matmul_sweep.experiment.dataset.tables import POINT
from matmul_sweep.experiment.report.numbers import borne_out, significant
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.process.errors import UserError


def in_order(data_sets: Iterable[Results]) -> list[Results]:
    """Those with today's kernels first, then the newest: the README quotes the first."""
    newest = sorted(data_sets, key=lambda one: str(one.device.get("date")), reverse=True)
    return sorted(newest, key=lambda one: one.earlier)


def stand_in(results: Results) -> Results | None:
    """The published set whose times stand for those that a data set lacks: of those beside it the
    one that the README would quote."""
    return next(iter(in_order(results.others)), None)


def entries(data_sets: Iterable[Results]) -> Iterator[dict[str, Any]]:
    """The sets, the current one first, then the newest, in words; a word between asterisks is
    emphasised. Raises UserError for two sets of one device."""
    folders: dict[str, Path] = {}
    ordered = in_order(data_sets)
    for results in ordered:
        folder, name = results.folder, published_name(results.device)
        if name in folders:
            raise UserError(f"{folders[name]} and {folder}: two sets of one device; remove one")
        folders[name] = folder
        cards = len(results.cards)
        yield {
            "card": f"{processor(results.device)}, {cards} card{'s' * (cards > 1)}",
            "date": str(results.device.get("date")),
            "kernels": version_words(results)
            or f"this version's, commit {short_commit(results.device)}",
            "fastest": list(fastest_kernels(results)),
            "beside": beside(ordered[0], results),  # the current set
            "files": files(folder),
        }


def fastest_kernels(results: Results) -> Iterator[str]:
    """Of each operation whose launches do not overlap the fastest hand-written kernel, its rate and
    its speed-ups."""
    for view in map(results.of, OPERATIONS):
        if view.overlaps:
            continue
        best = squares(leading_own(view))
        for row in best.itertuples():
            unit, per_tflops = rate_unit(best.tflops)
            rate = f"{significant(row.tflops * per_tflops)} {unit} at n = {row.n}"
            at = f"{in_words(view.product)}: *{view.title(row.kernel)}*, {rate}"
            yield ", ".join([at, *speedups(view, best)])


def beside(current: Results, other: Results) -> str:
    """What the command `compare` says of a set, with the current one, the first, as the
    reference."""
    if other is current:
        return "the newest set" if current.earlier else "the current set"
    what = comparable(current, other)
    points = compare_points(VALUES[what](current), VALUES[what](other), TOLERANCE)
    said = points_line(points) if len(points) else "no common point"
    return f"compared with the set above, this one has {said}"


def files(folder: Path) -> dict[str, Path]:
    """The data of a set and what was made of them, by what they are called."""
    names = {"report": "report.pdf"} | pictures()
    made = {words: folder / name for words, name in names.items() if (folder / name).exists()}
    return {"data": folder} | made


def speedups(view: Results, best: pd.DataFrame) -> list[str]:
    """A kernel's (one row) speed-up over each library that fills C, or alone over the fastest, in
    words."""
    held = best.merge(view.ratios, on=["kernel", "variant", *POINT, "cache"])
    held = told_ratios(view, held)
    way = ", alone" if leading(best) == "alone" else ""
    return [
        speedup(held[held.baseline == library], f" times as fast as *{view.title(library)}*") + way
        for library in full_libraries(view, held)
    ]


def speedup(pairs: pd.DataFrame, words: str = "") -> str:
    """A kernel's speed-up over a library, with words after the number; empty if they were not timed
    in turn."""
    if pairs.empty:
        return ""
    row = pairs.iloc[0]
    verdict = verdict_of(row.ratio_low, row.ratio_high)
    if verdict == "unknown":
        return f"{significant(row.ratio)}{words}, too few pairs for an interval"
    value, low, high = borne_out(row.ratio, row.ratio_low, row.ratio_high)
    return f"{value}{words} [{low}, {high}]" + (", a tie" if verdict == "tie" else "")


def full_libraries(view: Results, pairs: pd.DataFrame) -> list[str]:
    """The libraries in these pairs that fill all of C, in the order of the catalogue."""
    names = set(pairs.baseline)
    return [name for name in view.order if name in names and not view.writes_half(name)]


def ladder(view: Results) -> pd.DataFrame:
    """The fastest variant of each kernel at the size of the comparison; a CPU kernel that does not
    reach this size, with enough samples, is shown at its largest."""
    rows, here = squares(fastest(view.timed())), view.at_compared(fastest(view.leads))
    if view.compared is None or not view.compared.square:
        return rows[:0]
    slow = quotable(rows[(rows.n <= view.compared.n) & ~view.gpu(rows)])
    rungs = pd.concat([here[view.gpu(here)], slow.groupby("kernel").tail(1)])
    return rungs.sort_values("kernel", key=lambda names: names.map(view.position), kind="stable")
