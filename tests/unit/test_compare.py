"""Comparing data sets: what is within the intervals is the same, and 3% is slower."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import DEVICE, Change, made_up, where
from support import Command

from matmul_sweep.experiment.dataset.changes import (
    KEY,
    TABLE,
    VALUES,
    compare_points,
    compare_variants,
    judged,
)
from matmul_sweep.experiment.dataset.tables import TIMES

FEW = ["cpu_loop", "naive", "shared", "cublas_sgemm", "gram_naive", "cublas_dsyrk"]
SHARED = ["shared/32", "shared/16"]
OTHER_CARD = DEVICE | {"gpu": "Another GPU"}


def unchanged(summary: pd.DataFrame) -> pd.DataFrame:
    return summary


def scaled(factor: float, *kernels: str, columns: Sequence[str] = TIMES) -> Change:
    """Times of these kernels, or of all, times `factor`."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        chosen = summary.kernel.isin(kernels or set(summary.kernel))
        times = {c: summary[c].where(~chosen, summary[c] * factor) for c in columns}
        return summary.assign(**times)

    return change


def fewer(summary: pd.DataFrame) -> pd.DataFrame:
    return summary.query("kernel == 'naive' or n == 640")


def pair(
    folder: Path, a: Change = unchanged, b: Change = unchanged,
    device_b: dict[str, Any] | None = None, **more: Any,
) -> tuple[Path, Path]:  # fmt: skip
    """Two data sets of a few kernels that differ in what `a` and `b` do to their times."""
    for name, change, device in (("a", a, None), ("b", b, device_b)):
        made_up(folder / name, change=change, device=device, **{"kernels": FEW} | more)
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


# What a comparison tells: how two sets differ, with which options they are compared, the variants
# that are slower, and lines of the text, as regular expressions.
COMPARED: list[tuple[dict[str, Any], list[object], set[str], list[str]]] = [
    ({}, [], set(), ["kernels slower: none$"]),
    *(
        ({"b": scaled(1.03, "shared")}, ["--what", what], {*SHARED}, [r"kernels slower: 2 of \d+$"])
        for what in VALUES
    ),
    ({"b": scaled(1.1, "shared")}, ["--what", "ratios"], {*SHARED}, ["^beside cublas_sgemm$"]),
    ({"b": scaled(0.9, "shared")}, [], set(),
     [rf"^{SHARED[1]} +faster +-10\.0% ", "kernels slower: none"]),
    ({"b": scaled(1.04, "shared")}, ["--tolerance", 0.1], set(),
     ["0 slower, 0 unclear; kernels slower: none"]),
    ({"b": scaled(math.nan, "shared", columns=TIMES[1:])}, [], set(),
     [r" 16 unclear \(16 with too few samples for an interval\)"]),
    ({"kernels": ["naive"], "shapes": {"gemm": [32, 320]}}, [], set(),
     [r"^naive/32 +unclear +– +– +– +\d", "^–: no point has both an interval and a time long"]),
    ({"b": fewer, "kernels": ["naive", "shared"], "shapes": {"gemm": [640, 1024]}}, [], set(),
     [f"^B lacks 4 of A's 16 points: 2 of {SHARED[0]}, 2 of {SHARED[1]}$"]),
    ({"a": fewer, "kernels": ["naive", "shared"], "shapes": {"gemm": [640, 1024]}}, [], set(),
     [r"^(?!.*lacks)12 points: "]),
    ({"b": scaled(2), "gpu": False}, [], {"cpu_loop"}, ["^compared: times on Imaginary CPU$"]),
    ({"b": lambda summary: scaled(0.5)(scaled(1.1, "shared")(summary)), "device_b": OTHER_CARD},
     [], {*SHARED}, ["relative to the library, because the devices are of different models"]),
    ({"b": lambda summary: summary.assign(throttled="sw_thermal")}, [], set(),
     [r"^A .*commit 0123456$", "^B .*the card throttled thermally$"]),
]  # fmt: skip


@pytest.mark.parametrize(("sets", "options", "slower", "said"), COMPARED)
def test_a_comparison_tells(command, tmp_path, sets, options, slower, said):
    told = command("compare", *pair(tmp_path, **sets), *options)
    assert (told.code, told.err) == (bool(slower), "")
    assert {*re.findall(r"^(\S+) +slower ", told.out, re.MULTILINE)} == slower
    for line in said:
        assert re.search(line, told.out, re.MULTILINE), told.out
    assert all(len(line) <= 100 for line in told.out.splitlines()[4:])


