"""Fit what work costs each variant to measured times, and pick those that a dispatch needs."""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from matmul_sweep.catalogue.architectures import architecture
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch.cost import TERMS, additions, shares_of, work
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.operation import Operation

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


def fitted(
    found: pd.DataFrame, variants: Sequence[Variant], operation: Operation, arch: str,
    everywhere: str | None,
) -> pd.DataFrame:  # fmt: skip
    """The variants of a dispatch: those that the choice by costs takes at one of the shapes,
    `everywhere`, which runs on every card, and those that known shapes want. Without `everywhere`
    another dispatch has it.

    found: rows of a search: set, shape, variant, microseconds, those of the library beside it,
    error and largest_error as shares of the library's. Returns a row for each variant: TERMS in
    microseconds (NaN for one that does not compete), most_additions, the longest chain of additions
    up to which it errs hardly more than the library (0: any), and shapes, the known shapes where it
    is the fastest and the choice by costs loses more than SLACK.
    """
    own = Measured(found[found.set != "judged"], variants, operation, arch)
    costs = pd.DataFrame({name: own.costs(name) for name in own.names}).T
    costs.columns = pd.Index(TERMS)
    costs["most_additions"] = [own.most_additions(name) for name in own.names]
    first = [everywhere] if everywhere else []  # also where no shape wants it
    table = costs.loc[list(dict.fromkeys([*first, *own.chosen(costs)]))]
    shapes = own.remembered(table, found[found.set == "known"]["shape"].unique())
    names = [*table.index, *(name for name in shapes if name not in table.index)]
    return table.reindex(names).assign(shapes=[" ".join(shapes.get(name, [])) for name in names])


def judgement(
    found: pd.DataFrame, costs: pd.DataFrame, variants: Sequence[Variant], operation: Operation,
    arch: str,
) -> str:  # fmt: skip
    """How the choice among `costs` does at the judged shapes, in words."""
    own = Measured(found[found.set == "judged"], variants, operation, arch)
    chosen = own.chosen(costs.dropna())
    times, errs = own.at(own.times, chosen), own.at(own.errs, chosen)
    best_kept = own.allowed[list(costs.index)].min(axis=1)
    ratio = own.library / times
    return (
        f"{len(times)} judged shapes, {len(costs)} variants: the choice loses "
        f"{(times / best_kept - 1).mean():.1%} in the mean to the best of them at each shape, and "
        f"{(times / own.fastest - 1).mean():.1%} to the best candidate; "
        f"it errs over {ERROR_RATIO} times the library at {errs.mean():.1%}\n"
        f"library's time / its time: worst {ratio.min():.3f}, 5% {ratio.quantile(0.05):.3f}, "
        f"median {ratio.median():.3f}, geometric mean {np.exp(np.log(ratio).mean()):.3f}"
    )


class Measured:
    """The times of all variants at some shapes, and the work there."""

    def __init__(
        self, rows: pd.DataFrame, variants: Sequence[Variant], operation: Operation, arch: str
    ) -> None:
        self.library = rows.groupby("shape", sort=False).library.mean()
        self.shapes = {text: parse_shape(text, operation.name) for text in self.library.index}
        known = {variant.name: variant for variant in variants}
        # Searches of different days meet different clocks: the library's times join them.
        level = rows["shape"].map(self.library) / rows.library
        own = rows.assign(microseconds=rows.microseconds * level)[rows.variant.isin(known)]

        def table(column: str) -> pd.DataFrame:
            found = own.pivot(index="shape", columns="variant", values=column)
            return found.reindex(index=list(self.shapes), columns=list(known))

        self.times = table("microseconds")
        self.errs = (table("error") > ERROR_RATIO) | (table("largest_error") > ERROR_RATIO)
        self.names = [n for n in self.times if self.times[n].notna().sum() >= SMALLEST]
        self.allowed = self.times.mask(self.errs)
        self.fastest = self.allowed.min(axis=1)
        of_card = architecture(arch).multiprocessors
        shared = {
            name: [(s, shares_of(known[name], s, of_card)) for s in self.shapes.values()]
            for name in self.times
        }
        self.additions = pd.DataFrame(
            {name: [additions(known[name], *own) for own in shared[name]] for name in shared},
            index=list(self.shapes),
        )
        self.work = {
            name: np.array([astuple(work(known[name], *own, of_card)) for own in shared[name]])
            for name in shared
        }

    def costs(self, name: str) -> np.ndarray:
        """The coefficients of a variant that predict its times best: 0 or more, and for a launch
        LEAST_LAUNCH of the shortest time or more.

        Least squares of relative errors, reweighted a few times so that single shapes that the
        model does not explain count less.
        """
        least = LEAST_LAUNCH * np.nanmin(self.times) * (np.array(TERMS) == "launch")
        measured = self.times[name].notna().to_numpy()
        done, times = self.work[name][measured], self.times[name].to_numpy()[measured]
        near = times <= FAR * self.fastest.to_numpy()[measured]
        trust = np.where(near, 1, FAR_WEIGHT)
        weights = trust / times
        for _ in range(STEPS):
            beyond, _ = nnls(done * weights[:, None], (times - done @ least) * weights)
            missed = done @ (least + beyond) / times - 1
            weights = trust / times / np.sqrt(np.maximum(np.abs(missed), 0.02))
            weights *= np.where(missed < 0, LATE, 1)
        return np.asarray(least + beyond)

    def most_additions(self, name: str) -> int:
        """Up to how many additions in a row it errs at one of the shapes near the fastest, or at
        ERRING of them; 0 if no number is too large. FEW_ADDITIONS are never too many: there it is
        the library that errs less than usual, because it shares out the sums."""
        near = self.times[name] <= NEAR * self.fastest
        own = self.errs[name][near].groupby(self.additions[name][near])
        errs = own.agg(["sum", "count"]).cumsum()
        allowed = errs.index[errs["sum"] <= np.maximum(ERRING * errs["count"], 1)]
        if not len(errs) or list(allowed[-1:]) == list(errs.index[-1:]):
            return 0
        return max(int(allowed[-1]) if len(allowed) else 1, FEW_ADDITIONS)

    def predicted(self, costs: pd.DataFrame) -> pd.DataFrame:
        """Microseconds by the model, NaN where a variant does not take a shape or would err."""
        found = pd.DataFrame(
            {name: self.work[name] @ row[list(TERMS)].to_numpy(float)
             for name, row in costs.iterrows()}, index=self.times.index,
        )  # fmt: skip
        short = pd.DataFrame(
            {name: (self.additions[name] <= most) | (most == 0)
             for name, most in costs.most_additions.items()}
        )  # fmt: skip
        return found.where(self.times[list(costs.index)].notna() & short)

    def chosen(self, costs: pd.DataFrame) -> pd.Series:
        """The variant with the least predicted time at each shape."""
        return self.predicted(costs).idxmin(axis=1)

    def remembered(self, costs: pd.DataFrame, known: Sequence[str]) -> dict[str, list[str]]:
        """By variant the known shapes at which it is the fastest and the choice loses SLACK."""
        chosen = self.at(self.allowed, self.chosen(costs))
        shapes: dict[str, list[str]] = {}
        for shape in self.fastest[known].dropna().index:  # without those where every variant errs
            if not chosen[shape] <= (1 + SLACK) * self.fastest[shape]:
                shapes.setdefault(str(self.allowed.loc[shape].idxmin()), []).append(shape)
        return shapes

    def at(self, table: pd.DataFrame, chosen: pd.Series) -> pd.Series:
        """The cell of the chosen variant at each shape."""
        return pd.Series({shape: table.loc[shape, name] for shape, name in chosen.items()})
