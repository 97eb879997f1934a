"""The search: which candidates and shapes it tries, and what it writes."""

import sys
from collections.abc import Callable, Collection
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import yaml
from support import ROOT, Entry, WriteCatalogue, the_catalogue, work_of

import search
from matmul_sweep.catalogue.architectures import architecture
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.tables import read_table
from matmul_sweep.dispatch import search as searching
from matmul_sweep.dispatch.catalogue import write_table
from matmul_sweep.dispatch.choice import Dispatch
from matmul_sweep.dispatch.cost import LIMITS, TERMS, Cost
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.yaml_files import read_yaml

SPACES = sorted((ROOT / "config" / "search").glob("*.yaml"))
spaces = pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)


# ---- Candidates ----


@spaces
def test_the_projects_searches_know_fit_and_judge_what_their_tables_name(path):
    """A search replaces all rows of its architecture: what it does not try would be lost. Without
    the boxes too, which is how another card's rows are fitted."""
    catalogue, space = the_catalogue(), read_yaml(path)
    dispatch = catalogue[space["dispatch"]]
    tried = {variant.name for variant in searching.candidates(catalogue, space, fit_only=True)}
    assert {cost.variant.name for cost in dispatch.costs} <= tried
    shapes = searching.shapes_of(space, dispatch.operation)
    assert set(shapes.values()) == {"known", "fitted", "judged"}
    if not dispatch.otherwise:  # which has a variant for every card
        everywhere = catalogue.variant(space["everywhere"])
        assert everywhere.name in tried and everywhere.runs_on("sm_75")
        assert everywhere.kernel.accepts == "any" and everywhere.takes_every_extent


@spaces
def test_every_box_has_candidates_and_a_name_is_one_of_them(path):
    catalogue, space = the_catalogue(), read_yaml(path)
    found: dict[str, Variant] = {}
    for name, boxes in space["candidates"].items():
        kernel = catalogue.variant(name).kernel  # of a variant that is named too
        assert kernel.operation == catalogue[space["dispatch"]].operation
        for box in boxes:
            tried = list(searching.tilings(kernel, [box]))
            assert len(tried) > len(kernel.every_variant), f"{name}: {box} never fits"
            for variant in tried:
                assert found.setdefault(variant.name, variant).parameters == variant.parameters


def test_the_catalogues_tilings_come_before_what_fits_of_the_boxes():
    vectors = the_catalogue()["vectors"]
    *own, new = searching.tilings(vectors, [{"TILE": [60, 64, 4096]}])  # 60: no multiple of 8
    assert own == vectors.every_variant == list(searching.tilings(vectors, []))
    assert new.parameters == {"TILE": 64, "TILE_K": vectors.parameters["TILE_K"]}
    assert new.name == "vectors/64"
    with pytest.raises(UserError, match="vectors: 'STAGES' is not one of TILE_K, TILE"):
        list(searching.tilings(vectors, [{"STAGES": [2]}]))


def test_a_variant_that_is_named_is_the_only_one_of_its_kernels_tilings():
    box = {"candidates": {"residues/componentwise": [{"PATCH": [4]}]}}
    assert [v.parameters["GUARD"] for v in searching.candidates(the_catalogue(), box)] == [1, 1]


def test_a_candidate_has_its_tilings_name_or_says_in_what_it_differs():
    streamed = the_catalogue()["streamed"]
    known = streamed.every_variant[-1]
    assert searching.named(streamed, known.parameters) == known
    plain = next(v for v in streamed.every_variant if v.tiling == "128x256")
    deeper = searching.named(streamed, dict(plain.parameters) | {"STAGES": 9, "XOR_N": 2})
    assert deeper.name == f"{plain.name}-stages9-xorn2"
    other = searching.named(streamed, dict(known.parameters) | {"TILE_M": 1024, "CHAINS": 2})
    assert other.tiling.startswith(f"1024x{known.tile[1]}-") and "chains2" in other.tiling


