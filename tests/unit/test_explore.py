"""The interactive page: what a reader sees and can choose, in a browser without a network."""

import dataclasses
import itertools
import json
import re
from operator import itemgetter
from pathlib import Path
from typing import Any

import browser
import pandas as pd
import pytest
from made_up_data import TF32, beside_a_card, failed, made_up, speed_up_tf32, the_catalogue

from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.experiment.dataset.selection import Results, fastest, of_series, squares
from matmul_sweep.experiment.report.explore.data import page_data
from matmul_sweep.experiment.report.explore.lines import FASTEST
from matmul_sweep.experiment.report.explore.points import ALONE, ERROR, SQUARE
from matmul_sweep.experiment.report.facts.report import for_readers
from matmul_sweep.experiment.report.figures.figure_base import look
from matmul_sweep.experiment.report.site.pages import explore_page

pytestmark = pytest.mark.slow


# What the page is made from.


def drawn(results: Results) -> pd.DataFrame:
    """A row for each line of the page: its choices and what plotly.js draws."""
    return pd.DataFrame([line | line["trace"] for line in page_data(results)["lines"]])


@pytest.fixture(scope="module")
def lines(results: Results) -> pd.DataFrame:
    return drawn(results)


def test_every_timed_point_is_on_a_line_of_each_quantity(lines, results):
    found = lines.query("variants == 'all'").explode("y").groupby(["operation", "quantity"]).size()
    for operation, quantity in itertools.product(("gemm", "gram"), ("rate", "time")):
        assert found[operation, quantity] == len(results.of(operation).timed())


def test_only_shapes_in_a_series_are_joined_and_colours_are_the_figures(lines, results):
    rates = lines.query("quantity == 'rate'")
    other = rates.series == "other"
    assert {*rates["mode"][~other]} == {"lines+markers"} and {*rates["mode"][other]} == {"markers"}
    (line,) = rates[other].query("name == 'cuBLAS SGEMM' and variants == @FASTEST").itertuples()
    assert line.x == ["3200×2400×1600"]
    assert line.line["color"] == look(results, "cublas_sgemm").colour
    variants = rates[~other & rates.name.str.startswith("gram_register_tile")]
    assert variants.marker.map(itemgetter("symbol")).nunique() == variants.name.nunique() > 1


def test_what_was_timed_alone_is_a_series_of_its_own(tmp_path):
    lines = drawn(made_up(tmp_path, kernels=["naive", "cublas_sgemm"], caches=["hot", "alone"]))
    found = lines.groupby("series").quantity.agg(set)
    assert found[SQUARE + ALONE] == found[SQUARE]
    ways = lines.groupby("series").way.agg(set)
    assert ways[SQUARE + ALONE] == {" · alone, at its own clock"}
    assert ways[SQUARE] == {" · in turn, hot"}


def test_reduced_arithmetic_stands_beside_its_error_only(tmp_path):
    results = made_up(tmp_path, kernels=["naive", "cublas_sgemm", TF32], change=speed_up_tf32)
    assert {*drawn(results).query("name == 'cuBLAS SGEMM in TF32'").quantity} == {ERROR}


def test_numbers_that_are_missing_are_json(tmp_path):
    missing = ["time_low_ms", "time_high_ms", "sm_clock_mhz", "power_w", "temperature_c"]
    results = made_up(tmp_path, kernels=["naive"],
                      change=lambda rows: rows.assign(**dict.fromkeys(missing)))  # fmt: skip
    written = json.dumps(page_data(results), allow_nan=False)
    assert "too few samples for an interval" in written
    assert "clock and power not recorded" in written


def test_without_a_gpu_the_processor_is_drawn_and_the_reason_said(tmp_path):
    results = made_up(tmp_path, gpu=False)
    lines = drawn(results).query("operation == 'gemm' and variants == @FASTEST")
    assert {*lines.name} == {"CPU triple loop", "CPU BLAS"}
    absent = page_data(results)["absent"]
    assert any("there is no GPU on this machine" in item["words"] for item in absent)
    spared = "not for the CPU: cpu_without in the configuration"  # a key says nothing to a reader
    assert for_readers(spared) == "it takes too long on the processor" != for_readers("other")


def test_beside_a_processor_a_published_card_is_drawn_in_one_unit(tmp_path):
    results = beside_a_card(tmp_path, kernels=["naive", "cublas_sgemm", "cpu_blas"])
    found = drawn(results).query("variants == @FASTEST and quantity == 'rate'")
    rates = found[found.series == SQUARE]
    assert {"CPU triple loop", "CPU BLAS", "naive, Imaginary GPU"} <= {*rates.name}
    assert "CPU BLAS, Imaginary GPU" not in {*rates.name}
    assert rates["axes"].map(lambda axes: axes["yaxis"]["title"]["text"]).nunique() == 1
    own = fastest(results.of("gemm").timed()).query("kernel == 'cpu_loop'")
    loop = rates.query("name == 'CPU triple loop'").y.iloc[0]
    assert loop == own.sort_values("n").tflops.tolist()  # TFLOP/s, as the card's


# The page in a browser.


def told(results: Results, script: str, folder: Path, width: int = 1300) -> Any:
    """What a script returns in the page of a data set."""
    return browser.told(explore_page(results), script, folder, width)


