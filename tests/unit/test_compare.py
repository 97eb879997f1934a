"""Comparing data sets: noise is the same, 3% is slower, and what cannot be compared is one line."""

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import DEVICE, made_up
from support import Command, Outcome

from matmul_sweep.experiment.dataset.intervals import median_interval
from matmul_sweep.experiment.dataset.tables import read_table, write_table
from matmul_sweep.experiment.report.facts import changes
from matmul_sweep.experiment.report.facts.changes import (
    KEY,
    TABLE,
    VALUES,
    compare_points,
    compare_variants,
    judged,
)
from matmul_sweep.experiment.report.figures.changes import draw_changes

FEW = ["cpu_loop", "naive", "shared", "cublas_sgemm", "gram_naive", "cublas_dsyrk"]
LARGE = {"gemm": [640, 1024, 2048, 4096], "gram": [2500, 4500]}
SHARED = ["shared/32", "shared/16"]
OTHER_CARD = DEVICE | {"gpu": "Another GPU"}

Change = Callable[[pd.DataFrame], pd.DataFrame]


def unchanged(summary: pd.DataFrame) -> pd.DataFrame:
    return summary


def scaled(factor: float, *kernels: str) -> Change:
    """Times of these kernels, or of all, times `factor`."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        chosen = summary.kernel.isin(kernels or set(summary.kernel))
        times = ["time_ms", "time_low_ms", "time_high_ms"]
        return summary.assign(**{c: summary[c].where(~chosen, summary[c] * factor) for c in times})

    return change


def measured(seed: int, then: Change = unchanged) -> Change:
    """A run as H100s make it: each point off by 0.3%, of 60 samples that scatter by 0.7%."""
    random = np.random.default_rng(seed)

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        run = then(summary).copy()
        timed, times = run.status == "ok", []
        for time in run.time_ms[timed]:
            samples = time * random.normal(1, 0.003) * random.lognormal(0, 0.007, 60)
            times.append((np.median(samples), *median_interval(samples)))
        run.loc[timed, ["time_ms", "time_low_ms", "time_high_ms"]] = times  # one by one is slow
        return run

    return change


def pair(
    folder: Path, a: Change = unchanged, b: Change = unchanged,
    device_b: dict[str, Any] | None = None, **more: Any,
) -> tuple[Path, Path]:  # fmt: skip
    """Two data sets of a few kernels that differ in what `a` and `b` do to their times."""
    for name, change, device in (("a", a, None), ("b", b, device_b)):
        made_up(folder / name, change=change, device=device, **{"kernels": FEW} | more)
        path = folder / name / "ratios.csv"
        ratios = read_table("ratios.csv", path)
        ends = {"ratio_low": ratios.ratio * 0.997, "ratio_high": ratios.ratio * 1.003}
        write_table(ratios.assign(**ends), "ratios.csv", path)
    return folder / "a", folder / "b"


def table_of(command: Command, folder: Path, *arguments: object) -> pd.DataFrame:
    """The --csv of a comparison, whatever its outcome."""
    path = folder / "changes.csv"
    assert command("compare", *arguments, "--csv", path).err == ""
    return pd.read_csv(path, dtype={"k": "Int64"}, converters={"baseline": str})


def side(low: float, value: float, high: float, **columns: Any) -> pd.DataFrame:
    """One of the two tables of a comparison: a point of a millisecond's time."""
    identity = dict.fromkeys(KEY, "x") | {"m": 8, "n": 8, "k": 8, "baseline": ""}
    row = identity | {"value": value, "low": low, "high": high, "blur": 0.0}
    return pd.DataFrame([row | columns])


# The verdicts.


def slower_in(told: Outcome) -> set[str]:
    """The variants that a comparison calls slower."""
    return {*re.findall(r"^(\S+) +slower ", told.out, re.MULTILINE)}


@pytest.mark.parametrize("what", VALUES)
def test_two_runs_that_differ_by_noise_are_the_same(
    command: Command, tmp_path: Path, what: str
) -> None:
    folders = pair(tmp_path, measured(1), measured(2), shapes=LARGE)
    points = table_of(command, tmp_path, *folders, "--what", what)
    assert len(points) >= 36
    assert (points.verdict == "same").mean() >= 0.95
    told = command("compare", *folders, "--what", what)
    assert told.code == 0
    assert told.out.strip().endswith("kernels slower: none")


