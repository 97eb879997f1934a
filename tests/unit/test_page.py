"""The interactive page: what a reader sees and can choose, in a browser without a network."""

import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import browser
import pandas as pd
import pytest
from browser import Browser, Page
from made_up_data import (
    RANDOM,
    TF32,
    made_up,
    speed_up_tf32,
    the_catalogue,
    with_tf32,
)

import page
from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.experiment.dataset.selection import Results, fastest, of_series, squares
from matmul_sweep.experiment.report.figures.figure_base import look
from matmul_sweep.experiment.report.page.data import page_data
from matmul_sweep.experiment.report.page.lines import FASTEST
from matmul_sweep.experiment.report.page.lines import RANDOM as DRAWN
from matmul_sweep.experiment.report.page.points import ERROR
from matmul_sweep.process.project import ROOT

pytestmark = pytest.mark.slow

LARGEST = 5_000_000  # bytes
TEMPLATE = (ROOT / "reports" / "explore.html").read_text()
PLOT = "document.getElementById('plot')"
NAMES = "[...document.querySelectorAll('.legendtext')].map(found => found.textContent)"
HOVER = "[...document.querySelectorAll('.hoverlayer tspan')].map(found => found.textContent)"
READY = "document.querySelector('#plot .legend, #plot .annotation') !== null"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A data set without holes."""
    return made_up(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def lines(results: Results) -> list[dict[str, Any]]:
    """What its page has to draw."""
    return page_data(results)["lines"]


def test_every_timed_point_is_on_a_line_of_each_quantity(
    lines: list[dict[str, Any]], results: Results
) -> None:
    for operation in ("gemm", "gram"):
        for quantity in ("rate", "time"):
            drawn = [line["trace"]["y"] for line in lines
                     if (line["operation"], line["quantity"], line["variants"])
                     == (operation, quantity, "all")]  # fmt: skip
            assert sum(map(len, drawn)) == len(results.of(operation).timed())


def test_a_kernel_has_its_figures_colour(lines: list[dict[str, Any]], results: Results) -> None:
    traces = [line["trace"] for line in lines]
    for kernel in ("naive", "shared", "cublas_dsyrk"):
        colours = {t["line"]["color"] for t in traces if t["name"] == results.title(kernel)}
        assert colours == {look(results, kernel).colour}


def test_only_shapes_in_a_series_are_joined_and_variants_have_markers_of_their_own(
    lines: list[dict[str, Any]],
) -> None:
    rates = [line for line in lines if line["quantity"] == "rate"]
    modes = {line["series"] == "other": line["trace"]["mode"] for line in rates}
    assert modes == {False: "lines+markers", True: "markers"}
    traces = [line["trace"] for line in rates
              if (line["series"], line["variants"]) == ("other", FASTEST)]  # fmt: skip
    (trace,) = [trace for trace in traces if trace["name"] == "cuBLAS SGEMM"]
    assert trace["x"] == ["3200×2400×1600"]
    traces = [line["trace"] for line in lines if line["variants"] == "all"]
    own = {trace["name"]: trace["marker"]["symbol"] for trace in traces
           if trace["name"].startswith("gram_register_tile")}  # fmt: skip
    assert len(own) == len(set(own.values())) > 1


def test_reduced_arithmetic_stands_beside_its_error_only(tmp_path: Path) -> None:
    kernels = ["naive", "cublas_sgemm", TF32]
    results = made_up(tmp_path, kernels=kernels, catalogue=with_tf32(), change=speed_up_tf32)
    drawn = page_data(results)["lines"]
    own = {line["quantity"] for line in drawn if line["trace"]["name"] == "cuBLAS TF32"}
    assert own == {ERROR}


def test_random_shapes_are_in_order_of_their_shares(tmp_path: Path) -> None:
    kernels = ["sgemm", "cublas_sgemm", "gram", "cublas_dgemm"]
    results = made_up(tmp_path, kernels=kernels, drawn=RANDOM)
    drawn = [line for line in page_data(results)["lines"] if line["series"] == DRAWN]
    assert [line["operation"] for line in drawn] == ["gemm", "gram"]
    assert drawn[0]["trace"]["y"] == sorted(results.ratios.query("sweep == 'random_gemm'").ratio)
    assert drawn[0]["trace"]["x"][-1] == 1


def test_one_kernel_alone_without_intervals_is_json_without_shares(tmp_path: Path) -> None:
    lacking = dict.fromkeys(
        ["time_low_ms", "time_high_ms", "sm_clock_mhz", "power_w", "temperature_c"]
    )
    results = made_up(tmp_path, kernels=["naive"], change=lambda rows: rows.assign(**lacking))
    found = page_data(results)
    written = json.dumps(found, allow_nan=False)
    assert "too few samples for an interval" in written
    assert "clock and power not recorded" in written
    assert [*found["choices"]["quantity"]["values"]] == ["rate", "time", "error"]
    first, again = (page.page(TEMPLATE, results) for _ in range(2))
    assert first == again


# The page in a browser.


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := browser.missing():
        pytest.skip(reason)
    with browser.started(tmp_path_factory.mktemp("profile")) as running:
        yield running


Show = Callable[[Results], Page]


@pytest.fixture
def shown(chromium: Browser, tmp_path: Path) -> Iterator[Show]:
    """Opens a data set's page, which has to be small and without complaints and requests."""
    file, tabs = tmp_path / "explore.html", list[Page]()

    def show(results: Results) -> Page:
        file.write_text(page.page(TEMPLATE, results))
        assert file.stat().st_size < LARGEST
        tabs.append(chromium.open(file))
        tabs[-1].wait(READY)
        return tabs[-1]

    yield show
    for tab in tabs:
        assert tab.complaints() == []
        assert tab.requests() == [file.as_uri()]


