"""What would be a traceback before the Snakefile is read is one line, by the profiles of today."""

import sys
from pathlib import Path

import pytest
import yte
from support import ROOT

PROFILES = sorted((ROOT / "profiles").glob("*/config.yaml"))
# What a configuration's file contains, and the line after its name.
BROKEN = [
    (b"sweeps:\n  gemm:\n shapes: [64]\n", "line 3: not valid YAML: did not find expected key"),
    (b"sweeps:\n\tgemm: 1\n", "line 2: not valid YAML: found character that cannot start"),
    (b"seed: !!python/name:os.system\n", "line 1: not valid YAML: could not determine a"),
    (b"# gr\xf6\xdfe\n", "not valid YAML: unacceptable character"),
    (b"seed: 1\nseed: 2\n", "line 2: not valid YAML: key 'seed' is given twice"),
    (b"a: " + 100_000 * b"[", "line 1: not valid YAML: nested more than 100 deep"),
    (b"", "no keys with values, as config/config.yaml has them"),
    (b"- a\n", "no keys with values, as config/config.yaml has them"),
    (None, "No such file or directory"),
]  # fmt: skip
# Variables of the environment, and a part of the line.
AROUND = [
    ({"TMPDIR": "/dev/null"}, "TMPDIR is '/dev/null', no folder that you may write in"),
    ({"XDG_CACHE_HOME": "/dev/null/x"}, "'/dev/null/x': set XDG_CACHE_HOME to a folder that you"),
    ({"XDG_CACHE_HOME": "", "HOME": "/dev/null"}, "'/dev/null/.cache': set XDG_CACHE_HOME to a"),
]  # fmt: skip


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder where a command is typed that names the files a.yaml and b.yaml."""
    words = ["snakemake", "--config=seed=1", "--configfile", "a.yaml", "b.yaml", "--cores=1", "all"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", words)
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("seed: 1\n")
    return tmp_path


def line_of(profile: Path) -> str:
    """What ends the process while Snakemake reads a profile."""
    with pytest.raises(SystemExit) as ended:
        yte.process_yaml(profile.read_text(), require_use_yte=True)
    [line] = str(ended.value).splitlines()
    return line


@pytest.mark.parametrize("profile", PROFILES, ids=lambda file: file.parent.name)
def test_what_is_right_is_a_profile(started, profile):
    assert "nolock" in yte.process_yaml(profile.read_text(), require_use_yte=True)


@pytest.mark.parametrize(("content", "said"), BROKEN)
def test_a_file_that_is_no_configuration(started, content, said):
    (started / "b.yaml").unlink()
    if content is not None:
        (started / "b.yaml").write_bytes(content)
    assert all(line_of(profile).startswith(f"error: b.yaml: {said}") for profile in PROFILES)


@pytest.mark.parametrize(("variables", "said"), AROUND)
def test_a_folder_that_cannot_be_used(started, monkeypatch, variables, said):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert said in line_of(PROFILES[0])


def test_a_key_without_a_value(started, monkeypatch):
    for words in (["--config", "seed=1", "all"], ["-C", "all"], ["--config=all", "--cores", "1"]):
        monkeypatch.setattr(sys, "argv", ["snakemake", *words])
        assert line_of(PROFILES[0]) == "error: --config all: write KEY=VALUE, and targets after --"


def test_an_encoding_that_is_not_utf_8(started, monkeypatch):
    monkeypatch.setattr("locale.getpreferredencoding", lambda _: "ANSI_X3.4-1968")
    assert line_of(PROFILES[0]).endswith("set PYTHONUTF8=1")