# ---- Shapes ----


def test_a_shape_is_in_the_first_set_that_has_it():
    drawn = {"random": 3, "seed": 5, "from": 64, "to": 640}
    space = {"known": [64, "9x8x7"], "fitted": ["64x64x64", 65, drawn], "judged": [drawn, 66, 65]}
    found = searching.shapes_of(space, "gemm")
    assert list(found)[:3] == [Gemm(64, 64, 64), Gemm(9, 8, 7), Gemm(65, 65, 65)]
    assert list(found.values()) == ["known"] * 2 + ["fitted"] * 4 + ["judged"]


# ---- Times ----


class FakeRace:
    """Times of a model of few terms, without a GPU; at one shape a launch does not end."""

    def __init__(self, endless: Shape | None = None) -> None:
        self.endless, self.runs = endless, list[tuple[str, list[str]]]()

    def __call__(self, shape: Shape, variants: Collection[Variant]) -> searching.Rows:
        if shape == self.endless:
            raise UserError("a launch did not end")
        self.runs.append((str(shape), [variant.name for variant in variants]))
        times = {v.name: 2 + 0.1 * work_of(v, shape, 132).first_slabs for v in variants}
        same = {"library": 10.0, "error": 1.0, "largest_error": 1.0}
        return [{"variant": name, "microseconds": time} | same for name, time in times.items()]

    def beside(self, _: object, shape: Shape, variant: Variant) -> searching.Row | None:
        """Wrong at the first shape; then half, twice and as fast as the library."""
        self.runs.append((str(shape), [variant.name]))
        if len(self.runs) == 1:
            return None
        times = {
            "microseconds": [20.0, 10.0, 5.0][len(self.runs) % 3],
            "library_microseconds": 10.0,
        }
        return {"shape": str(shape), "variant": variant.name} | times


def test_a_search_keeps_what_it_has_and_goes_on_where_it_was_stopped(tmp_path):
    variants, output = the_catalogue()["naive"].variants, tmp_path / "found.csv"
    names = [variant.name for variant in variants]
    # naive is for squares: the third shape is not raced.
    shapes = [Gemm(8, 8, 8), Gemm(9, 9, 9), Gemm(8, 8, 9), Gemm(7, 7, 7)]
    sets = [(shape, f"set {i}") for i, shape in enumerate(shapes)]
    with pytest.raises(UserError):
        searching.measured(FakeRace(endless=shapes[-1]), variants, sets, output)
    kept = searching.read(output)
    done = [(key, str(shape), name) for shape, key in sets[:2] for name in names]
    assert [(row["set"], row["shape"], row["variant"]) for row in kept] == done
    searching.save(kept[:3], output)  # one row of the second shape is missing
    race = FakeRace()
    found = searching.measured(race, variants, sets, output)
    assert race.runs == [("9x9x9", names[1:]), ("7x7x7", names)]
    assert found == searching.read(output) and found[:4] == kept


def test_alone_the_promising_and_past_winners_have_a_block_and_the_two_fastest_all():
    variants = the_catalogue()["vectors"].every_variant[:1]
    kernel = variants[0].kernel
    variants = [searching.named(kernel, {"TILE": 8 * i, "TILE_K": 8}) for i in range(1, 13)]
    rest = [0.0] * (len(TERMS) - 1)  # of the terms but the launch
    far = Cost("sm_90", variants.pop(), (120.0, *rest))
    costs = [Cost("sm_90", v, (100.0 + i, *rest)) for i, v in enumerate(variants)]
    times = {v.name: 100.0 - i for i, v in enumerate(variants)}  # the last is the fastest
    asked: list[tuple[list[str], int]] = []

    def blocks(shape: Shape, own: Collection[Variant], count: int) -> searching.Rows:
        asked.append(([v.name for v in own], count))
        return [{"variant": v.name, "microseconds": times[v.name] + count} for v in own]

    names = [v.name for v in variants]
    winners, shapes = {names[10], far.variant.name}, [Gemm(4096, 4096, 4096)]
    [found] = searching.alone(blocks, [far, *costs[::-1]], winners, shapes, 132)
    assert asked == [([*names[:8], names[10]], 1), ([names[7], names[10]], 2)]
    assert {row["set"] for row in found} == {"alone"} and len(found) == 9
    counts = {row["variant"]: row["microseconds"] - times[row["variant"]] for row in found}
    assert [name for name, count in counts.items() if count == 2] == [names[7], names[10]]


