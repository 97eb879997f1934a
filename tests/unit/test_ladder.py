"""The ladders: tiles are covered, gains follow the intervals."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import DEVICE, RESIDUES, Change, made_up, the_catalogue, where
from test_tables import typeset

from matmul_sweep.catalogue.architectures import WARP
from matmul_sweep.catalogue.layout import Layout
from matmul_sweep.experiment.dataset.tables import TIMES
from matmul_sweep.experiment.report.facts.ladder import gain, ladder

GEMM = {"gemm": (320, 1024)}
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
def test_threads_cover_their_tile_once(variant):
    layout = variant.layout
    threads = layout.threads // layout.teams
    covered = [place for t in range(threads) for place in results_of(layout, t)]
    assert sorted(covered) == list(itertools.product(*map(range, layout.tile)))


def steps(folder: Path, kernels: list[str], shapes: Any = GEMM, **options: Any) -> dict[str, Any]:
    """The steps of A·B by name."""
    found = ladder(made_up(folder, kernels=kernels, shapes=shapes, **options), "gemm")
    return {step["name"]: step for step in found["steps"]}


def test_a_step_that_only_a_dispatch_ran_alone_has_its_rate(tmp_path):
    def change(rows: pd.DataFrame) -> pd.DataFrame:
        return rows[(rows.kernel != "three_products") | (rows.cache == "hot")]

    options = {"caches": ["hot", "alone"], "change": change}
    kernels = ["streamed", "three_products", "sgemm_split"]
    found = steps(tmp_path, kernels, {"gemm": (4096,)}, **options)
    own, dispatch = found["three_products"], found["sgemm_split"]
    assert own["rate"] == dispatch["rate"] and "t" not in own["rate"]["limits"]
    assert dispatch["before"]["from"]["title"] == "streamed"  # not itself


def test_a_step_says_what_limits_it_as_far_as_its_counters_do(tmp_path):
    found = steps(tmp_path, ["naive", "direct"], {"gemm": (4096,)})
    expected = {"size": "4096", "busy": ["multiply", "issue"], "wait": "barrier",
                "multiply": pytest.approx(0.9), "load_store": None}  # fmt: skip
    counters = found["naive"]["counters"]
    assert {name: counters[name] for name in expected} == expected
    assert counters["tflops"] == found["naive"]["rate"]["value"]
    assert found["naive"]["loop"]["multiply"] == 64
    assert found["direct"]["loop"] is None


def timed(times: dict[str, tuple[float, float, float]]) -> Change:
    """A change that gives kernels a median, its ends and the rate that follows at 1024."""

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        for kernel, ends in times.items():
            here = (summary.kernel == kernel) & (summary.n == 1024) & (summary.phase == "kernel")
            summary.loc[here, TIMES] = ends
            summary.loc[here, "tflops"] = 2 * 1024**3 / ends[0] / 1e9
        return summary

    return change


# The median of each kernel with its ends, and what these say beside the step before it.
GAINS = {
    "naive": ((2.0, 1.9, 2.1), None),
    "shared": ((1.0, 0.9, 1.1), "faster"),
    "register_tile": ((1.1, 1.0, 1.2), "tie"),
    "vectors": ((3.0, 2.9, 3.1), "slower"),
    "pipelined": ((2.999, 2.9989, 2.9991), "same"),
    "streamed": ((1.0, np.nan, np.nan), "unknown"),
}


def test_a_gain_is_claimed_as_far_as_the_intervals_bear_it(tmp_path):
    change = timed({name: ends for name, (ends, _) in GAINS.items()})
    options = {"caches": ["alone"], "shapes": {"gemm": (1024,)}}
    results = made_up(tmp_path, kernels=[*GAINS], **options, change=change)
    found = {step["name"]: step["before"] for step in ladder(results, "gemm")["steps"]}
    verdicts = {name: before and before["verdict"] for name, before in found.items()}
    assert verdicts == {name: verdict for name, (_, verdict) in GAINS.items()}
    assert found["shared"]["quotient"] == 2
    assert found["shared"]["interval"] == pytest.approx([1.9 / 1.1, 2.1 / 0.9])
    assert found["streamed"]["interval"] is None
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_steps_are_compared_that_one_sweep_timed_alone_and_no_others(tmp_path):
    options = {"kernels": ["naive", "shared"], "shapes": GEMM, "caches": ["hot", "alone"]}
    results = made_up(tmp_path, **options)
    rows = results.of("gemm").leads.query("n == 1024")
    slow, fast = (rows[rows.kernel == name].iloc[0] for name in options["kernels"])
    assert gain(results, slow, fast)["quotient"] == slow.time_ms / fast.time_ms
    others = [fast.replace(fast.sweep, "another"), fast.replace("alone", "hot")]
    assert [gain(results, slow, other) for other in others] == [None, None]
    assert gain(results, slow.replace("alone", "hot"), others[1]) is None


def test_a_gain_is_over_the_last_step_with_a_page_and_a_staircase_has_no_other_steps(tmp_path):
    times = {"naive": 4.0, "naive_rect": 3.0, "shared": 2.0, "shared_rect": 1.5, "vectors": 1.6}
    own = {name: (time, time * 0.99, time * 1.01) for name, time in times.items()}
    options = {"shapes": {"gemm": (1024,)}, "caches": ["hot", "alone"], "change": timed(own)}
    kernels = [*times, "three_products", "cublas_sgemm"]
    found = ladder(made_up(tmp_path, kernels=kernels, **options), "gemm")
    steps = {step["name"]: step for step in found["steps"]}
    bases = {name: steps[name]["before"]["from"]["title"] for name in [*times][1:]}
    assert bases == {"naive_rect": "naive", "shared": "naive", "shared_rect": "shared",
                     "vectors": "shared"}  # fmt: skip
    # The fastest has no page, and the halves bound by other units are left out.
    assert [*found["stairs"]] == ["naive", "shared", "shared_rect", "vectors"]
    # The product of the factors is how many times as high the last step is as the first.
    factors = [gain["quotient"] for gain in found["stairs"].values() if gain]
    assert found["way"] == "alone" and factors == pytest.approx([4 / 2, 2 / 1.5, 1.5 / 1.6])
    assert found["top"] == "shared_rect"
    rates = {name: steps[name]["rate"]["value"] for name in found["stairs"]}
    assert found["heights"] == pytest.approx(rates)


def test_nothing_is_ahead_of_a_dispatch_by_a_rate_in_turn_which_has_a_clock_of_its_own(tmp_path):
    results = made_up(tmp_path, **RESIDUES | {"caches": ["hot"]})
    assert ladder(results, "gram")["reduced"]["residues"]["ahead"] == []


def test_another_arithmetic_is_led_by_its_dispatch_with_what_it_costs(tmp_path):
    """Variants of it may be faster and err more."""
    results = made_up(tmp_path, **RESIDUES)
    found = ladder(results, "gram")
    lead = found["reduced"]["residues"]
    assert (lead["kernel"]["name"], lead["size"]) == ("gram_residues", "4500")
    assert found["lead"]["kernel"]["name"] == "gram" and [*found["stairs"]] == ["gram"]
    assert lead["workspace_bytes"] == pytest.approx(16 * 4500 * (4608 + 4608), rel=0.01)
    assert lead["slower_at"] == ["2500"] and lead["errors"] == [1e-7, 1e-7]
    assert [one["kernel"]["name"] for one in lead["ahead"]] == ["residues"]
    assert typeset(results, tmp_path).startswith(b"%PDF")


def test_a_library_that_knows_no_symmetry_is_said_to_compute_all_of_c(tmp_path):
    libraries = ["cublas_dgemm", "cublas_dsyrk", "cublas_gram_bf16", "cublas_sgemm"]
    shapes = {"gemm": (320,), "gram": (500,), "gram_bf16": (512,)}
    results = made_up(tmp_path, kernels=["naive", "gram", "bgram", *libraries], shapes=shapes)
    found = [share for name in shapes for step in ladder(results, name)["steps"]
             for share in step["shares"]]  # fmt: skip
    said = {share["library"]["name"] for share in found if share["computes_all"]}
    assert said == {"cublas_dgemm", "cublas_gram_bf16"} and len(found) == len(libraries)


# What a hot loop has in place of its own instructions, what bounds it, and the share of the peak.
LOOPS: dict[str, tuple[dict[str, int], str, float]] = {
    "naive": ({"ffma": 16, "global_loads_32": 32}, "loads", 4 / 32),
    "register_tile": ({"ffma": 64, "shared_loads_32": 16}, "issue", 16 / 20),
    "vectors": ({"ffma": 64, "shared_loads_128": 4}, "issue", 16 / 17),
    # It computes both triangles.
    "gram_naive": ({"dfma": 16, "global_loads_64": 32}, "loads", 8 / 32 * 501 / 1000),
    "gram_register_tile": ({"dfma": 144, "shared_loads_64": 96}, "loads", 72 / 96),
    "tiled_bf16": ({"tensor": 32}, "tensor", 1.0),
    "three_products": ({"tensor": 32}, "tensor", 1.0),
}


def test_the_bound_of_a_step_is_what_its_loop_takes_longest_for(tmp_path):
    """A product of halves takes three of tensor cores."""
    shapes = {"gemm": (1024,), "gram": (500,), "gemm_bf16": (1024,)}
    card = DEVICE | {"bf16_tensor_peak_tflops": 400.0}
    results = made_up(tmp_path, kernels=[*LOOPS], shapes=shapes, device=card)
    for kernel, (counts, _, _) in LOOPS.items():
        rows = results.instructions.kernel == kernel
        loop = {"ffma": 0, "shared_loads_128": 0} | counts
        results.instructions.loc[rows, [*loop]] = list(loop.values())
    ladders = [ladder(results, operation)["steps"] for operation in shapes]
    found = {step["name"]: step["bound"] for own in ladders for step in own}
    peaks = dict.fromkeys(LOOPS, DEVICE["fp32_peak_tflops"])
    peaks |= dict.fromkeys(["gram_naive", "gram_register_tile"], DEVICE["fp64_peak_tflops"])
    peaks |= {"tiled_bf16": 400, "three_products": 400 / 3}
    for kernel, (_, what, share) in LOOPS.items():
        own = found[kernel]
        assert (own["what"], own["share"]) == (what, pytest.approx(share)), kernel
        assert own["rate"] == pytest.approx(share * peaks[kernel]), kernel
    (row,) = results.timed().query("variant == 'naive/32' and n == 1024").itertuples()
    assert found["naive"]["reached"] == pytest.approx(row.tflops / found["naive"]["rate"])


def lost(kernel: str, least: int) -> Change:
    """A change by which a kernel's points from a size on failed."""
    of = f"kernel == '{kernel}' and n >= {least} and status == 'ok'"
    none = dict.fromkeys([*TIMES, "tflops"], np.nan)
    return where(of, status="failed", reason="lost the device", **none)


