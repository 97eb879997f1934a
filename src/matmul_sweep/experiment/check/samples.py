"""Whether what a data set says follows from its samples."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

import pandas as pd

from matmul_sweep.experiment.check.data_set import SAMPLES, DataSet, among, named
from matmul_sweep.experiment.dataset.derived import pair_ratios, summarise
from matmul_sweep.experiment.dataset.intervals import SMALLEST, Rule
from matmul_sweep.experiment.dataset.sweeps import sweep_of
from matmul_sweep.experiment.dataset.tables import RATIO, SPAN, TABLES, TIMES

PAIR = TABLES["ratios.csv"].key


def miscounted(data: DataSet) -> Iterator[str]:
    """Samples that are missing: in a series, or in one of the two series of a pair."""
    samples, who = data[SAMPLES], [*SPAN, "baseline_of"]
    wrong = samples["sample"] != samples.groupby(who, sort=False, dropna=False).cumcount()
    yield from data.rows(SAMPLES, wrong, "sample", "out of turn: one is missing")
    last = samples[(samples.phase == "kernel") & ~samples.duplicated(who, keep="last")]
    beside, own = (last[(last.baseline_of == "") == alone] for alone in (False, True))
    pairs = beside.assign(variant=beside.baseline_of, row=beside.index)
    both = pairs.merge(own, on=SPAN, how="left", suffixes=("", "_own")).set_index("row")
    wrong = both["sample"] != both.sample_own
    why = "the last one beside a kernel that has another number"
    yield from data.rows(SAMPLES, wrong, "sample", why)


def unsummarised(data: DataSet) -> Iterator[str]:
    """What summary.csv says of samples and they do not give."""
    summary, samples = data["summary.csv"], data[SAMPLES]
    own, derived = samples[samples.baseline_of == ""], ["kernel", "samples", *TIMES, "tflops"]
    yield from data.lacking(SAMPLES, own.drop_duplicates(SPAN), "summary.csv", data.timed, SPAN)
    yield from data.lacking("summary.csv", data.timed, SAMPLES, own, SPAN)
    expected = summarise(summary.drop(columns=derived), samples, data.kernel_names)
    yield from data.unlike("summary.csv", summary, expected[derived], "its samples give")


def unpaired(data: DataSet) -> Iterator[str]:
    """What ratios.csv says of pairs and they do not give, and pairs of which it says nothing."""
    ratios = data["ratios.csv"]
    expected = pair_ratios(data[SAMPLES], data.kernel_names)
    yield from data.lacking("ratios.csv", ratios, SAMPLES, expected, PAIR)
    for _, row in expected[~among(expected, ratios, PAIR)].iterrows():
        what = f"{named(row)}: no row beside {row.baseline}, and {SAMPLES} has their pairs"
        yield data.said("ratios.csv", what)
    order = ratios[PAIR].merge(expected, on=PAIR)[["kernel", "pairs", *RATIO]]
    yield from data.unlike("ratios.csv", ratios, order, "its samples give")


def stopped_otherwise(data: DataSet) -> Iterator[str]:
    """Points that the rule of their sweep would not have ended as they say, with or without their
    last sample: on a GPU that is the launch whose C is looked at, after the rule has ended the
    others. Alone the number of blocks is always the same."""
    samples, timed = data[SAMPLES], data.timed
    timed = timed[(timed.phase == "kernel") & (timed.cache != "alone")]
    kernel = samples.baseline_of.where(samples.baseline_of != "", samples.variant)
    series = samples.assign(who=samples.variant, variant=kernel)
    series = series[(series.phase == "kernel") & (series.cache != "alone")]
    spans = series.groupby(SPAN, sort=False, dropna=False)
    rules = {name: rule_of(sweep_of(data.configuration, name)) for name in data.sweeps}

    def what_ended(rows: pd.DataFrame) -> pd.Series:
        """By the times of a kernel and its rivals at a point, all and all but the last."""
        times = [own.to_numpy() for _, own in rows.groupby("who", sort=False).time_ms]
        rule = rules[rows.name[SPAN.index("sweep")]]
        ends = (times, [own[:-1] for own in times])
        return pd.Series([rule.enough(end) or "seconds" for end in ends], ["all", "stopped"])

    ended = spans[["who", "time_ms"]].apply(what_ended).reset_index()
    expected = timed[[*SPAN, "stopped"]].merge(ended, on=SPAN, how="left", suffixes=("_said", ""))
    expected.loc[expected.stopped_said == expected["all"], "stopped"] = expected["all"]
    source = "by its samples and the configuration what ended it is"
    yield from data.unlike("summary.csv", timed, expected[["stopped"]], source)


def rule_of(sweep: Mapping[str, Any]) -> Rule:
    return Rule(*(sweep["sampling"][field.name] for field in fields(Rule)))


def too_few_blocks(data: DataSet) -> Iterator[str]:
    """Points that were timed alone in fewer blocks than a median's interval needs."""
    timed = data.timed
    wrong = (timed.cache == "alone") & (timed["samples"] < SMALLEST)
    yield from data.rows("summary.csv", wrong, "samples", f"fewer than {SMALLEST} blocks")