def choose(tab: Page, choice: str, value: str) -> None:
    """Click a button."""
    button = f"document.querySelector('input[name={choice}][value={json.dumps(value)}]')"
    tab.click(button)
    tab.wait(f"{button}.checked")


def offered(tab: Page, choice: str) -> list[str]:
    """The values of a choice that can be seen."""
    buttons = f"[...document.querySelectorAll('input[name={choice}]')]"
    return list(tab.value(f"{buttons}.filter(b => b.checkVisibility()).map(b => b.value)"))


def drawn(tab: Page) -> dict[str, list[float]]:
    """The values of each line that is seen, by its name."""
    return dict(tab.value(f"{PLOT}._fullData.filter(line => line.visible === true)"
                          ".map(line => [line.name, [...line.y]])"))  # fmt: skip


def test_the_page_opens_with_every_kernel_and_draws_what_is_chosen(
    shown: Show, results: Results
) -> None:
    tab = shown(results)
    timed = results.of("gemm").timed()
    assert tab.value(NAMES) == [results.title(name) for name in dict.fromkeys(timed.kernel)]
    source = tab.value("document.getElementById('source').textContent")
    assert source == "Imaginary GPU · 2026-01-02 · commit 0123456"
    rows = squares(fastest(timed))
    assert drawn(tab)["shared"] == list(rows[rows.kernel == "shared"].tflops)
    titles = tab.value("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert titles  # and none of them sends the page away
    assert not any("cloud" in title.lower() or "share" in title.lower() for title in titles)
    assert offered(tab, "series") == ["square (m = n = k)", "other"]
    tab.click(f"document.querySelectorAll('.legendtoggle')[{NAMES}.indexOf('shared')]")
    tab.wait(f"{PLOT}._fullData.find(line => line.name === 'shared').visible === 'legendonly'")
    choose(tab, "quantity", "time")
    assert "shared" not in drawn(tab) and "naive" in drawn(tab)  # what is hidden stays hidden
    assert tab.value(f"{PLOT}.layout.yaxis.title.text") == "time in ms"
    choose(tab, "variants", "all")
    assert {name for name in drawn(tab) if name.startswith("shared/")} == {"shared/32", "shared/16"}
    choose(tab, "operation", "gram")
    assert offered(tab, "series") == ["square (m = n)", "wide (m = n/2)", "tall (m = 2n)", "other"]
    choose(tab, "variants", FASTEST)
    choose(tab, "quantity", "share of cuBLAS DSYRK, mirrored")
    choose(tab, "series", "wide (m = n/2)")
    pairs = results.ratios.query(
        "kernel == 'gram_naive' and baseline == 'cublas_dsyrk' and cache == 'hot'"
    )
    expected = of_series(pairs[pairs.sweep == "gram"], "wide (m = n/2)").ratio
    assert drawn(tab)["AᵀA naive"] == expected.tolist()
    assert len(tab.value(f"{PLOT}.layout.shapes")) == 1  # parity


def test_a_point_tells_its_numbers(shown: Show, tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["shared", "cublas_sgemm"])
    tab = shown(results)
    tab.point_at(f"[...{PLOT}.querySelectorAll('.scatterlayer .trace')][{PLOT}.data.findIndex("
                 "line => line.name === 'shared')].querySelector('.point:last-child')")  # fmt: skip
    told = tab.wait(f"{HOVER}.length && {HOVER}")
    rows = squares(fastest(results.of("gemm").timed()))
    last = rows[rows.kernel == "shared"].iloc[-1]
    assert told[:2] == [f"shared ({last.variant})", "gemm 1024, float32, uniform, hot"]
    assert told[2].startswith(f"{last.time_ms:.4g} ms [{last.time_low_ms:.4g}, ")
    assert told[2].endswith("median of 20")
    assert told[4].endswith("of cuBLAS SGEMM, pairs: 20")
    assert told[5:] == ["SM at 1980 MHz, 300 W, 50 °C", "ok"]


def test_on_a_phone_the_names_stand_below_the_plot(shown: Show, results: Results) -> None:
    tab = shown(results)
    tab.ask("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1,
            mobile=True)  # fmt: skip
    box = "document.querySelector('#plot {}').getBoundingClientRect()"
    plot, legend = box.format(".nsewdrag"), box.format(".legend")
    tab.wait(f"innerWidth === 420 && {legend}.top >= {plot}.bottom")
    assert tab.value(f"{plot}.width") > 280
    assert tab.value(f"{plot}.height") > 250
    assert tab.value("document.documentElement.scrollWidth") <= 420


def fail(summary: pd.DataFrame) -> pd.DataFrame:
    return summary.assign(status="failed", reason="wrong result", time_ms=None, tflops=None)


HOLES: list[tuple[dict[str, Any], list[str], str]] = [  # a data set, its names, and what it says
    ({"gpu": False}, ["CPU, triple loop", "CPU, BLAS"], "there is no GPU on this machine"),
    ({"kernels": ["naive"], "change": fail, "device": {}}, [],
     "naive/32 at 32, 320, 640, 1024, hot: failed, wrong result"),
    ({"shapes": {}, "change": lambda summary: summary[:0]}, [], "Nothing was measured"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "names", "words"), HOLES, ids=["no GPU", "failed", "empty"])
def test_what_was_not_measured_is_said(
    shown: Show, tmp_path: Path, options: dict[str, Any], names: list[str], words: str
) -> None:
    tab = shown(made_up(tmp_path, **options))
    assert tab.value(NAMES) == names == [*drawn(tab)]
    assert words in tab.value("document.body.textContent")
    assert tab.value("document.getElementById('absent').open") != bool(names)


def test_titles_are_shown_as_they_stand(shown: Show, tmp_path: Path) -> None:
    titles = ["$x^2$", "<b>bold</b></script><script>fail()</script>", "{{ data }} & co. %{y}"]
    catalogue = Catalogue(the_catalogue())
    named = dict(zip(["naive", "naive_rect", "shared"], titles, strict=True))
    for name, title in named.items():
        catalogue[name] = dataclasses.replace(catalogue[name], title=title)
    tab = shown(made_up(tmp_path, kernels=[*named], catalogue=catalogue))
    assert tab.value(NAMES) == titles
