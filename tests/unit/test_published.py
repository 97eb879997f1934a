"""Published data sets can be read; current ones can be repeated, and earlier ones say so."""

import re

import pytest
from support import PUBLISHED_SETS

from matmul_sweep.experiment.dataset.crate import CRATE, crate
from matmul_sweep.process.files import read_json

folders = pytest.mark.parametrize("folder", PUBLISHED_SETS, ids=lambda folder: folder.name)


@folders
def test_a_crate_names_what_a_published_set_has(folder):
    graph = {each["@id"]: each for each in read_json(folder / CRATE)["@graph"]}
    parts = {part["@id"] for part in graph["./"]["hasPart"]}
    assert parts == {file.name for file in folder.iterdir()} - {CRATE}
    assert graph.keys() == parts | {"./", CRATE}
    assert read_json(folder / CRATE) == crate(read_json(folder / "device.json"), parts)


@folders
def test_a_published_report_is_short(folder):
    pdf = (folder / "report.pdf").read_bytes()
    assert len(pdf) <= 3e6
    assert 0 < len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 20
