"""The published data sets: which of them is quoted, and what each shows first."""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
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
    leading_own,
    pictures,
    processor,
    published_name,
    quotable,
    rate_unit,
    short_commit,
    squares,
    version_words,
)
from matmul_sweep.experiment.report.facts.ladder import shares
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
        unit, per_tflops = rate_unit(best.tflops)
        for _, row in best.iterrows():
            rate = f"{significant(row.tflops * per_tflops)} {unit} at n = {row.n}"
            at = f"{in_words(view.product)}: *{view.title(row.kernel)}*, {rate}"
            yield ", ".join([at, *speedups(view, row)])


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


def speedups(view: Results, row: pd.Series) -> Iterator[str]:
    """A kernel's speed-up over each library that fills C, or alone over the fastest, in words."""
    pairs = shares(view, row, 1)
    alone = row.cache == "alone"
    for pair in sorted(pairs, key=itemgetter("ratio"))[:1] if alone else pairs:
        said = speedup(pair, f" times as fast as *{pair['library']['title']}*")
        yield said + ", alone" * alone


def speedup(pair: Mapping[str, Any], words: str = "") -> str:
    """One of a kernel's shares, with words after the number."""
    if pair["verdict"] == "unknown":
        return f"{significant(pair['ratio'])}{words}, too few pairs for an interval"
    value, low, high = borne_out(pair["ratio"], *pair["interval"])
    return f"{value}{words} [{low}, {high}]" + (", a tie" if pair["verdict"] == "tie" else "")


def ladder(view: Results) -> pd.DataFrame:
    """The fastest variant of each kernel at the size of the comparison; a CPU kernel that does not
    reach this size, with enough samples, is shown at its largest."""
    rows, here = squares(fastest(view.timed())), view.at_compared(fastest(view.leads))
    if view.compared is None or not view.compared.square:
        return rows[:0]
    slow = quotable(rows[(rows.n <= view.compared.n) & ~view.gpu(rows)])
    rungs = pd.concat([here[view.gpu(here)], slow.groupby("kernel").tail(1)])
    return rungs.sort_values("kernel", key=lambda names: names.map(view.position), kind="stable")
