"""The ladders: tiles are covered, gains follow the intervals."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import DEVICE, Change, made_up, the_catalogue
from support import Entry, WriteCatalogue
from test_tables import typeset

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.layout import WARP, Layout
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.report.facts.ladder import ladder
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.errors import UserError

GEMM = {"gemm": (320, 1024)}
TIMES = ["time_ms", "time_low_ms", "time_high_ms"]
# A layout is that of a kernel; the catalogue refuses a tiling that it does not cover.
LAID_OUT = {v.kernel.name: v for v in the_catalogue().buildable.values() if v.layout}


def results_of(layout: Layout, thread: int) -> set[tuple[int, int]]:
    """The elements of its block's tile that a thread computes."""
    region, lane = divmod(thread, WARP) if layout.warp else (0, thread)
    corner = divmod(region, layout.tile[1] // layout.region[1])
    place = divmod(lane, layout.region[1] // layout.thread[1])
    rows, columns = (
        [
            corner[d] * layout.region[d] + place[d] * layout.piece[d] + i * layout.step[d] + e
            for i in range(layout.pieces[d])
            for e in range(layout.piece[d])
        ]
        for d in (0, 1)
    )
    return set(itertools.product(rows, columns))


@pytest.mark.parametrize("variant", LAID_OUT.values(), ids=LAID_OUT)
def test_threads_cover_their_tile_once(variant: Variant) -> None:
    layout = variant.layout
    threads = layout.threads // layout.teams
    covered = [place for t in range(threads) for place in results_of(layout, t)]
    assert sorted(covered) == list(itertools.product(*map(range, layout.tile)))


@pytest.mark.parametrize(
    ("layout", "reason"),
    [
        ({"thread": [2, 2]}, "256 threads of 2×2 results do not cover a tile of 16×16"),
        ({"thread": [3, 1]}, "3×1 does not divide 16×16"),
        ({"piece": [1, 32]}, "1×32 does not divide 16×16"),
        ({"warp": [16, 16]}, "32 threads of 1×1 results do not cover a tile of 16×16"),
    ],
)
def test_a_layout_that_does_not_cover_the_tile_is_refused(
    entry: Entry, write_catalogue: WriteCatalogue, layout: dict[str, Any], reason: str
) -> None:
    with pytest.raises(UserError, match=reason):
        load_catalogue(write_catalogue({"mine": entry(layout=layout)}))


def steps(folder: Path, **options: Any) -> dict[str, dict[str, Any]]:
    """The steps of A·B by name."""
    return {step["name"]: step for step in ladder(made_up(folder, **options), "gemm")["steps"]}


def test_resources_are_those_of_the_record_and_of_the_launch(tmp_path: Path) -> None:
    own = steps(tmp_path, kernels=["pipelined"], shapes=GEMM)["pipelined"]["resources"]
    assert own["registers"]["value"] == 32
    threads = math.prod(the_catalogue().variant("pipelined").block)
    assert own["blocks"]["value"] == 0.5 * 2048 / threads


@pytest.mark.parametrize("device", [{}, DEVICE | {"compute_capability": "99.0"}])
def test_of_a_device_nobody_knows_the_resident_blocks_are_not_told(
    tmp_path: Path, device: dict[str, Any]
) -> None:
    own = steps(tmp_path, kernels=["shared"], shapes=GEMM, device=device)["shared"]["resources"]
    assert own["blocks"] is None and own["occupancy"]["value"] == 0.5


def test_of_a_table_the_variant_is_shown_that_it_chose(tmp_path: Path) -> None:
    table, older = the_catalogue().variant("sgemm"), DEVICE | {"compute_capability": "7.5"}
    options = {"kernels": ["sgemm"], "shapes": {"gemm": (32, 4096)}}
    chosen = {arch: table.part(Gemm(4096, 4096, 4096), arch) for arch in ("sm_90", "sm_75")}
    for (arch, variant), device in zip(chosen.items(), (DEVICE, older), strict=True):
        own = steps(tmp_path / arch, **options, device=device)["sgemm"]
        assert own["ran"] == variant.name and own["layout"]["tile"] == variant.tile
    assert chosen["sm_90"] != chosen["sm_75"]  # its copies came with 8.0


def test_a_step_says_what_limits_it_as_far_as_its_counters_do(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive", "direct"], shapes=GEMM)
    found = {step["name"]: step for step in ladder(results, "gemm")["steps"]}
    small, large = found["naive"]["counters"]
    assert (small["size"], large["size"]) == ("512", "4096")
    assert (small["busy"], small["busiest"], small["wait"]) == ([], "memory", "barrier")
    assert large["busy"] == ["multiply", "issue"]
    assert large["multiply"]["value"] == pytest.approx(0.9)
    assert large["load_store"] is None
    assert found["naive"]["loop"]["multiply"]["value"] == 64
    assert found["direct"]["loop"] is None
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_without_counters_a_step_says_nothing_of_its_limit(tmp_path: Path) -> None:
    own = steps(tmp_path, kernels=["naive"], gpu=False, shapes=GEMM)["naive"]
    assert own["counters"] == [] and own["loop"] is not None


def timed(times: dict[str, tuple[float, float, float]]) -> Change:
    """A change that gives kernels a median and its ends at 1024."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        for kernel, ends in times.items():
            here = (summary.kernel == kernel) & (summary.n == 1024) & (summary.phase == "kernel")
            summary.loc[here, TIMES] = ends
        return summary

    return change


def test_a_gain_is_claimed_as_far_as_the_intervals_bear_it(tmp_path: Path) -> None:
    times = {
        "naive": (2.0, 1.9, 2.1),
        "shared": (1.0, 0.9, 1.1),
        "register_tile": (1.1, 1.0, 1.2),
        "vectors": (3.0, 2.9, 3.1),
        "pipelined": (2.999, 2.9989, 2.9991),
        "streamed": (1.0, np.nan, np.nan),
    }
    options = {"kernels": [*times, "cublas_sgemm"], "shapes": {"gemm": (1024,)}}
    results = made_up(tmp_path, **options, change=timed(times))
    found = {step["name"]: step["before"] for step in ladder(results, "gemm")["steps"]}
    assert found.pop("naive") is None
    assert {name: before["verdict"] for name, before in found.items()} == {
        "shared": "faster",
        "register_tile": "tie",
        "vectors": "slower",
        "pipelined": "same",
        "streamed": "unknown",
    }
    assert found["shared"]["quotient"]["value"] == 2
    ends = [end["value"] for end in found["shared"]["interval"]]
    assert ends == pytest.approx([1.9 / 1.1, 2.1 / 0.9])
    assert found["streamed"]["interval"] is None
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_a_gain_is_over_the_last_step_with_a_page_and_a_staircase_has_no_other_steps(
    tmp_path: Path,
) -> None:
    times = {"naive": 4.0, "naive_rect": 3.0, "shared": 2.0, "shared_rect": 1.5, "vectors": 1.6}
    own = {name: (time, time * 0.99, time * 1.01) for name, time in times.items()}
    options = {"kernels": [*times, "three_products", "cublas_sgemm"], "shapes": {"gemm": (1024,)}}
    found = ladder(made_up(tmp_path, **options, change=timed(own)), "gemm")
    steps = {step["name"]: step for step in found["steps"]}
    bases = {name: steps[name]["before"]["from"]["title"] for name in [*times][1:]}
    assert bases == {"naive_rect": "naive", "shared": "naive", "shared_rect": "shared",
                     "vectors": "shared"}  # fmt: skip
    # The fastest has no page, and the halves bound by other units are left out.
    assert found["stairs"] == ["naive", "shared", "shared_rect", "vectors"]


def test_the_bound_of_a_step_is_what_its_loop_takes_longest_for(tmp_path: Path) -> None:
    results = made_up(tmp_path, shapes={"gemm": (1024,), "gram": (500,)})
    loops = {
        "naive": {"ffma": 16, "global_loads_32": 32, "shared_loads_128": 0},
        "register_tile": {"ffma": 64, "shared_loads_32": 16, "shared_loads_128": 0},
        "vectors": {"ffma": 64, "shared_loads_128": 4},
        "gram_naive": {"dfma": 16, "ffma": 0, "global_loads_64": 32, "shared_loads_128": 0},
        "gram_register_tile": {
            "dfma": 144,
            "ffma": 0,
            "shared_loads_64": 96,
            "shared_loads_128": 0,
        },
        "tiled_bf16": {"ffma": 0, "tensor": 32},
    }
    for kernel, counts in loops.items():
        rows = results.instructions.kernel == kernel
        results.instructions.loc[rows, [*counts]] = list(counts.values())
    found = {
        step["name"]: step["bound"]
        for operation in ("gemm", "gram", "gemm_bf16")
        for step in ladder(results, operation)["steps"]
    }
    assert {name: found[name]["what"] for name in [*loops][:-1]} == {
        "naive": "loads", "register_tile": "issue", "vectors": "issue", "gram_naive": "loads",
        "gram_register_tile": "loads",
    }  # fmt: skip
    shares = {name: found[name]["share"]["value"] for name in [*loops][:-1]}
    assert shares == pytest.approx({
        "naive": 4 / 32, "register_tile": 16 / 20, "vectors": 16 / 17,
        "gram_naive": 8 / 32 * 501 / 1000,  # it computes both triangles
        "gram_register_tile": 72 / 96,
    })  # fmt: skip
    naive = found["naive"]
    assert naive["rate"]["value"] == naive["share"]["value"] * DEVICE["fp32_peak_tflops"]
    (row,) = results.timed().query("variant == 'naive/32' and n == 1024").itertuples()
    assert naive["reached"]["value"] == pytest.approx(row.tflops / naive["rate"]["value"])


def test_tensor_cores_bound_a_step_by_their_peak_though_the_set_does_not_record_it(
    tmp_path: Path,
) -> None:
    """The facts of the card give it; a product of halves takes three of theirs."""
    card = {"multiprocessors": 100, "clock_mhz": 1000}
    results = made_up(
        tmp_path, shapes={"gemm": (1024,), "gemm_bf16": (1024,)}, device=DEVICE | card
    )
    tensor = results.instructions.kernel.isin(["tiled_bf16", "three_products"])
    results.instructions.loc[tensor, ["ffma", "tensor"]] = [0, 32]
    found = {
        step["name"]: step["bound"]
        for operation in ("gemm", "gemm_bf16")
        for step in ladder(results, operation)["steps"]
    }
    peak = 100 * 1000 * 2 * 2048 * 1e-6
    assert found["tiled_bf16"]["what"] == found["three_products"]["what"] == "tensor"
    assert found["tiled_bf16"]["rate"]["value"] == pytest.approx(peak)
    assert found["three_products"]["rate"]["value"] == pytest.approx(peak / 3)


def lost(kernel: str, least: int) -> Change:
    """A change by which a kernel's points from a size on failed."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        gone = (summary.kernel == kernel) & (summary.n >= least)
        summary = summary[~(gone & (summary.phase != "kernel"))].reset_index(drop=True)
        gone = (summary.kernel == kernel) & (summary.n >= least)
        summary = summary.astype({"reason": object})
        summary.loc[gone, ["status", "reason"]] = ["failed", "lost the device"]
        summary.loc[gone, [*TIMES, "tflops"]] = np.nan
        return summary

    return change


def test_a_step_without_a_time_says_why_and_is_stepped_over(tmp_path: Path) -> None:
    options = {"kernels": ["naive", "naive_rect", "shared"], "shapes": GEMM}
    own = steps(tmp_path, **options, change=lost("naive_rect", 1024))
    assert own["naive_rect"]["missing"] == "lost the device"
    assert own["naive_rect"]["rate"] is own["naive_rect"]["before"] is None
    assert own["naive_rect"]["layout"] is not None
    assert own["shared"]["before"]["from"]["title"] == "naive"


def test_a_step_for_few_rows_is_told_at_a_shape_of_its_own(tmp_path: Path) -> None:
    options = {"kernels": ["naive", "streamed", "thin", "narrow", "sgemm", "cublas_sgemm"]}
    shapes = {"gemm": (320, 1024, "1x64x64", "1x8192x8192", "1024x16x64")}
    times = {"naive": (3.0, 2.9, 3.1), "streamed": (2.0, 1.9, 2.1), "sgemm": (1.0, 0.9, 1.1)}
    results = made_up(tmp_path, **options, shapes=shapes, change=timed(times))
    found = ladder(results, "gemm")
    own = {step["name"]: step for step in found["steps"]}
    assert found["size"] == "1024"
    assert {name: step["size"] for name, step in own.items()} == {
        "naive": None, "streamed": None, "thin": "1×8192×8192", "narrow": "1024×16×64",
        "sgemm": None,
    }  # fmt: skip
    assert (own["thin"]["only_rows"], own["thin"]["missing"]) == (1, None)
    assert (own["thin"]["only_columns"], own["narrow"]["only_columns"]) == (0, 16)
    (row,) = results.timed().query("kernel == 'thin' and n == 8192").itertuples()
    assert own["thin"]["rate"]["value"] == row.tflops
    (share,) = own["thin"]["shares"]
    (pair,) = results.ratios.query("kernel == 'thin' and n == 8192 and cache == 'hot'").itertuples()
    assert share["ratio"]["value"] == pair.ratio
    assert own["thin"]["before"] is None
    assert own["sgemm"]["before"]["from"]["title"] == "streamed"
    assert [found["gain"][end]["title"] for end in ("from", "to")] == ["naive", "sgemm"]
    # Its threads are more than lie over a tile of one row: no picture shows lanes beside it.
    layout = own["thin"]["layout"]
    assert layout["lanes"][0] * layout["thread"][0] <= layout["tile"][0]
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_a_step_for_few_rows_that_has_no_time_says_why(tmp_path: Path) -> None:
    options = {"kernels": ["naive", "thin", "cublas_sgemm"]}
    own = steps(tmp_path / "squares", **options, shapes=GEMM)["thin"]
    assert (own["size"], own["only_rows"], own["rate"]) == (None, 1, None)
    assert own["missing"]
    shapes = {"gemm": (320, 1024, "1x8192x8192")}
    own = steps(tmp_path / "lost", **options, shapes=shapes, change=lost("thin", 8192))["thin"]
    assert (own["size"], own["only_rows"]) == ("1×8192×8192", 0)
    assert own["missing"] == "lost the device"
    own = steps(tmp_path / "cpu", gpu=False, **options, shapes=GEMM)["thin"]
    assert (own["only_rows"], own["missing"]) == (0, "there is no GPU on this machine")


def test_the_size_is_the_largest_with_intervals_of_most_kernels(tmp_path: Path) -> None:
    options = {"kernels": ["naive", "naive_rect", "shared"], "shapes": GEMM}
    unsure = timed({"naive": (1.0, np.nan, np.nan)})
    for name, change, size in (
        ("all", lambda summary: summary, "1024"),
        ("one failed", lost("naive", 1024), "1024"),
        ("one without an interval", unsure, "320"),
        ("none at all", lambda s: s.assign(time_low_ms=np.nan, time_high_ms=np.nan), "1024"),
    ):
        results = made_up(tmp_path / name, **options, change=change)
        assert ladder(results, "gemm")["size"] == size, name


def test_a_ladder_of_one_step_gains_nothing(tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["naive", "cublas_sgemm"], shapes=GEMM)
    found = ladder(results, "gemm")
    assert [step["name"] for step in found["steps"]] == ["naive"]
    assert found["gain"] is None
    assert ladder(results, "gram")["steps"] == []


def test_without_a_gpu_the_steps_are_still_told(tmp_path: Path) -> None:
    own = steps(tmp_path, kernels=["naive", "vectors"], gpu=False, shapes=GEMM)
    assert {step["missing"] for step in own.values()} == {"there is no GPU on this machine"}
    assert own["vectors"]["layout"] is not None


def test_a_kernel_that_the_catalogue_does_not_know_is_a_step_without_a_picture(
    tmp_path: Path,
) -> None:
    def change(summary: pd.DataFrame) -> pd.DataFrame:
        return summary.replace({"naive": "foreign", "naive/32": "foreign/1"})

    results = made_up(tmp_path, kernels=["naive", "shared"], shapes=GEMM, change=change)
    foreign = next(s for s in ladder(results, "gemm")["steps"] if s["name"] == "foreign")
    assert foreign["layout"] is foreign["ran"] is None
    assert foreign["rate"] is not None
    assert typeset(results, tmp_path).startswith(b"%PDF")
