"""The table of the ways of timing has every number in the column of its own way."""

import pandas as pd
from made_up_data import made_up
from test_tables import typeset

from matmul_sweep.experiment.report.facts.ways import ways

FACTORS = {"alone": 0.8, "hot": 1.0, "cold": 0.7, "rotated": 0.9}  # the last one is not told


def in_a_row_at_320(summary: pd.DataFrame) -> pd.DataFrame:
    """A change that gives each way a rate of its own, of many launches in a sample at 320."""
    hot = (summary.cache == "hot") & (summary.phase == "kernel")
    many = (hot & (summary.n == 320)).map({True: 9, False: 1})
    rates = summary.cache.map(FACTORS) * summary.n
    return summary.assign(launches=many, tflops=rates.where(summary.phase == "kernel"))


def test_each_rate_has_its_way_of_timing(tmp_path):
    kernels = ["naive", "sgemm", "cublas_sgemm"]
    options = {"shapes": {"gemm": (320, 1024)}, "change": in_a_row_at_320}
    results = made_up(tmp_path / "alone", kernels=kernels, caches=[*FACTORS], **options)
    small, large = ways(results)
    assert (small["kernel"], small["n"], large["n"]) == ("sgemm", 320, 1024)
    assert small["rates"] == {"alone": 256, "in a row": 320, "cold": 224}
    assert large["rates"]["in turn"] == 1024 and "in a row" not in large["rates"]
    assert (large["power_w"], large["per_joule"]) == (300, 0.8 * 1024 * 1000 / 300)
    assert typeset(results, tmp_path).startswith(b"%PDF")
    assert ways(made_up(tmp_path / "in turn", kernels=kernels, **options)) == []
