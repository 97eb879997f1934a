"""The search: which candidates and shapes it tries, and what it writes."""

import re
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from support import ROOT, Entry, WriteCatalogue, the_catalogue, work_of

import search
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import TERMS
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.yaml_files import read_yaml

SPACES = sorted((ROOT / "config" / "search").glob("*.yaml"))
spaces = pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)


# ---- Candidates ----


@spaces
def test_what_a_table_names_is_a_candidate_of_its_search(path: Path) -> None:
    """A search replaces all rows of its architecture: what it does not try would be lost. Without
    the boxes too, which is how another card's rows are fitted."""
    catalogue, space = the_catalogue(), read_yaml(path)
    tried = {
        variant.name
        for name in space["candidates"]
        for variant in search.candidates(catalogue[name], [])
    }
    assert {cost.variant.name for cost in catalogue[space["dispatch"]].costs} <= tried
    assert "everywhere" not in space or space["everywhere"] in tried


@spaces
def test_every_box_has_candidates_and_a_name_is_one_of_them(path: Path) -> None:
    catalogue, space = the_catalogue(), read_yaml(path)
    operation = catalogue[space["dispatch"]].operation
    for name, boxes in space["candidates"].items():
        kernel = catalogue[name]
        assert kernel.operation == operation
        known = {variant.name for variant in kernel.every_variant}
        for box in boxes:
            tried = list(search.candidates(kernel, [box]))[len(known) :]
            assert tried, f"{name}: {box} never fits"
        found: dict[str, Variant] = {}
        for variant in search.candidates(kernel, boxes):
            same = found.setdefault(variant.name, variant)
            assert same.parameters == variant.parameters, variant.name


@spaces
def test_the_variant_for_every_card_runs_on_each_at_every_shape(path: Path) -> None:
    space, catalogue = read_yaml(path), the_catalogue()
    if catalogue[space["dispatch"]].otherwise:
        return  # which has one
    variant = catalogue.variant(space["everywhere"])
    assert variant.runs_on("sm_75")
    assert variant.kernel.accepts == "any" and variant.takes_every_extent


def test_the_catalogues_tilings_come_before_the_boxes() -> None:
    vectors = the_catalogue()["vectors"]
    assert list(search.candidates(vectors, [])) == vectors.every_variant
    *own, new = search.candidates(vectors, [{"TILE": [64]}])
    assert own == vectors.every_variant
    assert new.parameters == {"TILE": 64, "TILE_K": vectors.parameters["TILE_K"]}
    assert new.name == "vectors/64"


def test_a_box_names_the_kernels_parameters() -> None:
    with pytest.raises(UserError, match="vectors has no parameter STAGES; it has TILE_K, TILE"):
        list(search.candidates(the_catalogue()["vectors"], [{"STAGES": [2]}]))


def test_what_does_not_fit_is_no_candidate() -> None:
    vectors = the_catalogue()["vectors"]
    tried = search.candidates(vectors, [{"TILE": [60, 64, 4096]}])  # 60: no multiple of 8
    assert [v.parameters["TILE"] for v in tried if v not in vectors.every_variant] == [64]


def test_a_candidate_has_its_tilings_name_or_says_in_what_it_differs() -> None:
    streamed = the_catalogue()["streamed"]
    known = streamed.every_variant[-1]
    assert search.named(streamed, known.parameters) == known
    plain = next(v for v in streamed.every_variant if v.tiling == "128x256")
    deeper = search.named(streamed, dict(plain.parameters) | {"STAGES": 9, "XOR_N": 2})
    assert deeper.name == f"{plain.name}-stages9-xorn2"
    other = search.named(streamed, dict(known.parameters) | {"TILE_M": 1024, "CHAINS": 2})
    assert other.tiling.startswith(f"1024x{known.tile[1]}-") and "chains2" in other.tiling
    entry = yaml.safe_load(search.entry(deeper))
    assert streamed.tiled("again", entry[deeper.tiling]).parameters == deeper.parameters


# ---- Shapes ----


