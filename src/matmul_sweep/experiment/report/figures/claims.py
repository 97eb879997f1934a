"""What the data show, in a sentence: the titles of the figures. Where the data do not bear out a
claim, it is an empty text, and the figure has its plain title."""

from collections.abc import Sequence

import pandas as pd

from matmul_sweep.experiment.dataset.selection import (
    Results,
    quotable,
    rate_unit,
    squares,
    verdict_of,
)
from matmul_sweep.experiment.report.facts.ladder import gain
from matmul_sweep.experiment.report.facts.peaks import unit_peak
from matmul_sweep.experiment.report.numbers import significant

ALIKE = 1.1  # errors this many times apart are no difference between kernels
EQUAL = 0.005  # from 1: a ratio so near it is no claim, however narrow its interval


def percent(share: float) -> str:
    """`8%`, `97%`, `99.6%`: two digits, and three where they tell a number from 100."""
    digits = 3 if 0.99 <= share < 0.9995 or share >= 1.005 else 2
    return f"{significant(100 * share, digits)}%"


def times(factor: float) -> str:
    """`2.14 times`, `127 000 times`."""
    return f"{significant(factor)} times"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def beside(ratio: float, low: float, high: float) -> str:
    """How a kernel compares with what was timed beside it, by that one's time over the kernel's:
    `1.08 times as fast as`. Empty without an interval."""
    verdict = verdict_of(low, high)
    if verdict == "unknown":
        return ""
    alike = verdict == "tie" or abs(ratio - 1) < EQUAL
    return "as fast as" if alike else f"{significant(ratio)} times as fast as"


def of_peak(view: Results, rows: pd.DataFrame) -> str:
    """`sgemm reaches 55.3 TFLOP/s, n = 8192, 83% of the peak of the float32 units`: of
    these rows the last step's at its best square size; without the share where no peak is known,
    and with the library's rate where that is higher."""
    rows = squares(quotable(rows))
    own = rows[rows.kernel.isin(view.told[-1:])]
    if own.empty:
        return ""
    row = own.loc[own.tflops.idxmax()]
    unit, per_tflops = rate_unit(own.tflops)
    rate = f"{significant(row.tflops * per_tflops)} {unit}, n = {row.n}"
    units = view.product.units.items()
    peaks = sorted((peak, words) for name, words in units if (peak := unit_peak(view, name)))
    shares = [f"{percent(row.tflops / peak)} of the peak of the {words}" for peak, words in peaks]
    there = rows[(rows.n == row.n) & rows.kernel.isin(view.full_rivals)]
    faster = there.nlargest(1, "tflops")[lambda best: best.tflops > row.tflops]
    theirs = [f"{view.title(best.kernel)} {significant(best.tflops * per_tflops)}"
              for best in faster.itertuples()]  # fmt: skip
    return ", ".join([f"{view.title(row.kernel)} reaches {rate}", *shares[-1:], *theirs])


def reduced_beside_full(results: Results, rows: pd.DataFrame) -> str:
    """What other arithmetic gains in speed and costs in error, or gains there too: its fastest
    kernel, of this project if there is one, beside the fastest other one, among rows at one point.
    Nothing if their speeds cannot be compared."""
    full = rows[[results.arithmetic(kernel) == "full" for kernel in rows.kernel]]
    reduced = rows.drop(full.index)
    if reduced.empty and len(full) > 1 and full.mean_error.max() < ALIKE * full.mean_error.min():
        return f"All {len(full)} kernels have the same mean error, within {percent(ALIKE - 1)}"
    if full.empty or reduced.empty:
        return ""
    ours = reduced[reduced.kernel.map(results.hand_written).astype(bool)]
    best = reduced if ours.empty else ours
    one, other = (own.loc[own.tflops.idxmax()] for own in (best, full))
    found, error = gain(results, other, one), one.mean_error / other.mean_error
    if not found:
        return ""
    words = f"{times(error)} the error" if error >= 1 else f"{percent(error)} of the error"
    return (f"{results.title(one.kernel)} is {times(found['quotient'])} as fast as "
            f"{results.title(other.kernel)}, with {words}")  # fmt: skip
