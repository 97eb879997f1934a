"""Published data sets can be read; current ones can be repeated, and earlier ones say so."""

import re

import pytest
from made_up_data import made_up, the_catalogue
from support import PUBLISHED_SETS

from matmul_sweep import __version__ as VERSION
from matmul_sweep.experiment.dataset.crate import CRATE, crate
from matmul_sweep.experiment.dataset.selection import load_results
from matmul_sweep.experiment.dataset.tables import read_table, write_table
from matmul_sweep.experiment.report.facts.report import data_set
from matmul_sweep.experiment.report.figures.figure_base import source_line
from matmul_sweep.process.files import read_json

folders = pytest.mark.parametrize("folder", PUBLISHED_SETS, ids=lambda folder: folder.name)


@folders
def test_a_crate_names_what_a_published_set_has(folder):
    graph = {each["@id"]: each for each in read_json(folder / CRATE)["@graph"]}
    parts = {part["@id"] for part in graph["./"]["hasPart"]}
    assert parts == {file.name for file in folder.iterdir()} - {CRATE}
    assert graph.keys() == parts | {"./", CRATE}
    device = read_json(folder / "device.json")
    assert read_json(folder / CRATE) == crate(device, parts)


@folders
def test_a_published_report_is_short(folder):
    pdf = (folder / "report.pdf").read_bytes()
    assert len(pdf) <= 3e6
    assert 0 < len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20


def test_a_set_is_earlier_once_a_kernel_has_changed(tmp_path):
    results = made_up(tmp_path, kernels=["naive"])
    assert not results.earlier and "earlier" not in source_line(results)
    path = tmp_path / "kernels.csv"
    write_table(read_table("kernels.csv", path).assign(sha256="ab"), "kernels.csv", path)
    results = load_results(tmp_path, the_catalogue())
    assert results.earlier
    assert source_line(results).endswith(f"commit 0123456 · earlier kernels, of version {VERSION}")
    assert data_set(results)["earlier"] == f"earlier kernels, of version {VERSION}"