@pytest.mark.parametrize("what", VALUES)
def test_a_kernel_slowed_by_3_percent_is_caught_and_nothing_else(
    command: Command, tmp_path: Path, what: str
) -> None:
    folders = pair(tmp_path, measured(1), measured(2, scaled(1.03, "shared")), shapes=LARGE)
    told = command("compare", *folders, "--what", what)
    assert told.code == 1
    assert told.err == ""
    assert re.search(r"kernels slower: 2 of \d+$", told.out.splitlines()[3])
    assert slower_in(told) == {*SHARED}
    assert ("beside cublas_sgemm" in told.out) == (what == "ratios")
    assert max(map(len, told.out.splitlines()[3:])) <= 100


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.981, 1.019, "same"),
        (1.021, 1.03, "slower"),
        (0.97, 0.98, "faster"),
        (1.0, 1.021, "unclear"),
        (0.979, 1.0, "unclear"),
        (0.9, 1.1, "unclear"),
        (math.nan, math.nan, "unclear"),
    ],
)
def test_a_verdict_is_where_the_interval_lies(low: float, high: float, verdict: str) -> None:
    change = pd.DataFrame({"change_low": [low], "change_high": [high], "allowed": [1.02]})
    assert judged(change).verdict.item() == verdict


def test_a_faster_kernel_is_named_and_is_no_failure(command: Command, tmp_path: Path) -> None:
    told = command("compare", *pair(tmp_path, b=scaled(0.9, "shared")))
    assert told.code == 0
    assert re.search(rf"^{SHARED[1]} +faster +-10\.0% ", told.out, re.MULTILINE)
    assert "kernels slower: none" in told.out


def test_a_change_and_its_interval_by_hand() -> None:
    [point] = compare_points(side(9.9, 10, 10.2), side(10.8, 11, 11.1), 0.02).itertuples()
    assert point.change == pytest.approx(1.1)
    below = math.hypot(math.log(11 / 10.8), math.log(10.2 / 10))
    above = math.hypot(math.log(11.1 / 11), math.log(10 / 9.9))
    assert point.change_low == pytest.approx(1.1 * math.exp(-below))
    assert point.change_high == pytest.approx(1.1 * math.exp(above))
    assert point.verdict == "slower"


def test_the_interval_of_a_change_covers_it_19_times_of_20() -> None:
    """And not always: the quotients of the medians' interval ends would cover 99%."""
    random, sides = np.random.default_rng(2026), ([], [])
    for i in range(1000):
        for rows in sides:
            samples = random.lognormal(0, 0.5, 25)
            low, high = median_interval(samples)
            rows.append(side(low, float(np.median(samples)), high, variant=str(i)))
    points = compare_points(*map(pd.concat, sides), 0.02)
    covered = ((points.change_low <= 1) & (points.change_high >= 1)).mean()
    assert 0.94 <= covered <= 0.98


@pytest.mark.parametrize(("time_ms", "verdict"), [(0.008, "same"), (0.8, "slower")])
def test_what_the_timer_cannot_tell_is_the_same(
    command: Command, tmp_path: Path, time_ms: float, verdict: str
) -> None:
    """4% of 8 µs is less than the timer's step; of 0.8 ms it is not."""

    def exactly(time_ms: float) -> Change:
        times = {"time_low_ms": time_ms, "time_ms": time_ms, "time_high_ms": time_ms}
        return lambda summary: summary.assign(**times)

    folders = pair(tmp_path, exactly(time_ms), exactly(1.04 * time_ms), kernels=["naive"])
    points = table_of(command, tmp_path, *folders)
    assert set(points.verdict) == {verdict}


def test_a_wider_tolerance_forgives_more(command: Command, tmp_path: Path) -> None:
    folders = pair(tmp_path, b=scaled(1.04))
    assert command("compare", *folders).code == 1
    told = command("compare", *folders, "--tolerance", 0.1)
    assert told.code == 0
    assert "0 slower, 0 unclear; kernels slower: none" in told.out


def test_a_point_without_an_interval_is_unclear_and_counted(
    command: Command, tmp_path: Path
) -> None:
    def few_samples(summary: pd.DataFrame) -> pd.DataFrame:
        few = (summary.kernel == "shared") & (summary.n == 1024)
        ends = {c: summary[c].where(~few) for c in ("time_low_ms", "time_high_ms")}
        return summary.assign(**ends)

    folders = pair(tmp_path, b=few_samples)
    points = table_of(command, tmp_path, *folders)
    assert set(points[(points.kernel == "shared") & (points.n == 1024)].verdict) == {"unclear"}
    assert "4 unclear (4 with too few samples for an interval)" in command("compare", *folders).out


# The variant as a whole.


def points_of(changed: list[tuple[float, float, float]], blur: float = 0.0) -> pd.DataFrame:
    """Compared points of one variant whose reference took exactly 1 ms."""
    a = [side(1, 1, 1, n=n) for n in range(len(changed))]
    b = [side(*ends, n=n, blur=blur) for n, ends in enumerate(changed)]
    return compare_points(pd.concat(a), pd.concat(b), 0.02)


