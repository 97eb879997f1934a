"""A report without a GPU: this processor beside a published card, and whose each number is."""

from dataclasses import replace

import pytest
from made_up_data import DEVICE, beside_a_card, made_up
from test_charts import words_of

from matmul_sweep.experiment.dataset.selection import Results, squares
from matmul_sweep.experiment.report.facts.beside import beside, documents_beside, ladders, loads
from matmul_sweep.experiment.report.facts.documents import documents
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.gallery import FIGURES

KERNELS = ["cpu_loop", "naive", "shared", "vectors", "sgemm", "cublas_sgemm", "gram_naive",
           "cublas_dgemm"]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    return beside_a_card(tmp_path_factory.mktemp("beside"), kernels=KERNELS)


def card_times(results: Results, kernel: str) -> dict[int, float]:
    """The card's hot times of squares by the fastest variant."""
    rows = squares(results.others[0].of("gemm").timed(cache="hot"))
    return dict(rows[rows.kernel == kernel].groupby("n").time_ms.min())


def test_what_was_not_measured_here_is_dashed_and_said_to_be_published(results):
    made = FIGURES["time_loglog"](results)
    lines = style.named_lines(made.axes[0])
    assert lines.keys() >= {"cpu_loop", "cpu_blas", "naive", "shared", "sgemm", "cublas_sgemm"}
    marks = {name: line.get_gid() for name, line in lines.items()}
    assert marks["naive"] == marks["sgemm"] == marks["cublas_sgemm"] == style.PUBLISHED
    assert marks["cpu_loop"] is None and lines["cpu_loop"].get_linestyle() == "-"
    assert lines["naive"].get_linestyle() == "--"
    assert dict(lines["naive"].get_xydata()) == card_times(results, "naive")
    assert {1000, 1023, 1024, 1025} < {*lines["cpu_loop"].get_xdata()}
    words = words_of(made).replace("\n", " ")
    assert "dashed: Imaginary GPU, published 2026-01-02, not measured here" in words
    assert "dashed" not in words_of(FIGURES["time_loglog"](results.others[0]))


def test_kernels_that_a_run_with_a_gpu_left_out_are_another_cards(results, tmp_path):
    card = made_up(tmp_path, kernels=["cublas_sgemm"], device=DEVICE | {"gpu": "My GPU"})
    made = FIGURES["time_milliseconds"](replace(card, others=results.others))
    lines = style.named_lines(made.axes[0])
    assert lines["naive"].get_gid() == style.PUBLISHED and lines["cublas_sgemm"].get_gid() is None
    title = " ".join(made.get_suptitle().split())
    assert "(naive on Imaginary GPU)" in title and "(cuBLAS SGEMM)" in title


def test_a_slow_processor_does_not_set_the_axis_of_a_documents_chart(results):
    axes = FIGURES["time_milliseconds"](results).axes
    slow = style.named_lines(axes[0])["cpu_blas"].get_ydata().max()
    assert 4.7 < axes[0].get_ylim()[1] < 6 < slow * 100  # the document's largest is 4.70 ms


def test_page_1_tells_the_largest_size_of_both(results):
    found = beside(results)
    assert (found["card"], found["date"]) == ("Imaginary GPU", "2026-01-02")
    assert found["report"] == "reports/published/imaginary-gpu/report.pdf"
    head = found["headline"]
    assert head["n"] == 1024
    times = {name: card_times(results, name)[1024] for name in KERNELS[1:5]}
    for which, name in (("first", "naive"), ("best", min(times, key=times.__getitem__))):
        assert head[which] == {"title": name, "time_ms": times[name]}
    (loop,) = results.launches.query("kernel == 'cpu_loop' and n == 1024").itertuples()
    assert head["loop"]["time_ms"] == loop.time_ms
    assert beside(results.others[0]) is None


def test_a_step_has_the_cards_rate_and_the_bound_of_the_code_compiled_here(results):
    code = results.instructions
    code.loc[code.kernel == "naive", ["ffma", "global_loads_32", "shared_loads_128"]] = [16, 32, 0]
    naive = {step["name"]: step for step in ladders(results)["gemm"]["steps"]}["naive"]
    rate = 2 * 1024**3 / card_times(results, "naive")[1024] / 1e9
    assert naive["rate"]["value"] == pytest.approx(rate)
    assert naive["bound"]["share"] == 4 / 32
    assert naive["bound"]["rate"] == 60 * 4 / 32  # of the card's peak
    assert naive["counters"] is None
    code.loc[code.kernel == "naive", "architecture"] = "sm_80"
    assert ladders(results)["gemm"]["steps"][0]["bound"] is None  # the code is of another card


def test_the_documents_stand_beside_the_card_and_the_processor(results):
    entries = {entry["document"]: entry["rows"] for entry in documents_beside(results, documents())}
    basic = next(row for row in entries["001"] if row.get("system") == "basic, TILE_WIDTH 16")
    card = results.others[0].of("gemm").timed(cache="hot")
    (ours,) = card.query("variant == 'naive/16' and n == 320").time_ms
    assert (basic["variant"], basic["ours"]) == ("naive/16", ours)
    (loop,) = results.launches.query("kernel == 'cpu_loop' and n == 320").itertuples()
    assert basic["here"]["loop"] == loop.time_ms
    of_cpu = entries["000"][0]
    assert of_cpu["system"] == "CPU loop" and of_cpu["ours"] is of_cpu["ratio"] is None
    quotient = next(row for row in entries["002"] if row.get("system") == "naive / shared")
    assert quotient["here"] is None


def test_loads_are_those_for_each_multiply_add(results):
    assert {row["title"]: row["each"] for row in loads(results)} == {"naive": 2, "shared": 2 / 32}
    assert loads(results.others[0]) == []


def test_the_processors_lesson_is_a_bar_for_each_size_and_loop(results):
    (ax,) = FIGURES["processor_sizes"](results).axes
    rows = results.launches.query("sweep == 'processor'")
    rates = rows[rows.kernel == "cpu_loop"].sort_values("n").tflops * 1000
    assert [bar.get_height() for bar in ax.containers[0]] == pytest.approx(rates.tolist())
    assert len(ax.containers) == 2  # the library would dwarf them
    assert ax.get_title(loc="left").startswith("CPU BLAS on all cores: ")
