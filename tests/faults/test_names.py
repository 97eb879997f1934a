"""Hostile names and files: refused in a line before anything is done with them, or just names."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import C_ENTRY, CALLS, SHAPES, Job, Tried, calls_of, counting, one_error
from project import Project
from support import CUDA_ENTRY, RIGHT_KERNEL, ROOT, Command

from matmul.catalogue.entries import load_catalogue
from matmul.catalogue.schema import read_yaml
from matmul.dataset.tables import write_rows
from matmul.process.errors import UserError
from matmul.settings.configuration import check_configuration, chosen_jobs

NAMES = [
    "../../x", "/etc/x", "$(touch pwned)", "`touch pwned`", "; touch pwned", "a b", "a'b", 'a"b',
    "a\nb", "mine\n", "a\0b", "a\\b", "a*b", "{a}", "-x", "x" * 300, "", "ｍine", "a\u202eb",
]  # fmt: skip
CONFIG = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
WHERE = ("kernels", "sweeps", "shapes", "catalogue", "architectures", "device", "fills", "modes",
         "caches")  # fmt: skip


def refused(action: Callable[[], object]) -> str:
    """The one line of a UserError."""
    with pytest.raises(UserError) as error:
        action()
    said = str(error.value)
    assert said
    assert len(said.splitlines()) == 1
    return said


def with_name(key: str, name: str) -> dict[str, Any]:
    """The configuration with a name at one of its keys."""
    gemm = CONFIG["sweeps"]["gemm"]
    changes = {
        "sweeps": {name: gemm},
        "shapes": {"gemm": gemm | {"shapes": [name]}},
        "catalogue": name,
        "device": name,
    }
    return CONFIG | {"sweeps" if key == "shapes" else key: changes.get(key, [name])}


@pytest.mark.fault("a hostile name in the configuration: 19 names at 9 keys", 171)
def test_names_in_the_configuration(monkeypatch: pytest.MonkeyPatch, tried: Tried) -> None:
    monkeypatch.chdir(ROOT)
    check_configuration(CONFIG, ["right.yaml"])
    for key in WHERE:
        for name in NAMES:
            said = refused(lambda key=key, name=name: check_configuration(
                with_name(key, name), ["test.yaml"]
            ))  # fmt: skip
            assert said.startswith("test.yaml: ") or key == "catalogue"
            tried("refused in one line")


def catalogue_with(key: str, name: str) -> dict[str, Any]:
    """A catalogue with a name at one of the keys of a kernel, or as a kernel's."""
    if key == "kernel":
        return {name: CUDA_ENTRY}
    changes = {
        "documents": [name],
        "parameters": {name: 1},
        "tilings": {name: {"W": 1}},
        "multiples": {name: 1},
        "tile": [name, 16],
    }
    return {"mine": CUDA_ENTRY | {key: changes.get(key, name)}}


KEYS = ("kernel", "operation", "source", "function", "accepts", "documents", "parameters",
        "tilings", "multiples", "tile")  # fmt: skip


@pytest.mark.fault("a hostile name in the catalogue: 19 names at 10 keys", 190)
def test_names_in_the_catalogue(tmp_path: Path, tried: Tried) -> None:
    (tmp_path / "mine.cu").write_text(RIGHT_KERNEL)
    path = tmp_path / "catalogue.yaml"
    path.write_text(yaml.safe_dump({"mine": CUDA_ENTRY}))
    load_catalogue(path)
    for key in KEYS:
        for name in NAMES:
            path.write_text(yaml.safe_dump(catalogue_with(key, name)))
            assert str(path) in refused(lambda: load_catalogue(path))
            tried("refused in one line")


HOSTILE = "a b $(touch pwned) `touch pwned` 'q\" ;touch pwned"


@pytest.mark.fault("the project, the catalogue and the configuration lie under hostile names", 1)
def test_folders_of_any_name(
    new_project: Callable[..., Project], tmp_path: Path, tried: Tried
) -> None:
    """Run from another folder, so that the rules call the scripts by these names."""
    project = new_project("counted")
    folder, elsewhere = tmp_path / HOSTILE, tmp_path / "elsewhere"
    shutil.move(project.folder, folder)
    shutil.move(folder / "kernels", folder / HOSTILE)
    shutil.copytree(folder / "config", elsewhere / "config")
    config = yaml.safe_load((folder / "config" / "test.yaml").read_text())
    config["catalogue"] = str(folder / HOSTILE / "test.yaml")
    (folder / HOSTILE / "config.yaml").write_text(yaml.safe_dump(config))
    moved = counting(Project(elsewhere, project.environment))
    moved.done(
        "results/local/summary.csv", "--snakefile", str(folder / "Snakefile"),
        configfile=str(folder / HOSTILE / "config.yaml"),
    )  # fmt: skip
    assert [calls_of(moved)[m] for m in SHAPES] == [CALLS] * len(SHAPES)
    assert not [*tmp_path.rglob("pwned*")]
    tried("they are names like others: the run completed")


TITLES = {
    "counted": "$\\undefined$ $",
    "late_endless": "#panic() *a* [b] <c> @d",
    "late_stray": 'x"\\"\'`${PATH}`',
}


