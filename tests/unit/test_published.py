"""What is published can be read, and could be repeated."""

from pathlib import Path

import pytest

from matmul.dataset.provenance import ROOT
from matmul.dataset.tables import DATA_SET, read_json, read_table

PUBLISHED = sorted(file.parent for file in (ROOT / "reports" / "published").glob("*/device.json"))
folders = pytest.mark.parametrize("folder", PUBLISHED, ids=lambda folder: folder.name)


@pytest.fixture
def whole(folder: Path) -> Path:
    """A data set with all of today's tables; one from before them is to be measured anew."""
    missing = [name for name in DATA_SET if not (folder / name).exists()]
    if missing:
        pytest.skip(
            f"{folder.name} is older than {', '.join(missing)}: measure and publish it anew"
        )
    return folder


def test_there_is_a_published_data_set() -> None:
    assert PUBLISHED


@folders
def test_published_figures_can_be_repeated(whole: Path) -> None:
    device = read_json(whole / "device.json")
    summary = read_table("summary.csv", whole / "summary.csv")
    assert device["gpu"] and not device["dirty"]
    assert not (summary.status == "failed").any()
    assert not summary.throttled.str.contains("thermal|hw_slowdown").any()


@folders
def test_every_table_of_the_data_set_has_its_columns(whole: Path) -> None:
    for name in set(DATA_SET) - {"device.json"}:
        assert not read_table(name, whole / name).empty