def test_a_variants_change_is_the_geometric_mean_by_hand() -> None:
    [whole] = compare_variants(points_of([(1.9, 2, 2.2), (7.9, 8, 8.4)]), 0.02).itertuples()
    assert whole.change == pytest.approx(4)
    assert whole.resolved == 2
    below = math.hypot(math.log(2 / 1.9), math.log(8 / 7.9)) / 2
    above = math.hypot(math.log(2.2 / 2), math.log(8.4 / 8)) / 2
    assert whole.change_low == pytest.approx(4 * math.exp(-below))
    assert whole.change_high == pytest.approx(4 * math.exp(above))
    assert (whole.verdict, whole.slower, whole.same) == ("slower", 2, 0)


def test_a_mean_is_allowed_less_than_a_point_down_to_its_half() -> None:
    slow = (1.0149, 1.015, 1.0151)
    verdicts = {n: compare_variants(points_of([slow] * n), 0.02).verdict.item() for n in (1, 4, 16)}
    assert verdicts == {1: "same", 4: "slower", 16: "slower"}
    less = (1.0089, 1.009, 1.0091)
    assert compare_variants(points_of([less] * 16), 0.02).verdict.item() == "same"


def test_points_too_short_for_the_timer_have_no_part_in_the_mean() -> None:
    short = points_of([(2, 2, 2)], blur=0.03).assign(n=99)
    long = points_of([(1, 1, 1), (1, 1, 1)], blur=0.01)
    assert compare_variants(pd.concat([long, short]), 0.02).change.item() == 1
    [alone] = compare_variants(short, 0.02).itertuples()
    assert math.isnan(alone.change)
    assert alone.verdict == "unclear"


def test_a_variant_without_a_mean_says_why(command: Command, tmp_path: Path) -> None:
    folders = pair(tmp_path, kernels=["naive"], shapes={"gemm": [32, 320]})
    told = command("compare", *folders)
    assert told.code == 0
    assert re.search(r"^naive/32 +unclear +– +– +– +\d", told.out, re.MULTILINE)
    assert "–: no point has both an interval and a time long enough" in told.out


# Which points, of which devices.


def test_points_are_joined_by_every_name_of_their_identity(
    command: Command, tmp_path: Path
) -> None:
    """A row of another cache, dtype or k is another point."""
    folders = pair(tmp_path, kernels=["naive_rect"], shapes={"gemm": ["640x640x64", "640x640x640"]})
    points = table_of(command, tmp_path, *folders)
    assert len(points) == 4
    assert np.allclose(points.change, 1)
    assert not points.duplicated(KEY).any()


