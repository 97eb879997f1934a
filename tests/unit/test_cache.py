"""The cache of binaries: what it gives back, what it passes by, and that it stays small."""

import errno
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from support import RIGHT_KERNEL

from matmul_sweep.build import cache
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.operations import OPERATIONS

KEY = cache.key_of(["a command"], [])


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the cache."""
    monkeypatch.setenv(cache.PLACE, str(tmp_path / "cache"))
    cache.passed_by.cache_clear()
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that g++ is asked for, which writes a number in the place of one."""
    asked: list[str] = []

    def compile(units: Any, executable: Path, *_: object) -> str:
        asked.append(str(units))
        executable.write_text(str(len(asked)))
        return ""

    monkeypatch.setattr(emulation, "_compile", compile)
    return asked


def built(source: Path, program: Path, watch: bool = False) -> str:
    """A program that build made or the cache had, as text."""
    emulation.build(source, ["mine"], OPERATIONS["gemm"], {}, program, watch)
    return program.read_text()


def write(source: Path, text: str = RIGHT_KERNEL) -> Path:
    source.parent.mkdir(exist_ok=True)
    source.write_text(text)
    return source


def kept(key: str, content: bytes, folder: Path) -> None:
    (folder / "binary").write_bytes(content)
    cache.keep(key, folder / "binary", "a report")


@pytest.mark.usefixtures("place")
def test_an_empty_variable_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.PLACE, "")
    monkeypatch.chdir(tmp_path)
    kept(KEY, b"binary", tmp_path)
    assert cache.fetch(KEY, tmp_path / "copy") is None
    assert [file.name for file in tmp_path.iterdir()] == ["binary"]


def cut(entry: Path) -> None:
    entry.write_bytes(entry.read_bytes()[:-1])


def foreign(entry: Path) -> None:
    entry.write_bytes(b"of another program\n")


def unreadable(entry: Path) -> None:
    entry.unlink()
    entry.mkdir()


def no_folder(entry: Path) -> None:
    shutil.rmtree(entry.parent)
    entry.parent.write_text("a file")


@pytest.mark.parametrize("spoil", [cut, foreign, unreadable, no_folder])
def test_what_is_no_entry_is_passed_by_with_one_line(place, tmp_path, compiled, caplog, spoil):
    source = write(tmp_path / "mine.cu")
    assert built(source, tmp_path / "first") == built(source, tmp_path / "again") == "1"
    assert os.access(tmp_path / "again", os.X_OK)
    [entry] = place.iterdir()
    spoil(entry)
    assert built(source, tmp_path / "anew") == "2"
    assert len(compiled) == 2
    assert caplog.messages
    assert all(line.startswith(f"the cache of binaries, {place}: ") for line in caplog.messages)


def test_a_full_disk_costs_one_line_and_leaves_no_part_of_an_entry(
    place, tmp_path, monkeypatch, caplog
):
    def full(*names: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    for _ in range(2):
        kept(KEY, b"binary", tmp_path)
    [line] = caplog.messages
    assert line.startswith(f"the cache of binaries, {place}: ") and "No space left" in line
    assert list(place.iterdir()) == []


def test_what_was_used_least_recently_goes_first_and_what_is_no_entry_stays(
    place, tmp_path, monkeypatch
):
    monkeypatch.setattr(cache, "MOST_BYTES", 4000)
    keys = [cache.key_of([str(n)], []) for n in range(5)]
    for age, key in enumerate(keys[:3]):
        kept(key, bytes(900), tmp_path)
        os.utime(place / key, (age, age))
    (place / "thesis.tex").write_bytes(bytes(900))
    os.utime(place / "thesis.tex", (0, 0))
    assert cache.fetch(keys[0], tmp_path / "copy") is not None  # used last
    for key in keys[3:]:
        kept(key, bytes(900), tmp_path)
    assert {file.name for file in place.iterdir()} == {keys[0], keys[3], keys[4], "thesis.tex"}


@pytest.mark.usefixtures("place")
def test_clones_share_entries_but_for_those_whose_findings_name_their_files(tmp_path, compiled):
    clones = [write(tmp_path / name / "mine.cu") for name in ("one", "two")]
    assert [built(source, tmp_path / "program") for source in clones] == ["1", "1"]
    assert [built(source, tmp_path / "program", watch=True) for source in clones] == ["2", "3"]