@spaces
def test_no_shape_is_in_two_sets(path: Path) -> None:
    space = read_yaml(path)
    operation = the_catalogue()[space["dispatch"]].operation
    found = search.shapes_of(space, operation)
    assert list(found) == ["known", "fitted", "judged"]
    every = [shape for own in found.values() for shape in own]
    assert len(set(every)) == len(every)
    assert [str(shape) for shape in found["known"]] == [
        str(search.parse_shape(text, operation)) for text in space["known"]
    ]
    assert len(found["fitted"]) >= 2 * len(found["judged"]) >= 100


def test_a_shape_is_in_the_first_set_that_has_it() -> None:
    drawn = {"random": 3, "seed": 5, "from": 64, "to": 640}
    space = {"known": [64, "9x8x7"], "fitted": ["64x64x64", 65, drawn], "judged": [drawn, 66, 65]}
    found = search.shapes_of(space, "gemm")
    assert found["known"] == [Gemm(64, 64, 64), Gemm(9, 8, 7)]
    assert found["fitted"][0] == Gemm(65, 65, 65) and len(found["fitted"]) == 4
    assert found["judged"] == [Gemm(66, 66, 66)]


# ---- Times ----


class FakeRace:
    """Variants whose times are those of a model of few terms, without a GPU."""

    def __init__(self, variants: Collection[Variant]) -> None:
        self.variants = variants
        self.runs: list[tuple[str, set[str]]] = []

    def run(self, shape: Shape, measured: Collection[str]) -> pd.DataFrame:
        self.runs.append((str(shape), set(measured)))
        rows = [
            {
                "variant": v.name, "microseconds": 2 + 0.1 * work_of(v, shape, 132).first_slabs,
                "library": 10.0, "error": 1.0, "largest_error": 1.0,
            }
            for v in self.variants
            if v.name not in measured
        ]  # fmt: skip
        return pd.DataFrame(rows)


SETS = {"known": [Gemm(8, 8, 8)], "fitted": [Gemm(9, 9, 9), Gemm(7, 8, 9)], "judged": []}


def test_each_shape_has_rows_of_its_set(tmp_path: Path) -> None:
    race, output = FakeRace(the_catalogue()["naive"].variants), tmp_path / "found.csv"
    found = search.measured(race, SETS, output)
    assert [(row.set, row.shape, row.variant) for row in found.itertuples()] == [
        (key, str(shape), name)
        for key, shapes in SETS.items()
        for shape in shapes
        for name in ("naive/32", "naive/16")
    ]
    pd.testing.assert_frame_equal(pd.read_csv(output), found, check_dtype=False)


def test_a_search_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    variants, output = the_catalogue()["naive"].variants, tmp_path / "found.csv"
    whole = search.measured(FakeRace(variants), SETS, output)
    whole.iloc[:3].to_csv(output, index=False)  # one row of the second shape is missing
    race = FakeRace(variants)
    found = search.measured(race, SETS, output)
    assert race.runs == [
        ("8x8x8", {"naive/32", "naive/16"}), ("9x9x9", {"naive/32"}), ("7x8x9", set()),
    ]  # fmt: skip
    assert sorted(map(tuple, found.values)) == sorted(map(tuple, whole.values))


def test_a_finished_search_measures_nothing_and_a_new_candidate_joins(tmp_path: Path) -> None:
    first, second = the_catalogue()["naive"].variants
    output = tmp_path / "found.csv"
    search.measured(FakeRace([first]), SETS, output)
    before = output.read_bytes()
    search.measured(FakeRace([first]), SETS, output)
    assert output.read_bytes() == before
    found = search.measured(FakeRace([first, second]), SETS, output)
    assert list(found.variant) == [first.name] * 3 + [second.name] * 3


def test_an_interrupted_search_keeps_what_it_has(tmp_path: Path) -> None:
    class Broken(FakeRace):
        def run(self, shape: Shape, measured: Collection[str]) -> pd.DataFrame:
            if shape == Gemm(7, 8, 9):
                raise UserError("a launch did not end")
            return super().run(shape, measured)

    output = tmp_path / "found.csv"
    with pytest.raises(UserError):
        search.measured(Broken(the_catalogue()["naive"].variants), SETS, output)
    assert list(pd.read_csv(output)["shape"].unique()) == ["8x8x8", "9x9x9"]


