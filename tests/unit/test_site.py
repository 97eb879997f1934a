"""The site: pages that say what a data set says, and what it lacks, on any screen."""

import dataclasses
import itertools
import json
import re
import shutil
from collections.abc import Callable
from html import escape, unescape
from pathlib import Path

import browser
import pandas as pd
import pytest
from made_up_data import DEVICE, RESIDUES, beside_a_card, failed, made_up, the_catalogue
from support import PUBLISHED_SETS

from matmul_sweep.classroom.results import COMMITTED
from matmul_sweep.experiment.dataset.selection import Results, load_results, with_others
from matmul_sweep.experiment.report.facts.banks import banks
from matmul_sweep.experiment.report.facts.ways import speedups, widest
from matmul_sweep.experiment.report.numbers import significant
from matmul_sweep.experiment.report.site.pages import PAGES, SETS, TEMPLATES, page, site, story
from matmul_sweep.experiment.report.site.worklog import quoted
from matmul_sweep.process.project import PUBLISHED

pytestmark = pytest.mark.slow

H200 = PUBLISHED / "nvidia-h200"
LARGEST = {"explore.html": 2_500_000}  # bytes; of other pages:
USUAL = 1_000_000
PHONE = 390  # pixels


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """The site of a published set."""
    sets = [load_results(folder, the_catalogue()) for folder in PUBLISHED_SETS]
    results = next(own for own in sets if own.folder == H200)
    return site(with_others(results, PUBLISHED_SETS), sets, COMMITTED)


def first_page(results: Results) -> str:
    return page("index.html", results, story(results), PAGES)


def text_of(html: str) -> str:
    """What a reader reads, without code and quotations."""
    html = re.sub(r"<(script|style|pre|blockquote|head)\b.*?</\1>", " ", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub("<[^>]+>", " ", html)).split())


def bars_of(html: str) -> dict:
    return json.loads(re.search(r'id="bars">(.*?)</script>', html, re.DOTALL)[1])


# What the pages say.


@pytest.mark.parametrize("template", sorted(TEMPLATES.glob("*.html")), ids=lambda file: file.name)
def test_no_template_has_a_number(template):
    """All numbers come from the data set."""
    text = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", " ", template.read_text(), flags=re.DOTALL)
    text = re.sub(r"<style.*?</style>|<!--.*?-->|<[^>]*>", " ", text, flags=re.DOTALL)
    kinds = re.sub(r"b?float\d+|L2", " ", text)  # names
    assert re.findall(r"\S*\d\S*", kinds) == []


def test_the_title_and_every_bar_follow_from_the_tables(pages):
    """Read by pandas alone."""
    html = pages["index.html"]
    timed = pd.read_csv(H200 / "summary.csv").query("status == 'ok' and phase == 'kernel'")
    timed = timed[(timed.m == timed.n) & (timed.k.fillna(timed.n) == timed.n)]
    compared = 0
    for operation, chart in bars_of(html).items():
        own = timed[(timed.operation == operation) & ~timed.sweep.str.startswith("random")]
        way = "alone" if "alone" in set(own.cache) else "hot"
        for n, cells in chart["sizes"].items():
            for kernel, cell in cells.items():
                rows = own[(own.kernel == kernel) & (own.n == int(n)) & (own.cache == way)]
                assert cell["rate"] in {*map(significant, rows.groupby("sweep").tflops.max())}
                compared += 1
    assert compared > 40
    gemm = bars_of(html)["gemm"]
    cells = [*gemm["sizes"][str(gemm["size"])].values()]
    best = max(cells, key=lambda cell: float(cell["rate"]))
    past = (float(best["times"]) - 1) * 100
    rates = [f"{float(cell['rate']):.2g}" for cell in (cells[0], best)]
    title = f"From {rates[0]} to {rates[1]} TFLOP/s, and {past:.0f}% past cuBLAS"
    assert f"<title>{title}</title>" in html and f"<h1>{title}</h1>" in html


def test_the_bars_of_the_first_view_are_drawn_without_a_script(pages):
    html = re.sub(r"<script.*?</script>", "", pages["index.html"], flags=re.DOTALL)
    for chart in bars_of(pages["index.html"]).values():
        for cell in chart["sizes"].get(str(chart["size"]), {}).values():
            width = f"{100 * cell['reached'] / chart['most']:.2f}%"
            assert f'width="{width}"' in html and escape(cell["said"]) in html


