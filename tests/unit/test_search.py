"""The search: which candidates and shapes it tries, and what it writes."""

import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from support import ROOT, Entry, WriteCatalogue, the_catalogue, work_of

import search
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch import search as searching
from matmul_sweep.dispatch.catalogue import load_catalogue, write_table
from matmul_sweep.dispatch.choice import Dispatch
from matmul_sweep.dispatch.cost import TERMS
from matmul_sweep.operations import parse_shape
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
        for variant in searching.tilings(catalogue[name], [])
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
            tried = list(searching.tilings(kernel, [box]))[len(known) :]
            assert tried, f"{name}: {box} never fits"
        found: dict[str, Variant] = {}
        for variant in searching.tilings(kernel, boxes):
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
    assert list(searching.tilings(vectors, [])) == vectors.every_variant
    *own, new = searching.tilings(vectors, [{"TILE": [64]}])
    assert own == vectors.every_variant
    assert new.parameters == {"TILE": 64, "TILE_K": vectors.parameters["TILE_K"]}
    assert new.name == "vectors/64"


def test_a_box_names_the_kernels_parameters() -> None:
    with pytest.raises(
        UserError, match=r"candidates\.vectors: 'STAGES' is not one of TILE_K, TILE"
    ):
        list(searching.tilings(the_catalogue()["vectors"], [{"STAGES": [2]}]))


def test_what_does_not_fit_is_no_candidate() -> None:
    vectors = the_catalogue()["vectors"]
    tried = searching.tilings(vectors, [{"TILE": [60, 64, 4096]}])  # 60: no multiple of 8
    assert [v.parameters["TILE"] for v in tried if v not in vectors.every_variant] == [64]


def test_a_candidate_has_its_tilings_name_or_says_in_what_it_differs() -> None:
    streamed = the_catalogue()["streamed"]
    known = streamed.every_variant[-1]
    assert searching.named(streamed, known.parameters) == known
    plain = next(v for v in streamed.every_variant if v.tiling == "128x256")
    deeper = searching.named(streamed, dict(plain.parameters) | {"STAGES": 9, "XOR_N": 2})
    assert deeper.name == f"{plain.name}-stages9-xorn2"
    other = searching.named(streamed, dict(known.parameters) | {"TILE_M": 1024, "CHAINS": 2})
    assert other.tiling.startswith(f"1024x{known.tile[1]}-") and "chains2" in other.tiling


# ---- Shapes ----


@spaces
def test_a_search_knows_fits_and_judges(path: Path) -> None:
    space = read_yaml(path)
    operation = the_catalogue()[space["dispatch"]].operation
    found = searching.shapes_of(space, operation)
    sets = {key: [s for s, of in found.items() if of == key] for key in found.values()}
    assert list(sets) == ["known", "fitted", "judged"]
    assert sets["known"] == [parse_shape(text, operation) for text in space["known"]]
    assert len(sets["fitted"]) >= 2 * len(sets["judged"]) >= 100


def test_a_shape_is_in_the_first_set_that_has_it() -> None:
    drawn = {"random": 3, "seed": 5, "from": 64, "to": 640}
    space = {"known": [64, "9x8x7"], "fitted": ["64x64x64", 65, drawn], "judged": [drawn, 66, 65]}
    found = searching.shapes_of(space, "gemm")
    assert list(found)[:3] == [Gemm(64, 64, 64), Gemm(9, 8, 7), Gemm(65, 65, 65)]
    assert list(found.values()) == ["known"] * 2 + ["fitted"] * 4 + ["judged"]


# ---- Times ----


