"""Which points of a data set are compared, whatever its catalogue lacks."""

import pandas as pd
from made_up_data import DEVICE, made_up, where

from matmul_sweep.experiment.dataset.selection import (
    at,
    fastest_own,
    leading_own,
    limited,
    shapes_of,
)
from matmul_sweep.experiment.dataset.tables import TIMES
from matmul_sweep.experiment.dataset.words import POWER, THERMAL
from matmul_sweep.operations.gemm import Gemm

HEAT = THERMAL[0]
BOTH = f"{POWER}+{HEAT}"


def test_a_card_is_at_its_power_limit_where_it_draws_that_much_at_a_lower_clock():
    rows = [
        ("alone", 690.0, 1700.0, "", POWER),
        ("alone", 400.0, 1700.0, "", ""),
        ("alone", 690.0, 1980.0, "", ""),
        ("hot", 690.0, 1900.0, BOTH, BOTH),
        ("hot", 690.0, 1900.0, "", ""),
        ("hot", 141.0, 1965.0, POWER, ""),
        ("hot", 552.0, 1695.0, POWER, POWER),
        ("hot", 690.0, 1980.0, f"{BOTH}+hw_slowdown", f"{HEAT}+hw_slowdown"),
        ("hot", 300.0, None, POWER, ""),
        ("hot", None, 1965.0, POWER, POWER),
    ]
    summary = pd.DataFrame(rows, columns=["cache", "power_w", "sm_clock_mhz", "throttled", "said"])
    card = {"clock_mhz": 1980, "power_limit_w": 700.0}
    assert limited(summary, card).tolist() == summary.said.tolist()


def test_alone_a_dispatch_that_comes_near_the_fastest_kernel_stands_for_it(tmp_path):
    results = made_up(tmp_path, kernels=["streamed", "sgemm", "cublas_sgemm"])
    for rate, leads in ((98.0, "sgemm"), (90.0, "streamed")):
        rows = pd.DataFrame({"kernel": ["streamed", "sgemm"], "tflops": [100.0, rate]})
        assert fastest_own(results, rows.assign(cache="alone")).kernel.item() == leads


def alone_in_two_sweeps(summary: pd.DataFrame) -> pd.DataFrame:
    """A change that moves what was timed alone, up to 640, to a sweep of its own, and repeats
    `naive` in one before it and in one of drawn shapes, where it is faster."""
    own = summary[(summary.cache == "alone") & (summary.n <= 640)].assign(sweep="gemm_alone")
    few = own[own.kernel == "naive"].assign(sweep="few", tflops=99.0)
    drawn = few.assign(sweep="drawn")
    return pd.concat([summary[summary.cache == "hot"], few, drawn, own], ignore_index=True)


def test_what_was_timed_alone_leads_whatever_its_sweep_is_called(tmp_path):
    sweeps = dict.fromkeys(("gemm_alone", "few"), LONGER) | {"drawn": CONFIGURED["drawn"]}
    device = DEVICE | {"configuration": DEVICE["configuration"] | {"sweeps": SWEEPS | sweeps}}
    options = {"kernels": ["naive", "shared", "cublas_sgemm"], "shapes": {"gemm": (320, 640, 1024)}}
    results = made_up(tmp_path, **options, caches=["hot", "alone"], device=device,
                      change=alone_in_two_sweeps).of("gemm")  # fmt: skip
    assert results.compared == Gemm(640, 640, 640) and max(results.timed().n) == 1024
    assert set(results.timed().cache) == {"hot"}
    assert set(results.leads.cache) == {"alone"} and set(results.leads.sweep) == {"gemm_alone"}
    assert not results.leads.duplicated(["variant", "n"]).any()
    here = results.at_compared(results.leads)
    (best,) = leading_own(results).itertuples()
    assert best.tflops == here[here.kernel.isin(["naive", "shared"])].tflops.max() < 99


def test_a_power_limit_that_left_the_clock_alone_is_no_limit(tmp_path):
    capped, device = where("n > 0", throttled=POWER), DEVICE | {"clock_mhz": 1980}
    rows = made_up(tmp_path, kernels=["naive"], device=device, change=capped).launches
    assert set(rows.throttled) == {""}


SWEEPS = DEVICE["configuration"]["sweeps"]
LONGER = {"operation": "gemm", "shapes": [1024], "caches": ["hot"]}
CONFIGURED = {
    "long": LONGER | {"sampling": {"seconds": 3}},
    "longest": LONGER | {"sampling": {"seconds": 9}},
    "as_long": LONGER,
    "drawn": LONGER | {"shapes": {"random": 1}, "sampling": {"seconds": 99}},
    "lesson": LONGER | {"without_gpu": True},
}


def with_sweeps(summary: pd.DataFrame) -> pd.DataFrame:
    """A change that repeats the hot kernel rows at 1024 in more sweeps, each slower than the one
    before; what the longest has of shared failed, and both long ones have no library."""
    own = summary[(summary.n == 1024) & (summary.phase == "kernel") & (summary.cache == "hot")]
    more = [
        own.assign(sweep=name, **{column: own[column] * factor for column in TIMES})
        for factor, name in enumerate(CONFIGURED, 2)
    ]
    more[1] = more[1].assign(status=(more[1].kernel == "shared").map({True: "failed", False: "ok"}))
    more[:2] = [rows[rows.kernel != "cublas_sgemm"] for rows in more[:2]]
    more.append(more[1].assign(n=2048))  # of no point of the operation's own sweep
    return pd.concat([summary, *more], ignore_index=True)


def test_the_longest_sweep_of_a_point_speaks(tmp_path):
    device = DEVICE | {"configuration": DEVICE["configuration"] | {"sweeps": SWEEPS | CONFIGURED}}
    options = {"kernels": ["naive", "shared", "cublas_sgemm"], "shapes": {"gemm": (320, 1024)}}
    view = made_up(tmp_path, **options, device=device, change=with_sweeps).of("gemm")
    hot = view.ratios[view.ratios.cache == "hot"]
    for rows, baseline in ((view.timed(), []), (hot, ["baseline"])):
        assert not rows.duplicated(["variant", "n", *baseline]).any()
    spoken = view.timed().groupby(["kernel", "n"]).sweep.unique().map(list).to_dict()
    assert spoken["naive", 320] == spoken["shared", 320] == ["gemm"]
    assert (spoken["naive", 1024], spoken["shared", 1024]) == (["longest"], ["long"])
    assert spoken["cublas_sgemm", 1024] == ["lesson"]
    *_, large = shapes_of(view.timed())
    assert set(at(view.summary, large).query("phase == 'h2d'").sweep) == {"gemm"}
