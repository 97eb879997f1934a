"""The gallery of mistakes is what its entries and its page say."""

import shutil
from pathlib import Path

import pytest
from support import ROOT

import report
from matmul_sweep.classroom import results
from matmul_sweep.classroom.gallery import GALLERY, MISSED, Exhibit, exhibit, exhibits
from matmul_sweep.classroom.habits import habits_of_checking
from matmul_sweep.classroom.results import COMMITTED
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json, write_json
from matmul_sweep.process.yaml_files import read_yaml
from mistakes import page_of, record_of


@pytest.fixture(scope="module")
def shown() -> list[Exhibit]:
    return exhibits(processes=2)


@pytest.mark.long
def test_the_page_and_the_results_tell_what_happens_now(shown, tmp_path):
    """`uv run python scripts/mistakes.py --output reports/mistakes --page docs/mistakes.md`
    writes them."""
    habits = [*habits_of_checking()]
    assert page_of(shown, habits) == (ROOT / "docs/mistakes.md").read_text()
    write_json(record_of(shown, habits), tmp_path / "mistakes.json")
    assert read_json(tmp_path / "mistakes.json") == read_json(COMMITTED / results.RESULTS)


def test_the_gallery_can_be_typeset():
    source = ROOT / "reports" / "mistakes.typ"
    assert report.typeset(source, {"mistakes": COMMITTED}).startswith(b"%PDF")


@pytest.mark.long
def test_what_a_classroom_checks_misses_most(shown):
    assert {one.name for one in shown} == {file.stem for file in GALLERY.parent.glob("*.cu")}
    assert sum(one.caught["ones"] == MISSED for one in shown) > len(shown) / 2
    # Two threads that write the same are right in every C; only what watches accesses sees it.
    assert {one.name for one in shown if set(one.caught.values()) == {MISSED}} == {"diagonal_twice"}


@pytest.mark.long
def test_an_entry_that_is_not_what_happens_is_one_line(tmp_path):
    source = tmp_path / "last_slab.cu"
    source.write_text((GALLERY.parent / "last_slab.cu").read_text())
    entry = read_yaml(GALLERY)["last_slab"] | {"kind": "race"}
    with pytest.raises(UserError, match=r"kind: race in gallery\.yaml, lost terms when run"):
        exhibit(source, entry)
    source.write_text((ROOT / "tests/unit/trial/naive.cu").read_text())
    with pytest.raises(UserError, match="no mistake is found"):
        exhibit(source, entry)


def test_habits_of_checking_hide_what_is_wrong():
    told = " ".join(habit.shown for habit in habits_of_checking())
    for part in ("0 of 10000 elements are wrong", "0 elements are wrong", "differ in 0 elements",
                 "12 of 12 elements are wrong. With A and B exchanged, 0 are"):  # fmt: skip
        assert part in told


def test_the_committed_results_are_of_todays_sources(tmp_path, monkeypatch):
    """Reports show them without running the gallery."""
    assert results.current()
    own = Path(shutil.copytree(results.SOURCES, tmp_path / "own"))
    monkeypatch.setattr(results, "SOURCES", own)
    assert results.current()
    with next(own.glob("*.cu")).open("a") as kernel:
        kernel.write("// another\n")
    assert not results.current()