# ---- The command ----

HEADER = ["architecture", "variant", "TILE", *TERMS, *LIMITS, "most_additions", "shapes"]
TABLE = [
    HEADER,
    ["sm_80", "mine/16", "", *"1" * len(TERMS), *[""] * 5],
    ["sm_80", "mine/24", "24", *"2" * len(TERMS), "0.5", "0.3", "0.2", "900", "64x64x64 65x65x65"],
]
SPACE = {
    "dispatch": "chosen", "everywhere": "mine/16", "known": [64, 640],
    "fitted": [{"random": 20, "seed": 1, "from": 8, "to": 2000}],
    "judged": [{"random": 10, "seed": 2, "from": 8, "to": 2000}],
    "candidates": {"mine": [{"TILE": [8, 12, 32]}], "new": []},
}  # fmt: skip
Run = Callable[..., list[str]]


@spaces
def test_the_projects_tables_are_as_a_search_writes_them(path, tmp_path):
    own = the_catalogue()[path.stem]
    assert isinstance(own, Dispatch) and own.dispatch
    table = tmp_path / "table.csv"
    table.write_text(own.dispatch.read_text())
    for arch in {cost.architecture for cost in own.costs}:
        write_table(table, arch, [cost for cost in own.costs if cost.architecture == arch])
    assert table.read_text() == own.dispatch.read_text()