def test_each_step_has_its_pictures_its_code_and_its_figures(pages):
    sections = re.findall(r'<section id="gemm-\w+">.*?</section>', pages["index.html"], re.DOTALL)
    assert len(sections) == 7
    for own in sections:
        assert own.count("<figure>") == own.count("<figcaption>") == 4
        assert "predicted, at most" in own and "measured" in own
    assert sum("<pre" in own for own in sections) == 6  # a dispatch has no source
    (several,) = (own for own in sections if "What each idea brings" in own)
    assert "gemm-pipelined" in several and "a second block on the multiprocessor" in several


Kind = Callable[[Path], Results]


THREE = ["naive", "sgemm", "cublas_sgemm"]
KINDS: dict[str, tuple[Kind, list[str]]] = {
    "no GPU": (
        lambda folder: made_up(folder, gpu=False, kernels=["naive", "cpu_loop"]),
        ["No time of C = A·B in float32 to draw: there is no GPU on this machine.",
         "naive one thread per result", "measured – there is no GPU"],
    ),
    "no GPU, beside a card": (
        lambda folder: beside_a_card(folder, kernels=THREE),
        ["No kernel was timed on a GPU here.", "those of an Imaginary GPU, published", "×"],
    ),
    "one operation": (
        lambda folder: made_up(folder, kernels=["gram_naive", "gram", "cublas_dsyrk"]),
        ["Matrix multiplication, step by step", "C = A·B in float32 to draw: not in",
         "one thread per result"],
    ),
    "nothing timed": (
        lambda folder: made_up(folder, shapes={}, change=lambda rows: rows[:0]),
        ["C = A·B in float32 to draw: not in", "C = A·B in bfloat16 to draw: not in",
         "C = AᵀA in float64 to draw: not in"],
    ),
    "all failed": (
        lambda folder: made_up(folder, kernels=THREE, change=failed, device={}),
        ["unknown device", "to draw: wrong result", "measured – wrong result"],
    ),
    "no square": (
        lambda folder: made_up(folder, kernels=["naive_rect", "cublas_sgemm"],
                               shapes={"gemm": ("3200x2400x1600",)}),
        ["no kernel of this project was timed at a square", "TFLOP/s (3200×2400×1600)"],
    ),
    "one kernel": (
        lambda folder: made_up(folder, kernels=["naive"]),
        ["Matrix multiplication at 14 TFLOP/s", "lacks a rate measured against the library"],
    ),
    "timed alone": (
        lambda folder: made_up(folder, kernels=["bgemm", "cublas_gemm_bf16", *THREE],
                               caches=["hot", "cold", "alone"]),
        ["timed alone", "speed-up", "They differ most at n = "],
    ),
    "other arithmetic": (
        lambda folder: made_up(folder, **RESIDUES),
        ["float64 from 8-bit residues The columns of A", "The library is faster at n = 2500."],
    ),
    "before": (
        lambda folder: dataclasses.replace(
            made_up(folder, kernels=THREE, device=DEVICE | {"version": "1.0.0"}), earlier=True),
        ["earlier kernels, of version 1.0.0", "C = A·B in bfloat16 to draw"],
    ),
    "no machine code": (
        lambda folder: load_results(Path(shutil.copytree(
            PUBLISHED_SETS[0], folder / "set", ignore=lambda *_: {"instructions.csv"})),
            the_catalogue()),
        ["past cuBLAS", "no machine code", "float64 from 8-bit residues"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "said"), KINDS.values(), ids=KINDS)
def test_the_first_page_says_what_a_set_has_and_lacks(tmp_path, make, said):
    html = first_page(make(tmp_path))
    text = text_of(html)
    assert [words for words in said if words not in text] == []
    assert ("8-bit" in text) == any("8-bit" in words for words in said)
    assert not re.search(r"\bNone\b|\bnan\b|Undefined", text)
    assert len(re.findall("<h2", html)) == 4 and len(text) > 2000


# How the pages are made.


def test_pages_are_small_and_what_they_link_to_is_there(pages):
    assert set(pages) == set(PAGES)
    for name, html in pages.items():
        assert len(html.encode()) <= LARGEST.get(name, USUAL)
        ids = re.findall(r'\bid="([^"]+)"', html)
        assert len(ids) == len(set(ids))
        own = re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)
        for link in re.findall(r'(?:href|src)="([^"]+)"', own):
            file, _, part = link.partition("#")
            if file.startswith(SETS):
                assert (PUBLISHED / Path(file).relative_to(SETS)).is_file(), link
            elif not link.startswith("data:"):
                assert file in {"", *pages} and (not part or part in ids), link
        assert "://" not in re.sub(
            r"<(?:script|svg).*?</(?:script|svg)>", "", html, flags=re.DOTALL
        )