@pytest.mark.fault("a kernel's title and sentence are a formula, markup, or code", 3)
def test_titles_of_any_text(
    new_job: Callable[..., Job], command: Command, tmp_path: Path, tried: Tried
) -> None:
    """They are drawn and typeset as they stand."""
    jobs = [new_job(kernel=name) for name in TITLES]
    for job in jobs:
        job.done()
    entries = yaml.safe_load(jobs[0].catalogue.read_text())
    titled = {n: entries[n] | {"title": text, "lesson": text} for n, text in TITLES.items()}
    catalogue = jobs[0].catalogue.with_name("titles.yaml")
    catalogue.write_text(yaml.safe_dump(titled))
    verified, ceilings, tables, report = (
        tmp_path / n for n in ("verified.csv", "card.csv", "tables.json", "report.pdf")
    )
    write_rows([], "verification.csv", verified)
    write_rows([], "ceilings.csv", ceilings)
    data = ["--catalogue", catalogue, "--data", tmp_path]
    for arguments in (
        ["collect", "--catalogue", catalogue, "--measured", *(job.folder for job in jobs),
         "--verified", verified, "--ceilings", ceilings,
         "--output", tmp_path, "--others", tmp_path / "others"],
        ["figures", *data, "--output", tmp_path / "figures"],
        ["page", *data, "--output", tmp_path / "explore.html"],
        ["tables", *data, "--output", tables],
        ["report", "--tables", tables, "--figures", tmp_path / "figures", "--output", report],
    ):  # fmt: skip
        told = command(*arguments)
        assert told.code == 0, told.err
    assert report.read_bytes().startswith(b"%PDF")
    written = tables.read_text()
    for title in TITLES.values():
        assert json.dumps(title) in written
        tried("drawn and typeset as it stands")


@pytest.mark.fault("a title of 300 letters, and one of two lines", 2)
def test_titles_that_fit_no_figure(tmp_path: Path, tried: Tried) -> None:
    (tmp_path / "mine.cu").write_text(RIGHT_KERNEL)
    path = tmp_path / "catalogue.yaml"
    for title in ("x" * 300, "a\nb"):
        path.write_text(yaml.safe_dump({"mine": CUDA_ENTRY | {"title": title}}))
        assert "mine.title" in refused(lambda: load_catalogue(path))
        tried("refused in one line")


# Files of YAML.


def laughs(level: str) -> str:
    """Lists, or mappings, of aliases of aliases: 2⁴⁰ nodes in forty lines."""
    lines = [f"a0: &a0 {level.format('x', 'x')}"]
    lines += [f"a{i}: &a{i} {level.format(f'*a{i - 1}', f'*a{i - 1}')}" for i in range(1, 40)]
    return "\n".join(lines)


YAMLS: Mapping[str, str | bytes] = {
    "lists of aliases of aliases": laughs("[{}, {}]"),
    "mappings of aliases of aliases": laughs("{{a: {}, b: {}}}"),
    "an alias of itself": "a: &a [*a]",
    "100,000 open brackets": "a: " + "[" * 100_000,
    "100,000 open braces": "a: " + "{a: " * 100_000,
    "100,000 nested items": "- " * 100_000,
    "a key given twice": "mine: 1\nmine: 2",
    "a key given twice, deeper": "mine: {title: a, title: b}",
    "a list as a key": "? [a]\n: 1",
    "an unknown alias": "a: *b",
    "an object of Python": "a: !!python/object/apply:os.system ['touch pwned']",
    "a number of 5,000 digits": "a: " + "1" * 5000,
    "a day that is none": "a: 2026-02-31",
    "bytes that are no text": b"\xff\xfe\x00",
    "a zero byte": "a: \0",
    "a tab": "a:\n\t- b",
    "nothing": "",
    "a word": "word",
}


@pytest.mark.fault("YAML that explodes, nests too deeply, gives a key twice, and the like", 18)
def test_hostile_yaml(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: Tried) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "catalogue.yaml"
    for content in YAMLS.values():
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert refused(lambda: load_catalogue(path)).startswith(f"{path}: ")
        tried("refused in one line that names the file")
    assert not (tmp_path / "pwned").exists()


@pytest.mark.fault("a YAML file of 1 GB, and one without an end", 2)
def test_huge_yaml(tmp_path: Path, tried: Tried) -> None:
    path = tmp_path / "catalogue.yaml"
    with path.open("wb") as file:
        file.truncate(10**9)
    for large in (path, Path("/dev/zero")):
        assert refused(lambda large=large: read_yaml(large)) == (
            f"{large}: larger than 16 MiB, too large to be read"
        )
        tried("refused by its size, unread")


@pytest.mark.fault("a catalogue of 10,000 kernels", 1)
def test_ten_thousand_kernels(tmp_path: Path, tried: Tried) -> None:
    (tmp_path / "mine.c").write_text("")
    entry = C_ENTRY | {"source": "mine.c", "function": "mine"}
    path = tmp_path / "catalogue.yaml"
    text = yaml.safe_dump({"k": entry})
    path.write_text("".join(text.replace("k:", f"k{i}:", 1) for i in range(10_000)))
    catalogue = load_catalogue(path)
    assert len(catalogue.variants) == 10_000
    chosen = chosen_jobs(CONFIG | {"kernels": ["k9999"]}, catalogue)
    assert [*chosen["gemm"]] == ["k9999"]
    tried("read; one of them is found")


@pytest.mark.fault("a configuration that gives a key twice, or a limit that is no number", 3)
def test_a_hostile_configuration_under_snakemake(
    new_project: Callable[..., Project], tried: Tried
) -> None:
    project = new_project("counted")
    right = project.path("config/test.yaml").read_text()
    for addition, named in {
        "device: cpu\n": "config/test.yaml: no valid YAML: key 'device' is given twice",
        "limits: {gpu_seconds: .nan}\n": "limits.gpu_seconds: nan",
        f"{laughs('[{}, {}]')}\nkernels: *a39\n": "nodes with its aliases written out",
    }.items():
        project.path("config/test.yaml").write_text(right + addition)
        run = project.snakemake("results/local/summary.csv")
        assert run.returncode == 1
        assert named in one_error(run.stdout)
        tried("refused in one line")
    assert not calls_of(project)