@pytest.fixture
def run(
    entry: Entry, write_catalogue: WriteCatalogue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Searches with options in a catalogue of `mine`, of `new`, which some cards do not run, and of
    a dispatch of them; the names of the variants that it races."""
    sized = {"tile": ["TILE", "TILE"], "threads": ["TILE", "TILE"]}
    (tmp_path / "table.csv").write_text("".join(",".join(line) + "\n" for line in TABLE))
    (tmp_path / "space.yaml").write_text(yaml.safe_dump(SPACE))
    catalogue = write_catalogue({
        "chosen": {"operation": "gemm", "dispatch": "table.csv"},
        "mine": entry(**sized, tilings={16: {"TILE": 16}}),
        "new": entry(**sized, since="9.0", tilings={4: {"TILE": 4}}),
    })  # fmt: skip
    raced: list[str] = []

    def race(_: object, variants: Collection[Variant], libraries: object, fill: str) -> FakeRace:
        raced.extend(variant.name for variant in variants)
        return FakeRace()

    def searched(*options: str) -> list[str]:
        words = [tmp_path / "space.yaml", "--catalogue", catalogue, *options]
        words += ["--output", tmp_path / "found.csv"]
        monkeypatch.setattr(sys, "argv", ["search.py", *map(str, words)])
        search.main()
        return raced

    monkeypatch.setattr(search, "Race", race)
    return searched


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card that is not there, of sm_86, for which one tiling fails to compile, and one spills."""

    def compile_into(variant: Variant, arch: str, build: Path) -> dict[str, Any]:
        status = "failed" if variant.name == "mine/8" else "ok"
        return {"status": status, "spill_bytes": 1000 * (variant.name == "mine/12")}

    opened = nullcontext(SimpleNamespace(architecture="sm_86"))
    monkeypatch.setattr(search, "opened", lambda: opened)
    monkeypatch.setattr(search, "compile_instruments", lambda *_: None)
    monkeypatch.setattr(search, "Instruments", lambda *_: None)
    monkeypatch.setattr(searching, "compile_into", compile_into)


def test_fit_only_tries_what_the_catalogue_has_and_the_card_runs(run, card, tmp_path, capsys):
    before = (tmp_path / "table.csv").read_text()
    assert run("--fit-only") == ["mine/16", "mine/24"]
    assert " judged shapes, " in capsys.readouterr().out
    assert (tmp_path / "table.csv").read_text() == before  # --table was not given


def test_a_search_writes_the_rows_of_its_card_with_their_constants(run, card, tmp_path):
    table = tmp_path / "table.csv"
    before = table.read_text().splitlines()
    assert run("--table") == ["mine/16", "mine/24", "mine/32"]
    after = table.read_text().splitlines()
    assert after[:3] == before[:3]  # of another card
    new = [line.split(",")[:3] for line in after[3:]]
    assert ["sm_86", "mine/16", ""] in new and ["sm_86", "mine/32", "32"] in new


def alone_at(*shapes: str) -> Any:
    """Rows of what took longer alone than its costs say."""

    def alone(own: Any, costs: Collection[Cost], *_: object) -> searching.Rows:
        return [
            {"set": "alone", "shape": shape, "variant": cost.variant.name, "microseconds": 1e5 + i,
             "library": 2e5, "error": 1.0, "largest_error": 1.0, "share": 1.0}
            for shape in shapes for i, cost in enumerate(costs)
        ]  # fmt: skip

    return alone


def test_limits_alone_are_fitted_anew_and_all_other_costs_stay(run, card, tmp_path, monkeypatch):
    table = tmp_path / "table.csv"
    table.write_text(table.read_text().replace("sm_80", "sm_86"))
    before = read_table(table)
    monkeypatch.setattr(search.Search, "alone", alone_at("4096x4096x4096"))
    assert run("--limits", "--table") == ["mine/16", "mine/24"]
    after = read_table(table)
    assert [{k: row[k] for k in row.keys() - LIMITS} for row in after] == [
        {k: row[k] for k in row.keys() - LIMITS} for row in before
    ]
    units = 4096**3 / architecture("sm_86").multiprocessors / 1e6
    assert [float(r["at_limit"]) for r in after] == pytest.approx([1e5 / units] * 2, rel=0.01)


def test_a_judgement_is_of_what_the_dispatch_takes_and_writes_no_table(
    run, card, tmp_path, monkeypatch, capsys
):
    table = tmp_path / "table.csv"
    table.write_text(table.read_text().replace("sm_80", "sm_86"))
    before = table.read_text()
    monkeypatch.setattr(search.Search, "timer", lambda _: nullcontext((None, 700)))
    run("--judge", "0x1a", "--shapes", "brief", "--table")
    said, found = capsys.readouterr().out, pd.read_csv(tmp_path / "found.csv")
    assert "199 of 200 shapes, library's time / its time: worst 0.500 at " in said
    assert said.rstrip().endswith("66 below 1") and {*found.variant} <= {"mine/16", "mine/24"}
    assert table.read_text() == before


def test_what_a_search_cannot_do_is_said_in_a_line(run, card, tmp_path, monkeypatch, capsys):
    def said(*options: str) -> str:
        with pytest.raises(SystemExit):
            run(*options)
        return capsys.readouterr().err

    assert "table.csv: no row of sm_86; fit its costs first" in said("--limits")
    monkeypatch.setattr(FakeRace, "beside", lambda *_: None)
    monkeypatch.setattr(search.Search, "timer", lambda _: nullcontext((None, 700)))
    table = tmp_path / "table.csv"
    table.write_text(table.read_text().replace("sm_80", "sm_86"))
    assert "chosen: at none of 200 shapes was it right" in said("--judge", "1", "--shapes", "brief")
    space = tmp_path / "space.yaml"
    space.write_text(space.read_text().replace("mine/16", "mine/17"))
    assert "everywhere: 'mine/17' is not one of the candidates" in said("--fit-only")
