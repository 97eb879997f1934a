"""The data set's files: written whole, read back unchanged, and refused by name when broken."""

import math
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from matmul_sweep.experiment.dataset.renamed import RENAMED
from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    read_rows,
    read_table,
    version_of,
    write_rows,
    write_table,
)
from matmul_sweep.process import files
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json, whole_file, write_json

ROW = dict.fromkeys(COLUMNS["verification.csv"], "1")


@pytest.mark.parametrize(
    "cut",
    [
        lambda text: "",
        lambda text: text[:20],
        lambda text: text[: text.index("\n") + 6],
        lambda text: text.replace("status", "state"),
    ],
    ids=["empty", "in the header", "in a row", "another column"],
)
def test_a_cut_verification_is_refused_by_name(tmp_path: Path, cut: Callable[[str], str]) -> None:
    """An empty one would pass for a kernel without a mistake."""
    path = tmp_path / "verification.csv"
    write_rows([ROW], "verification.csv", path)
    assert read_rows("verification.csv", path) == [ROW]
    path.write_text(cut(path.read_text()))
    with pytest.raises(UserError, match=r"verification\.csv: "):
        read_rows("verification.csv", path)


def test_a_table_without_rows_is_whole(tmp_path: Path) -> None:
    for kind in ("samples.csv.gz", "points.csv"):
        write_rows([], kind, tmp_path / kind)
        assert read_table(kind, tmp_path / kind).empty