def test_pages_are_in_order_for_those_who_hear_them(pages):
    for html in pages.values():
        levels = [int(level) for level in re.findall(r"<h(\d)", html)]
        assert levels[0] == 1 and levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert all(re.search(r'alt="[^"]+"', image) for image in re.findall(r"<img[^>]*>", html))
        drawings = re.findall(r"<svg[^>]*>", html)
        assert all("aria-label=" in own or 'aria-hidden="true"' in own for own in drawings)
        assert '<html lang="en">' in html


def luminance(colour: str) -> float:
    """WCAG's relative luminance."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_words_stand_out_in_the_light_and_in_the_dark():
    css = (TEMPLATES / "style.css").read_text()
    schemes = [dict(re.findall(r"--(\w+): (#\w{6})", own))
               for own in re.findall(r":root \{(.*?)\}", css, re.DOTALL)]  # fmt: skip
    assert len(schemes) == 2
    for colours in schemes:
        for words in ("ink", "quiet", "accent", "warm", "green", "plum"):
            for behind in ("paper", "code"):
                pair = sorted(luminance(colours[name]) for name in (words, behind))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (words, behind)


# The facts behind them.

LOOPS = {
    "a held factor": (["FFMA R1,R48.reuse,R59,R126", "FFMA R2,R48,R58,R127"],
                      [(["even", "odd", "even"], False, True),
                       (["held", "even", "odd"], True, False)]),
    "held in another place": (["FFMA R1,R48.reuse,R59,R126", "FFMA R2,R58,R48,R127"],
                              [(["even", "odd", "even"], False, True),
                               (["even", "even", "odd"], False, True)]),
    "something between": (["FFMA R1,R2.reuse,R3,R4", "LDS R9,[R8]", "DFMA R1,R2,R3,R5"],
                          [(["even", "odd", "even"], False, True),
                           (["even", "odd", "odd"], False, True)]),
    "no multiply-add": (["LDS R4,[R8]", "IADD3 R1,R2,R3,R4"], []),
}  # fmt: skip


@pytest.mark.parametrize(("loop", "found"), LOOPS.values(), ids=LOOPS)
def test_operands_are_in_a_bank_or_held(loop, found):
    shown = [([bank for _, bank in own["operands"]], own["kept"], own["clash"])
             for own in banks(loop)]  # fmt: skip
    assert shown == found


def test_speedups_have_their_way_and_the_widest_gap_is_at_one_size(tmp_path):
    results = made_up(tmp_path, kernels=["sgemm", "cublas_sgemm", "naive"], caches=["hot", "cold"])
    points = speedups(results.of("gemm"))
    assert {point["way"] for point in points} == {"in turn", "cold"}
    assert {point["kernel"] for point in points} == {"sgemm"}
    low, high = widest(points)
    assert low["n"] == high["n"] and low["ratio"] <= high["ratio"]
    assert widest(points[:1]) is None


def test_the_worklog_is_quoted_without_links():
    found = quoted()
    assert {"machine", "bound", "ablation", "swing"} < set(found) and "<table>" in found["overlap"]
    assert not any("<a " in html for html in found.values())


# In a browser.


def test_on_a_phone_nothing_is_cut_off_and_the_dial_turns_all_bars(pages, tmp_path):
    shown = ["index.html", "cards.html", "mistakes.html"]
    frames = [f'<iframe width="{PHONE}" srcdoc="{escape(pages[name])}"></iframe>' for name in shown]
    script = """
      const inside = all("iframe").map(frame => frame.contentDocument);
      const cut = inside.map(page => page.documentElement)
        .filter(page => page.scrollWidth > page.clientWidth).length;
      const texts = found => all(found, inside[0]).map(own => own.textContent);
      const before = texts(".rate"), [dial] = all("#size", inside[0]);
      dial.value = 0;
      dial.dispatchEvent(new Event("input"));
      return { cut, shown: dial.checkVisibility(), before, n: texts("output"),
               size: texts("[data-size=gemm]"), after: texts("[data-step=sgemm] .rate") };"""
    wrapper = f"<!DOCTYPE html><html><head></head><body>{''.join(frames)}</body></html>"
    said = browser.told(
        wrapper, script, tmp_path,
        ready='all("iframe").every(own => own.contentDocument.readyState === "complete"'
              ' && all("footer", own.contentDocument).length)',
    )  # fmt: skip
    gemm = bars_of(pages["index.html"])["gemm"]
    least = min(map(int, gemm["sizes"]))
    assert said["cut"] == 0 and said["shown"]
    assert said["n"] == [f"n = {least}"] and {*said["size"]} == {str(least)}
    assert gemm["sizes"][str(gemm["size"])]["sgemm"]["rate"] in said["before"]
    assert {*said["after"]} == {gemm["sizes"][str(least)]["sgemm"]["rate"]}
