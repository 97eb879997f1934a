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
    SHAPES,
    TF32,
    beside_a_card,
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

Open = Callable[[Results], Page]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A data set without holes."""
    return made_up(tmp_path_factory.mktemp("data"))


def fail(summary: pd.DataFrame) -> pd.DataFrame:
    return summary.assign(status="failed", reason="wrong result", time_ms=None, tflops=None)


# What the page is made from.


@pytest.fixture(scope="module")
def whole(results: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the data set without holes."""
    file = tmp_path_factory.mktemp("whole") / "explore.html"
    file.write_text(page.page(TEMPLATE, results))
    return file


@pytest.fixture(scope="module")
def lines(results: Results) -> list[dict[str, Any]]:
    """What that page has to draw."""
    return page_data(results)["lines"]


def test_the_same_data_give_the_same_bytes(tmp_path: Path, whole: Path) -> None:
    assert whole.stat().st_size < LARGEST
    few = [page.page(TEMPLATE, made_up(tmp_path / name, kernels=["naive"])) for name in "ab"]
    assert few[0] == few[1]


def test_every_timed_point_is_on_a_line_of_each_quantity(
    lines: list[dict[str, Any]], results: Results
) -> None:
    for operation in ("gemm", "gram"):
        view = results.of(operation)
        for quantity in ("rate", "time"):
            drawn = [line["trace"]["y"] for line in lines
                     if (line["operation"], line["quantity"], line["variants"])
                     == (operation, quantity, "all")]  # fmt: skip
            assert sum(map(len, drawn)) == len(view.launches)


def test_a_kernel_has_its_figures_colour(lines: list[dict[str, Any]], results: Results) -> None:
    traces = [line["trace"] for line in lines]
    for kernel in ("naive", "shared", "cublas_dsyrk"):
        colours = {t["line"]["color"] for t in traces if t["name"] == results.title(kernel)}
        assert colours == {look(results, kernel).colour}


def test_only_shapes_in_a_series_are_joined(lines: list[dict[str, Any]]) -> None:
    rates = [line for line in lines if line["quantity"] == "rate"]
    modes = {line["series"] == "other": line["trace"]["mode"] for line in rates}
    assert modes == {False: "lines+markers", True: "markers"}
    (trace,) = [line["trace"] for line in rates if line["series"] == "other"
                and line["trace"]["name"] == "cuBLAS SGEMM" and line["cache"] == "hot"
                and line["variants"] == FASTEST]  # fmt: skip
    assert trace["x"] == ["3200×2400×1600"]


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
    shares = drawn[0]["trace"]["y"]
    assert shares == sorted(results.ratios.query("sweep == 'random_gemm'").ratio)
    assert drawn[0]["trace"]["x"][-1] == 1


def test_variants_have_markers_of_their_own(lines: list[dict[str, Any]]) -> None:
    traces = [line["trace"] for line in lines if line["variants"] == "all"]
    own = {trace["name"]: trace["marker"]["symbol"] for trace in traces
           if trace["name"].startswith("gram_register_tile")}  # fmt: skip
    assert len(own) == len(set(own.values())) > 1


def test_numbers_without_an_interval_are_json(tmp_path: Path) -> None:
    ends = ["time_low_ms", "time_high_ms"]
    results = made_up(tmp_path, kernels=["naive"], change=lambda rows: rows.assign(
        **dict.fromkeys(ends), sm_clock_mhz=None, power_w=None, temperature_c=None))  # fmt: skip
    written = json.dumps(page_data(results), allow_nan=False)
    assert "too few samples for an interval" in written
    assert "clock and power not recorded" in written


def test_one_kernel_alone_has_no_share(tmp_path: Path) -> None:
    found = page_data(made_up(tmp_path, kernels=["naive"], shapes={"gemm": SHAPES["gemm"]}))
    assert {line["trace"]["name"] for line in found["lines"]} == {"naive", "naive/32", "naive/16"}
    assert [*found["choices"]["quantity"]["values"]] == ["rate", "time", "error"]