class FakeRace:
    """Times of a model of few terms, without a GPU."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, list[str]]] = []

    def __call__(self, shape: Shape, variants: Collection[Variant]) -> searching.Rows:
        self.runs.append((str(shape), [variant.name for variant in variants]))
        return [
            {
                "variant": v.name, "microseconds": 2 + 0.1 * work_of(v, shape, 132).first_slabs,
                "library": 10.0, "error": 1.0, "largest_error": 1.0,
            }
            for v in variants
        ]  # fmt: skip


SETS = [(Gemm(8, 8, 8), "known"), (Gemm(9, 9, 9), "fitted"), (Gemm(7, 7, 7), "fitted")]


def test_a_search_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    variants, output = the_catalogue()["naive"].variants, tmp_path / "found.csv"
    whole = searching.measured(FakeRace(), variants, SETS, output)
    names = [variant.name for variant in variants]
    assert [(row["set"], row["shape"], row["variant"]) for row in whole] == [
        (key, str(shape), name) for shape, key in SETS for name in names
    ]
    assert searching.read(output) == whole
    searching.save(whole[:3], output)  # one row of the second shape is missing
    race = FakeRace()
    found = searching.measured(race, variants, SETS, output)
    assert race.runs == [("9x9x9", names[1:]), ("7x7x7", names)]
    assert sorted(row.items() for row in found) == sorted(row.items() for row in whole)


def test_a_shape_that_a_candidate_refuses_is_not_raced(tmp_path: Path) -> None:
    race = FakeRace()
    shapes = [(Gemm(8, 8, 9), "fitted")]  # naive is for squares
    assert not searching.measured(race, the_catalogue()["naive"].variants, shapes, tmp_path / "f")
    assert not race.runs


def test_an_interrupted_search_keeps_what_it_has(tmp_path: Path) -> None:
    class Broken(FakeRace):
        def __call__(self, shape: Shape, variants: Collection[Variant]) -> searching.Rows:
            if shape == Gemm(7, 7, 7):
                raise UserError("a launch did not end")
            return super().__call__(shape, variants)

    output = tmp_path / "found.csv"
    with pytest.raises(UserError):
        searching.measured(Broken(), the_catalogue()["naive"].variants, SETS, output)
    assert {row["shape"] for row in searching.read(output)} == {"8x8x8", "9x9x9"}


def test_what_compiles_and_hardly_spills_is_raced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    right, spills, fails = searching.tilings(the_catalogue()["naive"], [{"TILE_WIDTH": [8]}])

    def compile_into(variant: Variant, arch: str, build: Path) -> dict[str, Any]:
        return {"status": "failed" if variant == fails else "ok",
                "spill_bytes": 1000 if variant == spills else 0}  # fmt: skip

    monkeypatch.setattr(searching, "compile_into", compile_into)
    assert searching.compiled([right, spills, fails], "sm_90", tmp_path) == [right]


# ---- The table ----

HEADER = ["architecture", "variant", "TILE", *TERMS, "most_additions", "shapes"]


@spaces
def test_the_projects_tables_are_as_a_search_writes_them(path: Path, tmp_path: Path) -> None:
    own = the_catalogue()[path.stem]
    assert isinstance(own, Dispatch) and own.dispatch
    table = tmp_path / "table.csv"
    table.write_text(own.dispatch.read_text())
    for arch in {cost.architecture for cost in own.costs}:
        write_table(table, arch, [cost for cost in own.costs if cost.architecture == arch])
    assert table.read_text() == own.dispatch.read_text()


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
    table = [HEADER, ["sm_80", "mine/16", "", *"1" * len(TERMS), "", ""],
             ["sm_80", "mine/24", "24", *"2" * len(TERMS), "900", "64x64x64 65x65x65"],
             ["", "new/6", "6", *[""] * (len(TERMS) + 2)]]  # fmt: skip
    (tmp_path / "table.csv").write_text("".join(",".join(line) + "\n" for line in table))
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(SPACE))
    return write_catalogue({
        "chosen": {"operation": "gemm", "dispatch": "table.csv"},
        "mine": entry(**sized, tilings={16: {"TILE": 16}}),
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
        return FakeRace()

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
    assert " judged shapes, " in capsys.readouterr().out
    assert (catalogue.parent / "table.csv").read_text() == before  # --table was not given


def test_a_search_tries_the_boxes_too(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, raced: list[list[str]]
) -> None:
    run(monkeypatch, catalogue)
    assert raced == [["mine/16", "mine/24", "mine/8", "mine/32"]]


def test_a_search_writes_the_rows_of_its_card_with_their_constants(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, raced: list[list[str]]
) -> None:
    before = (catalogue.parent / "table.csv").read_text().splitlines()
    run(monkeypatch, catalogue, "--table")
    after = (catalogue.parent / "table.csv").read_text().splitlines()
    assert after[:3] == before[:3] and after[-1] == before[3]  # of another card, and of none
    new = [line.split(",")[:3] for line in after[3:-1]]
    assert ["sm_86", "mine/16", ""] in new and ["sm_86", "mine/32", "32"] in new
    # What the other card's rows name no more is a tiling still.
    write_table(catalogue.parent / "table.csv", "sm_80", [])
    assert not load_catalogue(catalogue)["mine"].searched.keys() - {"24", "8", "32"}
    assert "24" in load_catalogue(catalogue)["mine"].searched
    chosen, race = load_catalogue(catalogue).variant("chosen"), FakeRace()
    mine = load_catalogue(catalogue)["mine"].every_variant
    for size in (8, 100, 640):
        shape = Gemm(size, size, size)
        times = {row["variant"]: row["microseconds"] for row in race(shape, mine)}
        assert times[chosen.part(shape, "sm_86").name] == pytest.approx(
            min(times.values()), rel=0.05
        )


def test_without_a_gpu_a_search_says_so(
    monkeypatch: pytest.MonkeyPatch, catalogue: Path, no_gpu: None,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    with pytest.raises(SystemExit):
        run(monkeypatch, catalogue)
    assert "a search needs a GPU, and " in capsys.readouterr().err
