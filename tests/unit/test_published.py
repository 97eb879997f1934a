"""What is published was measured with the kernels that lie beside it."""

from pathlib import Path

import pytest

from matmul.catalogue import load_catalogue
from matmul.dataset import DATA_SET, read_json, read_table
from matmul.provenance import ROOT

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
def test_published_rows_carry_the_digests_of_todays_kernels(folder: Path) -> None:
    """A kernel may be too new to be published; none that is published may be an older one."""
    published = read_table("kernels.csv", folder / "kernels.csv")
    today = {v.name: v.sha256 for v in load_catalogue().variants.values()}
    digests = dict(zip(published.variant, published.sha256, strict=True))
    assert digests == {name: today.get(name) for name in digests}


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
