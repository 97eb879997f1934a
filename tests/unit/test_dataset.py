"""The data set's files: written whole, read back unchanged, and refused by name when broken."""

import gzip
import itertools
import math
import os
import re
from collections.abc import Callable

import pandas as pd
import pytest
from support import ROOT

from matmul_sweep.experiment.dataset import tables
from matmul_sweep.experiment.dataset.tables import (
    COLUMNS,
    DICTIONARY,
    FIRST,
    TABLES,
    Column,
    read_folder,
    read_table,
    version_of,
    write_rows,
    write_table,
)
from matmul_sweep.process import files
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json, whole_file, write_json

SAMPLES = "samples.csv.gz"
ROWS = {kind: dict.fromkeys(columns, "1") for kind, columns in COLUMNS.items()}


def described(column: Column) -> tuple[str, str, str]:
    """What docs/data-sets.md says of a column."""
    kind = column.kind + (f", {column.unit}" if column.unit else "")
    low, high = column.low, column.high
    bounds = f"{low:g} to {high:g}" if high < math.inf else f"from {low:g}" * (low > -math.inf)
    words = f"`{column.words}`".replace("|", r"\|") if column.words else bounds
    return kind, words, "" if column.since == FIRST else column.since


def test_the_documentation_says_of_each_column_what_its_declaration_does():
    rows = [
        f"| {', '.join(f'`{column.name}`' for column in columns)} | {' | '.join(said)} |"
        for said, columns in itertools.groupby(DICTIONARY.values(), described)
    ]
    page = (ROOT / "docs/data-sets.md").read_text()
    assert page[page.index("## Columns") :].split("\n\n")[2].splitlines()[2:] == rows
    assert {*DICTIONARY} == {name for columns in COLUMNS.values() for name in columns}
    for kind, table in TABLES.items():
        assert table.place != "set" or f"`{kind}`" in (ROOT / "docs/measuring.md").read_text()


def test_the_same_rows_give_the_same_bytes_and_none_a_whole_table(tmp_path):
    row = {name: 1 if column.kind != "text" else "x" for name, column in DICTIONARY.items()}
    rows = [row, row | {"k": None}]
    write_rows(rows, SAMPLES, tmp_path / SAMPLES)
    write_table(pd.DataFrame(rows), SAMPLES, tmp_path / "b.csv.gz")
    first = (tmp_path / SAMPLES).read_bytes()
    assert first == (tmp_path / "b.csv.gz").read_bytes()
    assert b",1,1,1,x," in gzip.decompress(first) and b",1,1,,x," in gzip.decompress(first)
    write_rows([], SAMPLES, tmp_path / SAMPLES)
    assert read_table(SAMPLES, tmp_path / SAMPLES).empty


