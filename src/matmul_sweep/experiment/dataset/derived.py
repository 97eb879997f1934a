"""What follows from the samples of a data set: medians, rates and ratios, with their intervals."""

import numpy as np
import pandas as pd

from matmul_sweep.experiment.dataset.intervals import SMALLEST, median_interval
from matmul_sweep.experiment.dataset.tables import POINT, SPAN
from matmul_sweep.operations import shape_of
from matmul_sweep.process.errors import UserError

RESAMPLES = 999


def summarise(points: pd.DataFrame, samples: pd.DataFrame, kernels: dict[str, str]) -> pd.DataFrame:
    """summary.csv: one row per point, phase and cache, with the median of its samples."""
    own = samples[samples.baseline_of == ""].groupby(SPAN, sort=False, dropna=False).time_ms
    medians = own.agg(
        samples="size",
        time_ms="median",
        time_low_ms=lambda times: median_interval(times)[0],
        time_high_ms=lambda times: median_interval(times)[1],
    ).reset_index()
    summary = points.merge(medians, on=SPAN, how="left", validate="one_to_one")
    summary["samples"] = summary["samples"].fillna(0).astype(int)
    lost = summary[(summary.status == "ok") & (summary["samples"] == 0)]
    if not lost.empty:
        row = lost.iloc[0]
        raise UserError(f"{row.variant} at {shape_of(row)} has no samples ({row.phase})")
    work = np.array([shape_of(row).operations for row in summary.itertuples()], float)
    summary["tflops"] = (work / summary.time_ms / 1e9).where(summary.phase == "kernel")
    summary["kernel"] = summary.variant.map(kernels)
    return summary


def pair_ratios(samples: pd.DataFrame, kernels: dict[str, str]) -> pd.DataFrame:
    """ratios.csv: library time over kernel time, as the median over pairs of neighbours in time."""
    timed = samples[samples.phase == "kernel"]
    key = [*POINT, "cache", "sample"]
    names = {"variant": "baseline", "baseline_of": "variant", "time_ms": "baseline_ms"}
    baselines = timed[timed.baseline_of != ""].rename(columns=names)
    own = timed[timed.baseline_of == ""][["variant", *key, "time_ms"]]
    pairs = baselines.merge(own, on=["variant", *key], validate="many_to_one")
    pairs["ratio"] = pairs.baseline_ms / pairs.time_ms
    product = ["variant", "baseline", *POINT, "cache"]
    grouped = pairs.groupby(product, sort=False, dropna=False).ratio
    ratios = grouped.agg(pairs="size", ratio="median").reset_index()
    ends = [resampled_interval(values.to_numpy()) for _, values in grouped]
    ratios[["ratio_low", "ratio_high"]] = np.array(ends).reshape(-1, 2)
    ratios["kernel"] = ratios.variant.map(kernels)
    return ratios


def resampled_interval(ratios: np.ndarray) -> tuple[float, float]:
    """The 95% interval of the median of ratios by the percentile bootstrap, with a fixed seed.

    Both ends are NaN for fewer than SMALLEST pairs, where resamples only repeat the few values.
    """
    if len(ratios) < SMALLEST:
        return np.nan, np.nan
    from scipy.stats import bootstrap  # here, because importing it takes longer than pandas

    found = bootstrap((ratios,), np.median, n_resamples=RESAMPLES, method="percentile", rng=0)
    return found.confidence_interval
