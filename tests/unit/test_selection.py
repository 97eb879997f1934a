"""Which points of a data set are compared, whatever its catalogue lacks."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
from made_up_data import DEVICE, made_up

from matmul.catalogue.entries import Catalogue
from matmul.operations.gram import GRAM
from matmul.report.facts.findings import all_findings


def test_a_power_limit_that_left_the_clock_alone_is_no_limit(tmp_path: Path) -> None:
    flags = {"naive": "power_cap", "shared": "hw_slowdown+power_cap+sw_thermal"}
    slowed = {"naive": 1980.0, "shared": 1980.0, "sgemm": 1965.0, "vectors": None}

    def change(summary: pd.DataFrame) -> pd.DataFrame:
        clock = summary.kernel.map(slowed).where(summary.phase == "kernel")
        return summary.assign(
            throttled=summary.kernel.map(flags).fillna("power_cap"), sm_clock_mhz=clock
        )

    device = DEVICE | {"clock_mhz": 1980}
    rows = made_up(tmp_path, kernels=list(slowed), device=device, change=change).launches
    assert rows.groupby("kernel").throttled.first().to_dict() == {
        "naive": "", "shared": "hw_slowdown+sw_thermal", "sgemm": "power_cap",
        "vectors": "power_cap",
    }  # fmt: skip


def test_a_catalogue_without_the_triangle_has_one_symmetric_rival(tmp_path: Path) -> None:
    whole = made_up(tmp_path)
    kept = {k: v for k, v in whole.catalogue.items() if k != "cublas_dsyrk_triangle"}
    results = replace(whole, catalogue=Catalogue(kept))
    assert results.of(GRAM.name).full_rivals == ["cublas_dgemm", "cublas_dsyrk"]
    assert all_findings(results)["gram_peaks"]["missing"] is None