def damaged(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def without(kind: str, *names: str) -> bytes:
    return ",".join(name for name in COLUMNS[kind] if name not in names).encode() + b"\n"


def more(**cells: str) -> Callable[[bytes], bytes]:
    """With one more row of a summary."""
    return lambda whole: whole + ",".join((ROWS["summary.csv"] | cells).values()).encode() + b"\n"


# The table, its content from that of a whole one, and what is said.
BROKEN: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("verification.csv", lambda whole: b"", "cut short"),
    ("verification.csv", lambda whole: whole[:20], "cut short"),
    ("verification.csv", lambda whole: whole[:-1], "cut short"),
    ("verification.csv", lambda whole: whole.replace(b"status", b"state"), "no column status, "),
    ("summary.csv", lambda whole: whole.replace(b"reason", b"reason,gflops", 1), "column gflops"),
    ("ratios.csv", lambda whole: without("ratios.csv", "pairs", "ratio_low"),
     "no column pairs, no column ratio_low, unlike ratios.csv of version 1."),
    (SAMPLES, lambda whole: whole[: len(whole) // 3], "cut short"),
    *((SAMPLES, lambda whole, place=place: damaged(whole, place), "damaged")
      for place in (0, 40, -6)),
    ("summary.csv", more(time_ms="oops"), ", line 52, column time_ms: 'oops' is not a number; "),
    ("summary.csv", more(tflops='"1,5"'), ", line 52, column tflops: '1,5' is not a number; "),
    ("summary.csv", more(m="large"), ", line 52, column m: 'large' is not a whole number; "),
    ("summary.csv", more(k="2.5"), ", line 52, column k: '2.5' is not a whole number; "),
    ("summary.csv", more(samples="1.5"), ", column samples: '1.5' is not a whole number; "),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "broken", "said"), BROKEN)
def test_a_broken_table_is_refused_by_name(tmp_path, kind, broken, said):
    """A verification that is empty would pass for a kernel without a mistake."""
    path = tmp_path / kind
    with pytest.raises(UserError, match=f"{kind}: there is no such file"):
        read_table(kind, path)
    write_rows([ROWS[kind]] * 50, kind, path)
    assert len(read_table(kind, path)) == 50
    path.write_bytes(broken(path.read_bytes()))
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        read_table(kind, path)
    assert str(caught.value).startswith((f"{path}: ", f"{path}, line 52"))
    assert str(caught.value).endswith("; delete it and run again")


def test_columns_that_came_later_are_empty_in_an_older_set_and_missed_in_a_newer_one(tmp_path):
    path = tmp_path / "summary.csv"
    header = without("summary.csv", "launches")
    path.write_bytes(header + b"1" + b",1" * header.count(b",") + b"\n")
    for version in ("1.0.0", "1.0.12"):
        table = read_table("summary.csv", path, version)
        assert table.columns.to_list() == COLUMNS["summary.csv"]
        assert table.launches.isna().all()
    with pytest.raises(UserError, match=r"no column launches, unlike .* version 1\.10\.0"):
        read_table("summary.csv", path, "1.10.0")


@pytest.mark.parametrize("version", ["", "1.x", "v1.0.0", None])
def test_a_version_that_is_none_is_refused_in_one_line(version):
    with pytest.raises(UserError, match=r"device\.json: version '.*' is not of the form 1\.0\.0"):
        version_of({"version": version})


@pytest.mark.parametrize("device", [{}, {"version": "0.9.12"}, {"version": "99.0.0"}])
def test_a_set_of_before_versions_or_of_a_later_one_is_read_by_its_own_program(device):
    with pytest.raises(UserError, match=r"this reads those from 1\.0\.0 to .*; check out that one"):
        version_of(device)


def test_a_damaged_file_is_to_be_restored_or_its_folder_to_be_made_again(tmp_path, monkeypatch):
    """A published one was measured by another machine."""
    monkeypatch.setattr(files, "PUBLISHED", tmp_path)
    path = tmp_path / "a-card" / "device.json"
    path.parent.mkdir()
    path.write_text("{")
    with pytest.raises(UserError, match=r"restore it with git checkout .*device\.json$"):
        read_json(path)
    # Of a job's output, which Snakemake makes as a whole:
    monkeypatch.setattr(files, "PUBLISHED", tmp_path / "none")
    (tmp_path / ".snakemake_timestamp").touch()
    with pytest.raises(UserError, match=f"delete {tmp_path} and run again"):
        read_json(path)


def test_a_file_has_its_name_once_it_is_on_disk_and_its_users_permissions(tmp_path, monkeypatch):
    """Renamed earlier, it could be empty after a power cut."""
    path = tmp_path / "point.json"
    synced: list[tuple[int, bool]] = []
    monkeypatch.setattr(
        files.os, "fsync", lambda handle: synced.append((os.fstat(handle).st_ino, path.exists()))
    )
    before = os.umask(0o027)
    try:
        write_json({"a": 1}, path)
    finally:
        os.umask(before)
    assert synced == [(path.stat().st_ino, False)]
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("device.json", b"[" * 100_000, "device.json: cut short or damaged"),
        ("device.json", b" " * (files.MOST_BYTES + 1), "larger than 16 MiB"),
        (SAMPLES, gzip.compress(bytes(2 << 20)), "larger than 1 MiB"),
        ("kernels.csv", b"a," * 10**5 + b"\n", "no column kernel, no column variant"),
    ],
)
def test_a_hostile_file_is_refused_in_a_short_line(tmp_path, name, content, said, monkeypatch):
    monkeypatch.setattr(tables, "LARGEST_TABLE", 1 << 20)
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UserError, match=re.escape(said)) as caught:
        read_json(path) if path.suffix == ".json" else read_table(name, path)
    assert len(str(caught.value)) < 500


def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / SAMPLES)
    with pytest.raises(UserError, match="where a file is wanted"):
        read_table(SAMPLES, tmp_path / SAMPLES)
    (tmp_path / "device.json").symlink_to("device.json")
    with pytest.raises(UserError, match=r"device\.json: Too many levels of symbolic links"):
        read_json(tmp_path / "device.json")
    (tmp_path / "device.json").unlink()
    (tmp_path / "device.json").write_text("[]")
    with pytest.raises(UserError, match=r"device\.json: not a mapping"):
        read_folder(tmp_path)


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "new" / "facts.json"
    write_json({"a": 1}, path)
    with pytest.raises(KeyboardInterrupt), whole_file(path) as temporary:
        temporary.write_text('{"a": ')
        assert read_json(path) == {"a": 1}
        raise KeyboardInterrupt
    assert read_json(path) == {"a": 1}
    assert list(path.parent.iterdir()) == [path]