def test_rows_that_failed_on_one_side_are_not_compared(command: Command, tmp_path: Path) -> None:
    def failing(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.assign(status=summary.status.where(summary.kernel != "shared", "failed"))

    points = table_of(command, tmp_path, *pair(tmp_path, b=failing))
    assert "shared" not in set(points.kernel)
    assert "naive" in set(points.kernel)


def test_points_missing_in_b_are_counted_in_a_line(command: Command, tmp_path: Path) -> None:
    def fewer(summary: pd.DataFrame) -> pd.DataFrame:
        return summary[(summary.kernel == "naive") | (summary.n == 640)]

    folders = pair(tmp_path, b=fewer, kernels=["naive", "shared"], shapes={"gemm": [640, 1024]})
    told, back = command("compare", *folders), command("compare", *reversed(folders))
    assert told.code == 0
    lacking = f"B lacks 4 of A's 16 points: 2 of {SHARED[0]}, 2 of {SHARED[1]}"
    assert lacking in told.out.splitlines()
    assert "lacks" not in back.out


def test_cpu_variants_are_compared_only_where_there_is_no_gpu(
    command: Command, tmp_path: Path
) -> None:
    with_gpu = table_of(command, tmp_path, *pair(tmp_path / "gpu"))
    assert "cpu_loop" not in set(with_gpu.kernel)
    without = pair(tmp_path / "cpu", b=scaled(2), gpu=False)
    told = command("compare", *without)
    assert told.code == 1
    assert "compared: times on Imaginary CPU" in told.out
    assert slower_in(told) == {"cpu_loop"}


def test_unlike_devices_are_compared_by_ratios(command: Command, tmp_path: Path) -> None:
    """A card twice as fast, on which one kernel falls behind the library."""
    slower = lambda summary: scaled(0.5)(scaled(1.1, "shared")(summary))  # noqa: E731
    folders = pair(tmp_path, b=slower, device_b=OTHER_CARD)
    told = command("compare", *folders)
    assert told.code == 1
    assert "relative to the library, because the devices are of different models" in told.out
    assert slower_in(told) == {*SHARED}
    points = table_of(command, tmp_path, *folders)
    assert set(points.baseline) == {"cublas_sgemm", "cublas_dsyrk"}
    shared = points[points.kernel == "shared"]
    assert np.allclose(shared.change, 1.1)
    assert np.allclose(points[points.kernel != "shared"].change, 1)


def test_a_folder_of_data_sets_stands_for_that_of_the_device(
    command: Command, tmp_path: Path
) -> None:
    published = tmp_path / "published"
    made_up(published / "another-gpu", kernels=FEW, device=OTHER_CARD)
    made_up(published / "imaginary-gpu", kernels=FEW)
    made_up(tmp_path / "new", kernels=FEW)
    told = command("compare", published, tmp_path / "new")
    assert told.out.startswith(f"A {published / 'imaginary-gpu'}: Imaginary GPU · 2026-01-02")
    assert "compared: times on Imaginary GPU" in told.out
    (published / "imaginary-gpu" / "device.json").unlink()
    told = command("compare", published, tmp_path / "new")
    assert told.out.startswith(f"A {published / 'another-gpu'}: Another GPU")
    assert "different models" in told.out


def test_a_card_that_throttled_thermally_is_named(command: Command, tmp_path: Path) -> None:
    folders = pair(tmp_path, b=lambda summary: summary.assign(throttled="sw_thermal"))
    a, b = command("compare", *folders).out.splitlines()[:2]
    assert not a.endswith("throttled thermally")
    assert b.endswith("the card throttled thermally")


# What cannot be compared.


# What is written.


def test_the_table_has_every_point_with_both_sides(command: Command, tmp_path: Path) -> None:
    folders = pair(tmp_path, b=scaled(1.5))
    points = table_of(command, tmp_path, *folders)
    assert list(points.columns) == TABLE
    [found] = points[(points.variant == SHARED[0]) & (points.n == 640) & (points.cache == "hot")
                     ].itertuples()  # fmt: skip
    summary = read_table("summary.csv", folders[0] / "summary.csv")
    [row] = summary[(summary.variant == SHARED[0]) & (summary.n == 640) & (summary.cache == "hot")
                    & (summary.phase == "kernel")].itertuples()  # fmt: skip
    assert (found.value_a, found.low_a, found.high_a) == pytest.approx(
        (row.time_ms, row.time_low_ms, row.time_high_ms)
    )
    assert found.value_b == pytest.approx(1.5 * row.time_ms)
    assert found.change == pytest.approx(1.5)
    step = changes.RESOLUTION_MS / 2 * (1 / found.value_a + 1 / found.value_b)
    assert found.allowed == pytest.approx(1 + changes.TOLERANCE + step)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_figure_is_of_the_format_that_is_asked_for(
    command: Command, tmp_path: Path, kind: str
) -> None:
    folders = pair(tmp_path)
    for name in ("one", "two"):
        assert command("compare", *folders, "--figure", tmp_path / f"{name}.{kind}").code == 0
    drawn = {file.name: file.read_bytes() for file in tmp_path.glob("*.*")}
    assert set(drawn) == {f"one.{kind}", f"two.{kind}"}
    assert drawn[f"one.{kind}"] == drawn[f"two.{kind}"]


def test_the_figure_has_a_line_per_kernel_and_names_both_sides(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive", "shared"])
    a, b = (VALUES["times"](results) for _ in "ab")
    b.loc[b.variant == SHARED[0], ["value", "low", "high"]] *= 1.21
    points = compare_points(a, b, 0.02)
    figure = draw_changes(points, results, "times", 0.02, ["the one", "the other"])
    [ax] = figure.axes
    lines = {line.get_label(): line for line in ax.get_lines()}
    assert {"naive", "shared"} <= set(lines)
    assert lines["naive"].get_xdata().tolist() == pytest.approx([32, 320, 640, 1024])
    assert np.allclose(lines["naive"].get_ydata(), 1)
    assert np.allclose(lines["shared"].get_ydata(), 1.1)  # of 1.21 and 1
    [bars] = ax.containers
    assert len(bars.lines[0].get_xdata()) == (points.verdict == "slower").sum() > 0
    words = figure.get_supxlabel()
    assert "A: the one" in words and "B: the other" in words and "±2.0%" in words


def test_the_figure_has_a_panel_per_operation_in_doublings_where_changes_are_large(
    tmp_path: Path,
) -> None:
    results = made_up(tmp_path, kernels=["naive", "shared", "gram_naive"])
    a, b = (VALUES["times"](results) for _ in "ab")
    b.loc[b.variant == SHARED[0], ["value", "low", "high"]] *= 40
    figure = draw_changes(compare_points(a, b, 0.02), results, "times", 0.02, ["one", "other"])
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "C = A·B in float32", "C = AᵀA in float64",
    ]  # fmt: skip
    assert [ax.get_yscale() for ax in figure.axes] == ["log", "linear"]