@pytest.mark.parametrize("write", [write_table, write_rows])
def test_the_same_rows_give_the_same_bytes(tmp_path: Path, write: Callable[..., None]) -> None:
    rows = [dict.fromkeys(COLUMNS["samples.csv.gz"], 1)]
    for name in ("a.csv.gz", "b.csv.gz"):
        write(
            pd.DataFrame(rows) if write is write_table else rows, "samples.csv.gz", tmp_path / name
        )
    first = (tmp_path / "a.csv.gz").read_bytes()
    assert first == (tmp_path / "b.csv.gz").read_bytes()
    assert first[:2] == b"\x1f\x8b"


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A whole samples file of 2000 rows."""
    path = tmp_path_factory.mktemp("whole") / "samples.csv.gz"
    row = {"variant": "naive", "sweep": "gemm", "operation": "gemm", "dtype": "float32",
           "m": 8, "n": 8, "k": 8, "fill": "uniform", "mode": "burst", "baseline_of": "",
           "phase": "kernel", "cache": "hot"}  # fmt: skip
    rows = [row | {"sample": i, "time_ms": math.sqrt(i + 1)} for i in range(2000)]
    write_table(pd.DataFrame(rows), "samples.csv.gz", path)
    return path.read_bytes()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.99])
def test_a_cut_samples_file_is_refused_by_name(
    tmp_path: Path, samples: bytes, share: float
) -> None:
    path = tmp_path / "samples.csv.gz"
    path.write_bytes(samples[: int(share * len(samples))])
    with pytest.raises(UserError) as caught:
        read_table("samples.csv.gz", path)
    assert str(path) in str(caught.value)
    assert "delete it" in str(caught.value)


@pytest.mark.parametrize("lost", [1, 4, 8])
def test_a_samples_file_without_its_end_is_refused(
    tmp_path: Path, samples: bytes, lost: int
) -> None:
    """Its rows are all there, but nothing vouches for them."""
    path = tmp_path / "samples.csv.gz"
    path.write_bytes(samples[:-lost])
    with pytest.raises(UserError, match="damaged"):
        read_table("samples.csv.gz", path)


@pytest.mark.parametrize("place", [0, 3, 40, 0.2, 0.5, 0.8, -6])
def test_a_samples_file_with_a_damaged_byte_is_refused(
    tmp_path: Path, samples: bytes, place: float
) -> None:
    path, damaged = tmp_path / "samples.csv.gz", bytearray(samples)
    damaged[int(place * len(samples)) if isinstance(place, float) else place] ^= 0xFF
    path.write_bytes(damaged)
    with pytest.raises(UserError, match="damaged"):
        read_table("samples.csv.gz", path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00", b"<html>"])
def test_a_foreign_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "summary.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"summary\.csv"):
        read_table("summary.csv", path)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    path = tmp_path / "ratios.csv"
    present = [name for name in COLUMNS["ratios.csv"] if name not in ("pairs", "ratio_low")]
    path.write_text(",".join(present) + "\n")
    with pytest.raises(UserError, match=r"ratios\.csv: no column pairs, ratio_low"):
        read_table("ratios.csv", path)


def test_columns_that_came_later_are_empty_in_an_older_set_and_missed_in_a_newer_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "summary.csv"
    earlier = [name for name in COLUMNS["summary.csv"] if name != "ran"]
    row = dict.fromkeys(earlier, "1")
    path.write_text(",".join(earlier) + "\n" + ",".join(row.values()) + "\n")
    assert read_table("summary.csv", path, "0").ran.to_list() == [""]
    assert read_table("summary.csv", path, "0.9.12").columns.to_list() == COLUMNS["summary.csv"]
    for version in ("1.0.0", "1.10.0"):
        with pytest.raises(UserError, match=r"summary\.csv: no column ran, .* version 1\."):
            read_table("summary.csv", path, version)


@pytest.mark.parametrize("version", ["", "1.x", "v1.0.0", None])
def test_a_version_that_is_none_is_refused_in_one_line(version: str | None) -> None:
    with pytest.raises(UserError, match=r"device\.json: version '.*' is not of the form 1\.0\.0"):
        version_of({"version": version})


def test_an_older_set_is_read_by_todays_names_of_its_variants(tmp_path: Path) -> None:
    path = tmp_path / "samples.csv.gz"
    row = dict.fromkeys(COLUMNS["samples.csv.gz"], "1")
    old, new = "gram_register_tile[TILE_WIDTH=48,BLOCK_WIDTH=16]", "gram_register_tile/48"
    names = {old: new, "lost[W=1]": "lost[W=1]", "cpu_loop": "cpu_loop"}
    write_rows([row | {"variant": old, "baseline_of": old} for old in names], path.name, path)
    for column in ("variant", "baseline_of"):
        assert read_table(path.name, path, "0")[column].to_list() == [*names.values()]
        assert read_table(path.name, path, "1.0.0")[column].to_list() == [*names]


def test_each_renamed_variant_has_a_name_of_its_own() -> None:
    assert len({*RENAMED.values()}) == len(RENAMED)
    for old, new in RENAMED.items():
        assert old.split("[")[0] == new.split("/")[0]


@pytest.mark.parametrize(
    ("column", "text"),
    [("time_ms", "oops"), ("m", "large"), ("k", "2.5"), ("k", "oops"), ("ratio_low", "1,5")],
)
def test_text_where_a_number_belongs_is_named_with_its_line(
    tmp_path: Path, column: str, text: str
) -> None:
    kind = "ratios.csv" if column == "ratio_low" else "summary.csv"
    row = dict.fromkeys(COLUMNS[kind], "1")
    path = tmp_path / kind
    write_rows([row, row | {column: text}, row], kind, path)
    with pytest.raises(UserError) as caught:
        read_table(kind, path)
    assert str(caught.value).startswith(f"{path}, line 3, column {column}: '{text}' is not a ")
    assert str(caught.value).endswith("number; delete it and run again")


def test_infinite_and_missing_numbers_are_numbers(tmp_path: Path) -> None:
    row = dict.fromkeys(COLUMNS["summary.csv"], "1")
    write_rows(
        [row | {"error": "inf"}, row | {"error": ""}], "summary.csv", tmp_path / "summary.csv"
    )
    first, second = read_table("summary.csv", tmp_path / "summary.csv").error
    assert math.isinf(first) and math.isnan(second)


def test_a_damaged_published_file_is_to_be_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running again would not bring it back: another machine measured it."""
    monkeypatch.setattr(files, "PUBLISHED", tmp_path)
    path = tmp_path / "a-card" / "device.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(UserError, match=r"restore it with git checkout .*device\.json$"):
        read_json(path)


@pytest.mark.parametrize(
    ("text", "named"), [(None, "No such file"), ("", "damaged"), ('{"a": [1, 2', "damaged")]
)
def test_missing_or_cut_json_is_refused_by_name(
    tmp_path: Path, text: str | None, named: str
) -> None:
    path = tmp_path / "facts.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=rf"facts\.json: .*{named}"):
        read_json(path)


def test_a_missing_table_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"points\.csv: there is no such file"):
        read_table("points.csv", tmp_path / "points.csv")


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    write_json({"a": 1}, path)
    with pytest.raises(KeyboardInterrupt), whole_file(path) as temporary:
        temporary.write_text('{"a": ')
        raise KeyboardInterrupt
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_nothing_appears_before_the_write_is_done(tmp_path: Path) -> None:
    path = tmp_path / "new" / "facts.json"
    with whole_file(path) as temporary:
        temporary.write_text("{}")
        assert not path.exists()
    assert path.read_text() == "{}"