def test_beside_a_processor_published_cards_can_be_chosen_in_one_unit(tmp_path: Path) -> None:
    results = beside_a_card(tmp_path, kernels=["naive", "cublas_sgemm", "cpu_blas"])
    found = page_data(results)
    assert [*found["choices"]["card"]["values"]] == ["Imaginary GPU"]
    rates = [line for line in found["lines"] if line.get("variants") == FASTEST
             and (line["quantity"], line["series"]) == ("rate", "square (m = n = k)")]  # fmt: skip
    names = {line["trace"]["name"]: line.get("card") for line in rates}
    assert names["CPU, triple loop"] is None
    assert names["naive, Imaginary GPU"] == "Imaginary GPU"
    assert "CPU, BLAS" in names and "CPU, BLAS, Imaginary GPU" not in names
    assert len({line["axes"]["yaxis"]["title"]["text"] for line in rates}) == 1
    (loop,) = [own["trace"] for own in rates if own["trace"]["name"] == "CPU, triple loop"]
    own = fastest(results.of("gemm").timed()).query("kernel == 'cpu_loop'")
    assert loop["y"] == own.sort_values("n").tflops.tolist()  # TFLOP/s, as the card's


# The page in a browser.


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if reason := browser.missing():
        pytest.skip(reason)
    with browser.started(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Callable[[Path], Page]]:
    """Opens pages, each of which has to be without complaints and requests."""
    tabs: dict[Path, Page] = {}

    def open_page(file: Path) -> Page:
        tabs[file] = chromium.open(file)
        tabs[file].wait(READY)
        return tabs[file]

    yield open_page
    for file, tab in tabs.items():
        assert tab.complaints() == []
        assert tab.requests() == [file.as_uri()]


@pytest.fixture
def shown(opened: Callable[[Path], Page], tmp_path: Path) -> Open:
    """Opens a data set's page."""

    def show(results: Results) -> Page:
        file = tmp_path / "explore.html"
        file.write_text(page.page(TEMPLATE, results))
        return opened(file)

    return show


@pytest.fixture
def tab(opened: Callable[[Path], Page], whole: Path) -> Page:
    return opened(whole)


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
    """The values of each line by its name."""
    return dict(tab.value(f"{PLOT}.data.map(line => [line.name, line.y])"))


def visible(tab: Page, name: str) -> bool:
    found = tab.value(f"{PLOT}._fullData.find(line => line.name === {json.dumps(name)}).visible")
    return found is True


def rates(results: Results, kernel: str, cache: str) -> list[float]:
    """The rates of the fastest variant of a kernel at each square size."""
    rows = squares(fastest(results.of("gemm").timed(cache=cache)))
    return list(rows[rows.kernel == kernel].tflops)


def test_the_page_opens_with_every_kernel_and_offers_what_there_is(
    tab: Page, results: Results
) -> None:
    timed = results.of("gemm").timed().kernel
    assert tab.value(NAMES) == [results.title(name) for name in dict.fromkeys(timed)]
    source = tab.value("document.getElementById('source').textContent")
    assert source == "Imaginary GPU · 2026-01-02 · commit 0123456"
    assert drawn(tab)["shared"] == rates(results, "shared", "hot")
    titles = tab.value("[...document.querySelectorAll('.modebar-btn')].map(b => b.dataset.title)")
    assert titles  # and none of them sends the page away
    assert not any("cloud" in title.lower() or "share" in title.lower() for title in titles)
    assert offered(tab, "series") == ["square (m = n = k)", "other"]
    choose(tab, "operation", "gram")
    assert offered(tab, "series") == ["square (m = n)", "wide (m = n/2)", "tall (m = 2n)", "other"]
    assert not offered(tab, "fill")  # there is one
    assert not offered(tab, "card")
    assert offered(tab, "cache") == ["hot", "cold"]


def test_what_is_chosen_is_drawn(tab: Page, results: Results) -> None:
    choose(tab, "cache", "cold")
    assert (
        drawn(tab)["shared"] == rates(results, "shared", "cold") != rates(results, "shared", "hot")
    )
    assert "CPU, BLAS" not in drawn(tab)
    choose(tab, "variants", "all")
    own = {name for name in drawn(tab) if name.startswith("shared/")}
    assert own == {"shared/32", "shared/16"}
    choose(tab, "operation", "gram")
    choose(tab, "cache", "hot")
    choose(tab, "variants", FASTEST)
    choose(tab, "quantity", "share of cuBLAS DSYRK, mirrored")
    choose(tab, "series", "wide (m = n/2)")
    pairs = results.ratios.query(
        "kernel == 'gram_naive' and baseline == 'cublas_dsyrk' and cache == 'hot'"
    )
    expected = of_series(pairs[pairs.sweep == "gram"], "wide (m = n/2)").ratio
    assert drawn(tab)["AᵀA naive"] == expected.tolist()
    assert len(tab.value(f"{PLOT}.layout.shapes")) == 1  # parity