def test_what_is_chosen_is_drawn_and_a_hidden_kernel_stays_hidden(results, tmp_path):
    script = f"""
      const drawn = name => plot.data.find(line => line.name === name).y;
      const first = [names(), document.getElementById("source").textContent, drawn("shared")];
      const buttons = all(".modebar-btn").map(button => button.dataset.title);
      const shapes = offered("series"), unfolded = document.getElementById("chosen").open;
      const toggle = all(".legendtoggle")[names().indexOf("shared")];
      for (const kind of ["mousedown", "mouseup"])
        toggle.dispatchEvent(new MouseEvent(kind, {{ bubbles: true }}));
      while (plot._fullData.every(line => line.visible === true))
        await new Promise(done => setTimeout(done, 20));
      choose("quantity", "time");
      const hidden = plot._fullData.filter(line => line.visible !== true).map(line => line.name);
      const title = plot.layout.yaxis.title.text;
      choose("variants", "all");
      const variants = plot.data.map(line => line.name).filter(name => name.startsWith("shared/"));
      choose("operation", "gram");
      choose("variants", {json.dumps(FASTEST)});
      choose("quantity", "speed-up over DSYRK + mirror");
      choose("series", "wide (m = n/2)");
      return {{ first, buttons, shapes, unfolded, hidden, title, variants, gram: offered("series"),
                share: drawn("naive AᵀA"), parity: plot.layout.shapes.length }};"""
    said = told(results, script, tmp_path)
    timed = results.of("gemm").timed()
    rates = squares(fastest(timed)).query("kernel == 'shared'").tflops.tolist()
    names = [results.title(name) for name in dict.fromkeys(timed.kernel)]
    source = "Imaginary GPU · 2026-01-02 · commit 0123456 · in turn, hot"
    assert said["first"] == [names, source, rates]
    assert said["unfolded"]
    assert said["buttons"]  # and none of them sends the page away
    assert not re.search("cloud|share", " ".join(said["buttons"]), re.IGNORECASE)
    assert (said["hidden"], said["title"]) == (["shared"], "time in ms")
    assert {*said["variants"]} == {"shared/32", "shared/16"}
    assert said["shapes"] == ["square (m = n = k)", "other"]
    assert said["gram"] == ["square (m = n)", "wide (m = n/2)", "tall (m = 2n)", "other"]
    pairs = results.ratios.query("kernel == 'gram_naive' and baseline == 'cublas_dsyrk'"
                                 " and cache == 'hot' and sweep == 'gram'")  # fmt: skip
    assert said["share"] == of_series(pairs, "wide (m = n/2)").ratio.tolist()
    assert said["parity"] == 1


def test_on_a_narrow_screen_the_plot_stands_below_one_line_and_above_the_names(results, tmp_path):
    script = """
      const box = name => document.querySelector(`#plot ${name}`).getBoundingClientRect();
      const chosen = document.getElementById("chosen");
      return [innerWidth, document.documentElement.scrollWidth, box(".nsewdrag").width,
              box(".legend").top - box(".nsewdrag").bottom, box(".nsewdrag").top,
              chosen.open, chosen.querySelector("summary").textContent];"""
    inner, whole, width, below, above, unfolded, words = told(results, script, tmp_path, 600)
    assert whole <= inner <= 720 and width > 280 and below >= 0 and above < 400
    assert not unfolded and words.startswith("C = A·B in float32 · square (m = n = k)")


def test_titles_are_shown_as_they_stand_and_a_point_tells_its_numbers(tmp_path):
    titles = {"naive": "$x^2$", "naive_rect": "<b>bold</b></script><script>fail()</script>",
              "shared": "{{ data }} & co. %{y}"}  # fmt: skip
    named = {name: dataclasses.replace(the_catalogue()[name], title=title)
             for name, title in titles.items()}  # fmt: skip
    results = made_up(tmp_path, kernels=[*titles, "cublas_sgemm"])
    results = dataclasses.replace(results, catalogue=Catalogue(the_catalogue() | named))
    script = """
      const curve = names().indexOf("{{ data }} & co. %{y}");
      Plotly.Fx.hover(plot, [{ curveNumber: curve, pointNumber: plot.data[curve].y.length - 1 }]);
      return [names(), all(".hoverlayer tspan").map(found => found.textContent)];"""
    shown, said = told(results, script, tmp_path)
    assert shown[:3] == [*titles.values()]
    last = squares(fastest(results.of("gemm").timed())).query("kernel == 'shared'").iloc[-1]
    assert said[:2] == [f"{titles['shared']} ({last.variant})", "gemm 1024, float32"]
    assert said[2].startswith(f"{last.time_ms:.4g} ms [{last.time_low_ms:.4g}, ")
    assert said[2].endswith("median of 20")
    assert said[4].endswith("times as fast as cuBLAS SGEMM, pairs: 20")
    assert said[5:] == ["SM at 1980 MHz, 300 W, 50 °C", "ok"]


SEEN = "return document.body.innerText;"


def test_what_was_not_measured_is_said(tmp_path):
    lost = made_up(tmp_path / "failed", kernels=["naive"], change=failed, device={})
    text = told(lost, SEEN, tmp_path)
    assert "unknown device · date unknown" in text and "Nothing was measured" in text
    assert "naive/32 at 32, 320, 640, 1024: failed, wrong result" in text  # without a click
    nothing = made_up(tmp_path / "none", shapes={}, change=lambda summary: summary[:0])
    assert "Nothing was measured" in told(nothing, SEEN, tmp_path)