# The verdicts.


def test_a_verdict_is_where_the_interval_lies():
    verdicts = {
        (0.981, 1.019): "same", (1.021, 1.03): "slower", (0.97, 0.98): "faster",
        (1.0, 1.021): "unclear", (0.979, 1.0): "unclear", (math.nan, math.nan): "unclear",
    }  # fmt: skip
    changed = pd.DataFrame([*verdicts], columns=["change_low", "change_high"])
    assert judged(changed.assign(allowed=1.02)).verdict.to_list() == [*verdicts.values()]


def test_a_change_and_its_interval_by_hand():
    [point] = compare_points(side(9.9, 10, 10.2), side(10.8, 11, 11.1), 0.02).itertuples()
    assert point.change == pytest.approx(1.1)
    below = math.hypot(math.log(11 / 10.8), math.log(10.2 / 10))
    above = math.hypot(math.log(11.1 / 11), math.log(10 / 9.9))
    assert point.change_low == pytest.approx(1.1 * math.exp(-below))
    assert point.change_high == pytest.approx(1.1 * math.exp(above))
    assert point.verdict == "slower"


# The variant as a whole.


def points_of(changed: list[tuple[float, float, float]], blur: float = 0.0) -> pd.DataFrame:
    """Compared points of one variant whose reference took exactly 1 ms."""
    a = [side(1, 1, 1, n=n) for n in range(len(changed))]
    b = [side(*ends, n=n, blur=blur) for n, ends in enumerate(changed)]
    return compare_points(pd.concat(a), pd.concat(b), 0.02)


def test_a_variants_change_is_the_geometric_mean_by_hand():
    [whole] = compare_variants(points_of([(1.9, 2, 2.2), (7.9, 8, 8.4)]), 0.02).itertuples()
    assert whole.change == pytest.approx(4)
    assert whole.resolved == 2
    below = math.hypot(math.log(2 / 1.9), math.log(8 / 7.9)) / 2
    above = math.hypot(math.log(2.2 / 2), math.log(8.4 / 8)) / 2
    assert whole.change_low == pytest.approx(4 * math.exp(-below))
    assert whole.change_high == pytest.approx(4 * math.exp(above))
    assert (whole.verdict, whole.slower, whole.same) == ("slower", 2, 0)


def test_a_mean_is_allowed_less_than_a_point_down_to_its_half():
    slow, less = (1.0149, 1.015, 1.0151), (1.0089, 1.009, 1.0091)
    verdicts = [
        compare_variants(points_of([ends] * n), 0.02).verdict.item()
        for ends, n in ((slow, 1), (slow, 4), (slow, 16), (less, 16))
    ]
    assert verdicts == ["same", "slower", "slower", "same"]


def test_points_too_short_for_the_timer_have_no_part_in_the_mean():
    short = points_of([(2, 2, 2)], blur=0.03).assign(n=99)
    long = points_of([(1, 1, 1), (1, 1, 1)], blur=0.01)
    assert compare_variants(pd.concat([long, short]), 0.02).change.item() == 1
    [alone] = compare_variants(short, 0.02).itertuples()
    assert math.isnan(alone.change)
    assert alone.verdict == "unclear"


# Which points, of which devices, and what is written.


def test_points_are_joined_by_every_name_of_their_identity(command, tmp_path):
    """A row of another cache, dtype or k is another point, and one that failed is none."""
    shapes = {"gemm": ["640x640x64", "640x640x640"]}
    failing = where("kernel == 'shared'", status="failed")
    folders = pair(tmp_path, b=failing, kernels=["naive_rect", "shared"], shapes=shapes)
    points = table_of(command, tmp_path, *folders)
    assert [*points.columns] == TABLE and len(points) == 4
    assert np.allclose(points.change, 1)
    assert not points.duplicated(KEY).any()
    assert "cpu_loop" not in set(table_of(command, tmp_path, *pair(tmp_path)).kernel)


def test_a_folder_of_data_sets_stands_for_that_of_the_device(command, tmp_path):
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