# A kernel, the largest of the shapes, at whose columns its points are lost, and what is said of it.
UNTIMED = [
    ("naive_rect", 1024, None, "lost the device"),
    ("thin", 1024, None, "at most 1 row of C, not 1024x1024x1024"),
    ("thin", "1x8192x8192", "1×8192×8192", "lost the device"),
]


@pytest.mark.parametrize(("kernel", "last", "size", "reason"), UNTIMED)
def test_a_step_without_a_time_says_why_and_is_stepped_over(tmp_path, kernel, last, size, reason):
    shapes = {"gemm": dict.fromkeys((320, 1024, last))}
    options = {"caches": ["alone"], "change": lost(kernel, 1024)}
    own = steps(tmp_path, ["naive", kernel, "shared"], shapes, **options)
    assert own[kernel]["size"] == size and own[kernel]["missing"].endswith(reason)
    assert own[kernel]["rate"] is own[kernel]["before"] is None
    assert own["shared"]["before"]["from"]["title"] == "naive"


def test_the_size_is_the_largest_with_intervals_of_most_kernels(tmp_path):
    unsure = timed({"naive": (1.0, np.nan, np.nan)})
    none = timed(dict.fromkeys(["naive", "naive_rect", "shared"], (1.0, np.nan, np.nan)))
    for change, size in ((lost("naive", 1024), "1024"), (unsure, "320"), (none, "320")):
        options = {"kernels": ["naive", "naive_rect", "shared"], "shapes": GEMM}
        assert ladder(made_up(tmp_path, **options, change=change), "gemm")["size"] == size