def test_a_point_tells_its_numbers(shown: Open, tmp_path: Path) -> None:
    results = made_up(tmp_path, kernels=["shared", "cublas_sgemm"])
    tab = shown(results)
    tab.point_at(f"[...{PLOT}.querySelectorAll('.scatterlayer .trace')][{PLOT}.data.findIndex("
                 "line => line.name === 'shared')].querySelector('.point:last-child')")  # fmt: skip
    told = tab.wait(f"{HOVER}.length && {HOVER}")
    rows = squares(fastest(results.of("gemm").timed()))
    last = rows[rows.kernel == "shared"].iloc[-1]
    assert told[0] == f"shared ({last.variant})"
    assert told[1] == "gemm 1024, float32"
    assert told[2].startswith(f"{last.time_ms:.4g} ms [{last.time_low_ms:.4g}, ")
    assert told[2].endswith("median of 20")
    assert told[4].endswith("of cuBLAS SGEMM, pairs: 20")
    assert told[5] == "SM at 1980 MHz, 300 W, 50 °C"
    assert told[6] == "ok"


def test_a_hidden_kernel_stays_hidden_in_another_quantity(tab: Page) -> None:
    tab.click(f"document.querySelectorAll('.legendtoggle')[{NAMES}.indexOf('shared')]")
    tab.wait(f"{PLOT}._fullData.find(line => line.name === 'shared').visible === 'legendonly'")
    choose(tab, "quantity", "time")
    assert not visible(tab, "shared")
    assert visible(tab, "naive")
    assert tab.value(f"{PLOT}.layout.yaxis.title.text") == "time in ms"


def test_on_a_phone_the_names_stand_below_the_plot(tab: Page) -> None:
    tab.ask("Emulation.setDeviceMetricsOverride", width=420, height=900, deviceScaleFactor=1,
            mobile=True)  # fmt: skip
    box = "document.querySelector('#plot {}').getBoundingClientRect()"
    plot, legend = box.format(".nsewdrag"), box.format(".legend")
    tab.wait(f"innerWidth === 420 && {legend}.top >= {plot}.bottom")
    assert tab.value(f"{plot}.width") > 280
    assert tab.value(f"{plot}.height") > 250
    assert tab.value("document.documentElement.scrollWidth") <= 420


# Data sets with holes.

ABSENT = "document.getElementById('absent')"


def missing(tab: Page) -> list[str]:
    """What the page says that it lacks, where it is seen without a click."""
    assert tab.value(f"{ABSENT}.open")
    return list(tab.value(f"[...{ABSENT}.querySelectorAll('li')].map(item => item.innerText)"))


def test_without_a_gpu_the_cpu_is_shown_and_the_reason_said(shown: Open, tmp_path: Path) -> None:
    tab = shown(made_up(tmp_path, gpu=False))
    assert tab.value(NAMES) == ["CPU, triple loop", "CPU, BLAS"]
    assert "Imaginary CPU" in tab.value("document.body.innerText")
    choose(tab, "cache", "cold")
    assert drawn(tab) == {}
    assert "Nothing was measured" in tab.value(f"{PLOT}.textContent")
    assert any("there is no GPU on this machine" in line for line in missing(tab))


def test_failed_points_of_an_unknown_device_are_listed(shown: Open, tmp_path: Path) -> None:
    tab = shown(made_up(tmp_path, kernels=["naive"], change=fail, device={}))
    assert "unknown device · date unknown" in tab.value("document.body.innerText")
    assert drawn(tab) == {}
    assert "naive/32 at 32, 320, 640, 1024: failed, wrong result" in missing(tab)


def test_no_point_at_all_is_said(shown: Open, tmp_path: Path) -> None:
    tab = shown(made_up(tmp_path, shapes={}, change=lambda summary: summary[:0]))
    assert "Nothing was measured" in tab.value(f"{PLOT}.textContent")


TITLES = {
    "naive": "$x^2$",
    "naive_rect": "<b>bold</b></script><script>fail()</script>",
    "shared": "{{ data }} & co. %{y}",
}


def test_titles_are_shown_as_they_stand(shown: Open, tmp_path: Path) -> None:
    catalogue = Catalogue(the_catalogue())
    for name, title in TITLES.items():
        catalogue[name] = dataclasses.replace(catalogue[name], title=title)
    tab = shown(made_up(tmp_path, kernels=[*TITLES], catalogue=catalogue))
    assert tab.value(NAMES) == [*TITLES.values()]