def test_what_compiles_and_hardly_spills_is_raced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right, spills, fails = search.candidates(the_catalogue()["naive"], [{"TILE_WIDTH": [8]}])

    def compile_into(variant: Variant, arch: str, build: Path) -> dict[str, Any]:
        return {"status": "failed" if variant == fails else "ok",
                "spill_bytes": 1000 if variant == spills else 0}  # fmt: skip

    monkeypatch.setattr(search, "compile_into", compile_into)
    assert search.compiled([right, spills, fails], "sm_90", tmp_path) == [right]


# ---- The table ----

HEADER = ["architecture", "variant", *TERMS, "most_additions", "shapes"]


def rows_of(**own: dict[str, Any]) -> pd.DataFrame:
    """What fit.fitted returns of variants with some costs."""
    rows = pd.DataFrame.from_dict(own, orient="index")
    return rows.reindex(columns=[*TERMS, "most_additions", "shapes"])


def test_the_rows_of_other_architectures_stay(tmp_path: Path) -> None:
    path, costs = tmp_path / "table.csv", "," * (len(TERMS) - 1)
    old = f"sm_80,kept/1,{'1.50' + costs},0900,64 65\n"
    path.write_text(f"{','.join(HEADER)}\nsm_90,old/1,{'2' + costs},,\n{old}")
    some = dict.fromkeys(TERMS, 1 / 3) | {"launch": 123456.0, "waits": 0.0}
    search.write_table(
        path, "sm_90",
        rows_of(new=some | {"most_additions": 512.0, "shapes": ""},
                any=some | {"most_additions": 0.0, "shapes": "8 9x9x9"}, alone={"shapes": "7"}),
    )  # fmt: skip
    lines = path.read_text().splitlines()
    assert lines[:2] == [",".join(HEADER), old.strip()]
    assert [line.split(",")[1] for line in lines[2:]] == ["new", "any", "alone"]
    numbers = ["1.235e+05", *["0" if term == "waits" else "0.3333" for term in TERMS[1:]]]
    assert lines[2].split(",")[2:] == [*numbers, "512", ""]
    assert lines[3].split(",")[2:] == [*numbers, "", "8 9x9x9"]
    assert lines[4].split(",")[2:] == [""] * (len(TERMS) + 1) + ["7"]


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_the_projects_tables_are_as_a_search_writes_them(path: Path, tmp_path: Path) -> None:
    own = the_catalogue()[path.stem]
    assert own.dispatch
    before = own.dispatch.read_text()
    (tmp_path / "table.csv").write_text(before)
    table = pd.read_csv(own.dispatch).set_index("variant")
    assert list(table.columns) == [column for column in HEADER if column != "variant"]
    assert len(set(table.architecture)) <= 1
    for arch in set(table.architecture):
        search.write_table(
            tmp_path / "table.csv", arch, table.fillna({"shapes": "", "most_additions": 0})
        )
    assert (tmp_path / "table.csv").read_text() == before


# ---- The command ----

SPACE = {
    "dispatch": "chosen", "variants": 2, "everywhere": "mine/16",
    "known": [64, 640],
    "fitted": [{"random": 20, "seed": 1, "from": 8, "to": 2000}],
    "judged": [{"random": 10, "seed": 2, "from": 8, "to": 2000}],
    "candidates": {"mine": [{"TILE": [8, 32]}], "new": []},
}  # fmt: skip


