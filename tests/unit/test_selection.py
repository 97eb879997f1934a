"""Which points of a data set are compared, whatever its catalogue lacks."""

from dataclasses import replace
from pathlib import Path

from made_up_data import made_up

from matmul.catalogue.entries import Catalogue
from matmul.operations.gram import GRAM
from matmul.report.facts.findings import all_findings


def test_a_catalogue_without_the_triangle_has_one_symmetric_rival(tmp_path: Path) -> None:
    whole = made_up(tmp_path)
    kept = {k: v for k, v in whole.catalogue.items() if k != "cublas_dsyrk_triangle"}
    results = replace(whole, catalogue=Catalogue(kept))
    assert results.of(GRAM.name).full_rivals == ["cublas_dgemm", "cublas_dsyrk"]
    assert all_findings(results)["gram_peaks"]["missing"] is None
