"""Fit what work costs each variant to measured times, and pick those that a dispatch needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

import numpy as np
from scipy.optimize import nnls

from matmul_sweep.catalogue.architectures import architecture
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sharing import shares_of
from matmul_sweep.dispatch.cost import (
    LARGE,
    LIMITS,
    TERMS,
    Cost,
    Energy,
    additions,
    energy,
    joined,
    work,
)
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.shapes import Shape

ERROR_RATIO = 1.5  # to the library's error, in the mean and at most
ERRING = 0.02  # share of the shapes at which a variant may err more
FEW_ADDITIONS = 600  # in a row, which every variant may have
NEAR = 1.25  # times the fastest: where a variant's errors count, since it may be chosen
FAR, FAR_WEIGHT = 1.6, 0.15  # slower ones are timed by one launch, and matter less
SMALLEST = 3  # shapes to fit a variant to
LEAST_LAUNCH = 0.7  # of the shortest time: what every product takes, whatever its work
STEPS = 6  # of reweighting
LATE = 2  # a time beyond the predicted one counts as much more: the choice takes what is predicted
# to be fast, so it meets these
SLACK = 0.005  # that a choice may lose at a known shape, as a share of the time
SLACK_ALONE = 0.02  # and where it was timed alone, by few blocks
DOUBT = 1e-3  # weight of 0 as the energy of what waits and is stored, beside that of a shape

Found = Mapping[str, Any]  # a row of a search


def fitted(
    found: Sequence[Found], variants: Sequence[Variant], arch: str, everywhere: str | None,
    known_only: Collection[str] = (),
) -> list[Cost]:  # fmt: skip
    """The rows of a dispatch's table: of the variants that the choice by costs takes at one of the
    shapes, of `everywhere`, which runs on every card, and of those that known shapes want, which
    are without costs if they do not compete, or are to run at such shapes only. Without
    `everywhere` another dispatch has it.

    found: rows of a search: set, shape, variant, microseconds, those of the library beside it,
    error and largest_error as shares of the library's, and of the set `alone` the share of the
    card's power limit. The `shapes` of a row are the known ones, and those that were timed alone,
    where it is the fastest and the choice by costs loses more than SLACK.
    """
    alone = [row for row in found if row["set"] == "alone"]
    own = side_by_side(found, variants, arch)
    rows = own.rows(limits_of(alone, variants, arch), arch)
    every = {cost.variant.name: cost for cost in rows if cost.variant.name not in known_only}
    rows = [*every.values()]
    chosen = [rows[i].variant.name for i in own.chosen(rows)]
    names = dict.fromkeys([everywhere, *chosen] if everywhere else chosen)
    table = {name: every[name] for name in names}
    by_alone = {row["shape"] for row in alone}
    known = {row["shape"] for row in found if row["set"] == "known"} - by_alone
    seen = [(own, known, SLACK)]
    seen += [(Measured(alone, variants, arch), by_alone, SLACK_ALONE)] if alone else []
    chosen_from = list(table.values())
    for measured, texts, slack in seen:
        for variant, shapes in measured.remembered(chosen_from, texts, slack).items():
            row = table.get(variant.name, Cost(arch, variant, ()))
            table[variant.name] = replace(row, shapes=(*row.shapes, *shapes))
    return list(table.values())


def limited(costs: Sequence[Cost], alone: Sequence[Found], arch: str) -> list[Cost]:
    """The rows of a table with what their variants take at the card's power limit, by rows that
    were timed alone. Nothing else of the costs changes, but a LARGE shape is remembered only where
    it is the fastest of them."""
    variants = [cost.variant for cost in costs]
    limits = limits_of(alone, variants, arch)
    rows = {
        cost.variant: replace(
            cost, limits=limits[cost.variant.name],
            shapes=tuple(shape for shape in cost.shapes if shape.operations < LARGE),
        )
        for cost in costs
    }  # fmt: skip
    seen, texts = Measured(alone, variants, arch), {row["shape"] for row in alone}
    chosen_from = [row for row in rows.values() if row.coefficients]
    for variant, shapes in seen.remembered(chosen_from, texts, SLACK_ALONE).items():
        rows[variant] = replace(rows[variant], shapes=(*rows[variant].shapes, *shapes))
    return [row for row in rows.values() if row.coefficients or row.shapes]


def limits_of(
    rows: Sequence[Found], variants: Sequence[Variant], arch: str
) -> dict[str, tuple[float, ...]]:
    """The limits of Cost, by name: least squares of the relative errors of these rows, which were
    timed alone, with one number for what waits and one for what is stored. For a variant that was
    not timed there a line says the first, over what it reads from shared memory for each
    multiply-add, between the least and the most of those that were. 0 where no power was read.
    """
    of_card = architecture(arch).multiprocessors
    known = {variant.name: variant for variant in variants}
    times: list[float] = []
    drawn: list[tuple[str, Energy]] = []
    for row in rows:
        if row["share"] > 0 and (variant := known.get(row["variant"])):
            shape = parse_shape(row["shape"], variant.kernel.operation)
            own = energy(variant, shape, shares_of(variant, shape, of_card), of_card)
            if own.at_limit:
                drawn.append((variant.name, own))
                times.append(min(row["share"], 1) * row["microseconds"])
    timed = list(dict.fromkeys(name for name, _ in drawn))
    if not timed:
        return dict.fromkeys(known, (0.0, 0.0, 0.0))
    volumes = [[own.at_limit * (name == each) for each in timed] for name, own in drawn]
    common = [(own.waiting_at_limit, own.stored_at_limit) for _, own in drawn]
    relative = np.hstack([volumes, common]) / np.c_[times]
    doubt = np.diag(DOUBT * relative.mean(axis=0))[-2:]  # as few shapes do not tell them apart
    wanted = np.append(np.ones(len(times)), [0, 0])
    *found, waiting, stored = map(float, nnls(np.vstack([relative, doubt]), wanted)[0])
    read = {variant.name: sum(1 / extent for extent in variant.tile) for variant in variants}
    degree = int(len({read[name] for name in timed}) > 1)
    line = np.poly1d(np.polyfit([read[name] for name in timed], found, degree))
    volume = {n: float(np.clip(line(read[n]), min(found), max(found))) for n in known}
    volume |= dict(zip(timed, found, strict=True))
    return {name: (own, waiting, stored) for name, own in volume.items()}


def side_by_side(found: Sequence[Found], variants: Sequence[Variant], arch: str) -> "Measured":
    """The times that costs are fitted to."""
    return Measured([row for row in found if row["set"] in ("known", "fitted")], variants, arch)


def raced(found: Sequence[Found], variants: Sequence[Variant], arch: str) -> list[Cost]:
    """The costs of all that compete, by the rows that were timed side by side alone."""
    own = side_by_side(found, variants, arch)
    return own.rows({}, arch)


def judgement(
    found: Sequence[Found], costs: Sequence[Cost], variants: Sequence[Variant], arch: str
) -> str:
    """How the choice among `costs` does at the shapes of these rows, in words."""
    own = Measured(found, variants, arch)
    rows = [cost for cost in costs if cost.coefficients]
    chosen = own.columns(rows)[own.chosen(rows)]
    times, errs = own.at(own.times, chosen), own.at(own.errs, chosen)
    best_kept = np.fmin.reduce(own.allowed[:, own.columns(costs)], axis=1)
    ratio, lost = own.library / times, times / best_kept - 1
    return (
        f"{len(times)} judged shapes, {len(costs)} variants: the choice loses "
        f"{np.nanmean(lost):.1%} in the mean and {np.nanmax(lost):.1%} at most to the best of them "
        "at each shape, "
        f"and {np.nanmean(times / own.fastest - 1):.1%} to the best candidate; "
        f"it errs over {ERROR_RATIO} times the library at {errs.mean():.1%}\n"
        f"library's time / its time: worst {ratio.min():.3f}, 5% {np.quantile(ratio, 0.05):.3f}, "
        f"median {np.median(ratio):.3f}, geometric mean {np.exp(np.log(ratio).mean()):.3f}"
    )


class Measured:
    """The times of all variants (columns) at some shapes (rows), and the work there."""

    def __init__(self, rows: Sequence[Found], variants: Sequence[Variant], arch: str) -> None:
        libraries: dict[str, list[float]] = {}
        for row in rows:
            libraries.setdefault(row["shape"], []).append(row["library"])
        self.library = np.array([np.mean(own) for own in libraries.values()])
        self.texts, self.variants = list(libraries), list(variants)
        self.names = [variant.name for variant in variants]
        size = len(self.texts), len(variants)
        self.times, self.errs = np.full(size, np.nan), np.zeros(size, bool)
        for row in (row for row in rows if row["variant"] in self.names):
            place = self.texts.index(row["shape"]), self.names.index(row["variant"])
            # Searches of different days meet different clocks: the library's times join them.
            self.times[place] = row["microseconds"] * self.library[place[0]] / row["library"]
            self.errs[place] = max(row["error"], row["largest_error"]) > ERROR_RATIO
        self.competes = np.isfinite(self.times).sum(axis=0) >= SMALLEST
        self.allowed = np.where(self.errs, np.nan, self.times)
        self.fastest = np.fmin.reduce(self.allowed, axis=1)
        of_card = architecture(arch).multiprocessors
        operation = variants[0].kernel.operation
        self.shapes = [parse_shape(text, operation) for text in self.texts]
        self.additions, self.work = np.zeros(size, int), np.zeros((*size, len(TERMS)))
        self.energy = np.zeros((*size, len(LIMITS)))
        for i, shape in enumerate(self.shapes):
            for j, variant in enumerate(variants):
                shares = shares_of(variant, shape, of_card)
                self.additions[i, j] = additions(variant, shape, shares)
                self.work[i, j] = astuple(work(variant, shape, shares, of_card))
                self.energy[i, j] = astuple(energy(variant, shape, shares, of_card))

    def columns(self, costs: Sequence[Cost]) -> np.ndarray:
        """The columns of the variants of rows."""
        return np.array([self.names.index(cost.variant.name) for cost in costs], int)

    def costs(self, column: int) -> tuple[float, ...]:
        """The coefficients of a variant that predict its times best: 0 or more, and for a launch
        LEAST_LAUNCH of the shortest time or more.

        Least squares of relative errors, reweighted a few times so that single shapes that the
        model does not explain count less.
        """
        least = LEAST_LAUNCH * np.nanmin(self.times) * (np.array(TERMS) == "launch")
        measured = np.isfinite(self.times[:, column])
        done, times = self.work[measured, column], self.times[measured, column]
        trust = np.where(times <= FAR * self.fastest[measured], 1, FAR_WEIGHT)
        weights = trust / times
        for _ in range(STEPS):
            beyond, _ = nnls(done * weights[:, None], (times - done @ least) * weights)
            missed = done @ (least + beyond) / times - 1
            weights = trust / times / np.sqrt(np.maximum(np.abs(missed), 0.02))
            weights *= np.where(missed < 0, LATE, 1)
        return tuple(map(float, least + beyond))

    def rows(self, limits: Mapping[str, tuple[float, ...]], arch: str) -> list[Cost]:
        """The costs of all variants that compete; limits: by name, those that are known."""
        none = (0.0,) * len(LIMITS)
        return [
            Cost(
                arch, variant, self.costs(i), self.most_additions(i),
                limits=limits.get(variant.name, none),
            )
            for i, variant in enumerate(self.variants)
            if self.competes[i]
        ]  # fmt: skip

    def most_additions(self, column: int) -> int:
        """Up to how many additions in a row it errs at one of the shapes near the fastest, or at
        ERRING of them; 0 if no number is too large. FEW_ADDITIONS are never too many: there it is
        the library that errs less than usual, because it shares out the sums."""
        near = self.times[:, column] <= NEAR * self.fastest
        chains, which = np.unique(self.additions[near, column], return_inverse=True)
        errs = np.bincount(which, self.errs[near, column]).cumsum()
        allowed = chains[errs <= np.maximum(ERRING * np.bincount(which).cumsum(), 1)]
        most = max(allowed, default=0)
        return 0 if most == max(chains, default=0) else max(int(most), FEW_ADDITIONS)

    def chosen(self, costs: Sequence[Cost]) -> np.ndarray:
        """At each shape which of the rows has the least predicted time, of those whose variants
        take the shape and do not err there."""
        columns = self.columns(costs)
        coefficients = np.array([cost.coefficients for cost in costs])
        times = np.einsum("ijk,jk->ij", self.work[:, columns], coefficients)
        limits = np.array([cost.limits for cost in costs])
        least = np.einsum("ijk,jk->ij", self.energy[:, columns], limits)
        most = np.array([cost.most_additions or np.inf for cost in costs])
        able = np.isfinite(self.times[:, columns]) & (self.additions[:, columns] <= most)
        return np.where(able, joined(times, least), np.inf).argmin(axis=1)

    def remembered(
        self, costs: Sequence[Cost], known: set[str], slack: float
    ) -> dict[Variant, list[Shape]]:
        """By variant the known shapes at which it is the fastest and the choice loses `slack`."""
        times = self.at(self.allowed, self.columns(costs)[self.chosen(costs)])
        shapes: dict[Variant, list[Shape]] = {}
        for i, text in enumerate(self.texts):
            right = np.isfinite(self.fastest[i])  # otherwise every variant errs there
            if text in known and right and not times[i] <= (1 + slack) * self.fastest[i]:
                best = self.variants[int(np.nanargmin(self.allowed[i]))]
                shapes.setdefault(best, []).append(self.shapes[i])
        return shapes

    def at(self, table: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """At each shape the cell of its column."""
        return np.asarray(table[np.arange(len(table)), columns])