@pytest.fixture
def catalogue(entry: Entry, write_catalogue: WriteCatalogue, tmp_path: Path) -> Path:
    """A catalogue of `mine` and `new`, which some cards do not run, and a dispatch of them."""
    sized = {"tile": ["TILE", "TILE"], "threads": ["TILE", "TILE"]}
    table = [HEADER, ["sm_80", "mine/16", *"1" * len(TERMS), "", ""]]
    (tmp_path / "table.csv").write_text("".join(",".join(line) + "\n" for line in table))
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(SPACE))
    return write_catalogue({
        "chosen": {"operation": "gemm", "dispatch": "table.csv"},
        "mine": entry(**sized, tilings={n: {"TILE": n} for n in (16, 24)}),
        "new": entry(**sized, since="9.0", tilings={4: {"TILE": 4}}),
    })  # fmt: skip


@pytest.fixture
def raced(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The variants of each race; the races are on a card that is not there, of sm_86."""
    races: list[list[str]] = []

    @contextmanager
    def opened() -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(architecture="sm_86")

    def race(_: object, variants: Collection[Variant], libraries: object, fill: str) -> FakeRace:
        races.append([variant.name for variant in variants])
        return FakeRace(variants)

    monkeypatch.setattr(search, "opened", opened)
    monkeypatch.setattr(search, "compile_instruments", lambda *_: None)
    monkeypatch.setattr(search, "Instruments", lambda *_: None)
    monkeypatch.setattr(search, "compiled", lambda variants, *_: variants)
    monkeypatch.setattr(search, "Race", race)
    return races


def run(monkeypatch: pytest.MonkeyPatch, catalogue: Path, *options: str) -> None:
    folder = catalogue.parent
    words = ["search.py", folder / "space.yaml", "--catalogue", catalogue, *options]
    monkeypatch.setattr(sys, "argv", [*map(str, words), "--output", str(folder / "found.csv")])
    search.main()


def test_fit_only_tries_what_the_catalogue_has_and_the_card_runs(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, raced: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    before = (catalogue.parent / "table.csv").read_text()
    run(monkeypatch, catalogue, "--fit-only")
    assert raced == [["mine/16", "mine/24"]]
    assert " judged shapes, 2 variants: " in capsys.readouterr().out
    assert (catalogue.parent / "table.csv").read_text() == before  # --table was not given


def test_a_search_tries_the_boxes_too(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, raced: list[list[str]]
) -> None:
    run(monkeypatch, catalogue)
    assert raced == [["mine/16", "mine/24", "mine/8", "mine/32"]]


def test_a_table_that_was_fitted_is_read_again(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, raced: list[list[str]]
) -> None:
    run(monkeypatch, catalogue, "--fit-only", "--table")
    chosen = load_catalogue(catalogue).variant("chosen")
    assert [cost.variant.name for cost in chosen.costs("sm_80")] == ["mine/16"]
    assert "mine/16" in [cost.variant.name for cost in chosen.costs("sm_86")]
    race = FakeRace(load_catalogue(catalogue)["mine"].variants)
    for size in (8, 100, 640):
        times = race.run(Gemm(size, size, size), []).set_index("variant").microseconds
        part = chosen.part(Gemm(size, size, size), "sm_86")
        assert times[part.name] == pytest.approx(times.min(), rel=0.05)


def test_new_tilings_are_printed_to_be_added_before_a_table_is_written(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, raced: list[list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    before = (catalogue.parent / "table.csv").read_text()
    run(monkeypatch, catalogue, "--table")
    printed = re.findall(
        r"add to `dispatched` of mine:\n    (\d+): (\{.*\})", capsys.readouterr().out
    )
    assert printed
    assert (catalogue.parent / "table.csv").read_text() == before
    entries = yaml.safe_load(catalogue.read_text())
    new = {int(tiling): yaml.safe_load(values) for tiling, values in printed}
    entries["mine"]["dispatched"] = new
    catalogue.write_text(yaml.safe_dump(entries))
    run(monkeypatch, catalogue, "--table")
    assert "add to" not in capsys.readouterr().out
    assert {f"mine/{tiling}" for tiling in new} <= set(
        pd.read_csv(catalogue.parent / "table.csv").variant
    )


def test_without_a_gpu_a_search_says_so(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, no_gpu: None,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(SystemExit):
        run(monkeypatch, catalogue)
    assert "a search needs a GPU, and " in capsys.readouterr().err
