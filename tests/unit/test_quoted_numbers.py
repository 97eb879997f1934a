"""What the reports of the published sets quote follows from their tables, read by pandas alone."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import PUBLISHED_SETS

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import load_results
from matmul_sweep.experiment.report.facts.documents import documents
from matmul_sweep.experiment.report.facts.report import tables_of

pytestmark = pytest.mark.slow

LADDERS = ["gemm", "gram"]


def quoted_from(table: pd.DataFrame, way: str) -> pd.DataFrame:
    """Rows of squares that were timed alone at shapes that nobody drew; or the hot ones from each
    operation's sweep, or its longer one where that has them."""
    hot = table.sweep.isin([*LADDERS, *(f"{name}_large" for name in LADDERS)])
    alone = (table.cache == "alone") & ~table.sweep.str.startswith("random")
    rows = table[alone if way == "alone" else hot & (table.cache == "hot")].sort_values("sweep")
    rows = rows[(rows.m == rows.n) & (rows.k.fillna(rows.n) == rows.n)]
    key = [name for name in ("variant", "baseline", "operation", "n") if name in rows]
    return rows.drop_duplicates(key, keep="last")


Published = tuple[dict[str, Any], pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="module", params=PUBLISHED_SETS, ids=lambda folder: folder.name)
def published(request: pytest.FixtureRequest) -> Published:
    """The tables of a set's report, its kernel times, and its ratios."""
    found = tables_of(load_results(request.param, load_catalogue()), documents())
    timed = pd.read_csv(request.param / "summary.csv").query("status == 'ok' and phase == 'kernel'")
    return found, timed, pd.read_csv(request.param / "ratios.csv")


def test_rates_shares_and_errors_are_those_of_the_tables(published):
    found, every, ratios = published
    compared = 0
    for ladder in (found["ladders"][name] for name in LADDERS):
        n = int(ladder["size"])
        timed, pairs = (quoted_from(table, ladder["way"]) for table in (every, ratios))
        for step in (step for step in ladder["steps"] if step["name"] in ladder["stairs"]):
            own = timed[(timed.kernel == step["name"]) & (timed.n == n)]
            best = own.loc[own.time_ms.idxmin()]
            assert step["rate"]["value"] == pytest.approx(best.tflops, rel=1e-12)
            here = pairs[(pairs.variant == best.variant) & (pairs.n == n)].set_index("ratio")
            for share in step["shares"]:
                assert share["interval"] == [*here.loc[share["ratio"], ["ratio_low", "ratio_high"]]]
                assert share["rate"] == pytest.approx(best.tflops / share["ratio"], rel=1e-12)
                compared += 3
    assert compared >= 20
    accuracy = found["findings"]["accuracy"]["gemm"]
    assert [*accuracy["kernels"]] == sorted(accuracy["kernels"], key=lambda own: own["mean_error"])
    for kernel in accuracy["kernels"]:
        errors = every[(every.kernel == kernel["name"]) & (every.n == accuracy["n"])].mean_error
        assert kernel["mean_error"] in set(errors)


def test_random_shapes_are_held_against_the_fastest_rival_that_fills_c_if_one_was_timed(published):
    found, _, ratios = published
    drawn = ratios[ratios.sweep.str.startswith("random")].fillna({"k": 0})
    half = drawn.baseline == "cublas_dsyrk_triangle"
    only = half.groupby([drawn[key] for key in ("kernel", "m", "n", "k")]).transform("all")
    drawn = drawn[~half | only]
    for own in found["random_shapes"]:
        rows = drawn[drawn.kernel == own["kernel"]["name"]]
        least = rows.groupby(["m", "n", "k"]).ratio.min()
        quantiles = np.quantile(least, (0, 0.5))
        assert [own["all"][name] for name in ("worst", "median")] == pytest.approx(quantiles)
