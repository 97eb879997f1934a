"""Dispatch by shape: which variant runs at which shape, and what is refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support import Entry, WriteCatalogue

from matmul.build.binaries import digest
from matmul.catalogue.entries import Catalogue, load_catalogue
from matmul.operations.gemm import Gemm
from matmul.process.errors import UserError

TABLE = """architecture,shape,variant
sm_90,128,mine/16
sm_90,4096x128x4096,mine/32
any,1024,mine/8
"""

Load = Callable[..., Catalogue]


@pytest.fixture
def load(entry: Entry, write_catalogue: WriteCatalogue, tmp_path: Path) -> Load:
    """Reads a catalogue of `mine`, which is measured at 16 alone, and a dispatch that uses it."""

    def read(table: str = TABLE, **mine_too: object) -> Catalogue:
        (tmp_path / "table.csv").write_text(table)
        mine = entry(
            tilings={16: {"TILE": 16}}, dispatched={n: {"TILE": n} for n in (8, 24, 32)},
            tile=["TILE", "TILE"], threads=["TILE", "TILE"], **mine_too,
        )  # fmt: skip
        chosen = {"operation": "gemm", "dispatch": "table.csv"}
        return load_catalogue(write_catalogue({"chosen": chosen, "mine": mine}))

    return read


def test_the_nearest_shape_decides_in_the_logarithms(load: Load) -> None:
    chosen = load().variant("chosen")
    picked = {
        str(shape): chosen.part(shape, "sm_90").name
        for shape in (
            Gemm(1, 1, 1),
            Gemm(512, 128, 512),
            Gemm(1024, 128, 1024),
            Gemm(999, 1, 999),
        )
    }
    assert picked == {
        "1x1x1": "mine/16", "512x128x512": "mine/16",
        "1024x128x1024": "mine/32", "999x1x999": "mine/32",
    }  # fmt: skip


def test_another_architecture_takes_the_rows_for_any(load: Load) -> None:
    chosen = load().variant("chosen")
    assert [part.name for part in chosen.parts("sm_90")] == ["mine/16", "mine/32"]
    assert [part.name for part in chosen.parts("sm_80")] == ["mine/8"]
    assert chosen.part(Gemm(7, 7, 7), "sm_80").name == "mine/8"


def test_only_what_runs_at_given_shapes_is_a_part_for_them(load: Load) -> None:
    chosen = load().variant("chosen")

    def parts(*shapes: Gemm) -> list[str]:
        return [part.name for part in chosen.parts("sm_90", shapes)]

    assert parts(Gemm(64, 64, 64), Gemm(100, 100, 100)) == ["mine/16"]
    assert parts(Gemm(4096, 128, 4096), Gemm(1, 1, 1)) == ["mine/32", "mine/16"]
    assert parts(Gemm(65536 * 32, 1, 1)) == []  # the measuring job says why


def test_what_only_the_table_names_is_built_and_not_measured(load: Load) -> None:
    catalogue = load()
    assert set(catalogue.variants) == {"chosen", "mine-16"}
    assert set(catalogue.buildable) == {"chosen", "mine-16", "mine-8", "mine-24", "mine-32"}
    assert catalogue.variant("mine/32").tile == (32, 32)


def test_the_digest_follows_the_sources_of_the_parts(load: Load) -> None:
    catalogue = load()
    before = digest(catalogue.variant("chosen"))
    source = catalogue["mine"].source
    source.write_text(source.read_text() + "int changed;\n")
    assert digest(catalogue.variant("chosen")) != before
    other = load(TABLE.replace("mine/32", "mine/24")).variant("chosen")
    assert digest(other) not in (before, digest(catalogue.variant("chosen")))


@pytest.mark.parametrize("key", ["most_rows", "most_columns"])
def test_every_shape_has_a_row_that_takes_it(load: Load, key: str) -> None:
    with pytest.raises(UserError, match="one of the rows for 'any' must name a variant that takes"):
        load(**{key: "16 // TILE"})


def test_a_shape_that_no_row_takes_is_refused_by_the_tables_name(load: Load) -> None:
    too_tall = Gemm(65536 * 32, 1, 1)
    with pytest.raises(UserError, match=r"table\.csv: no row's variant takes 2097152x1x1"):
        load().variant("chosen").part(too_tall, "sm_90")


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ("mine/32", "yours/32", "line 3: kernel 'yours/32'"),
        ("mine/32", "mine", "line 3: variant 'mine': say which, of mine/16, mine/8"),
        ("mine/32", "mine[TILE=32]", "line 3: variant 'mine[TILE=32]': the catalogue has mine/16"),
        ("mine/32", "chosen", "chosen is not a CUDA kernel"),
        ("4096x128x4096", "4096x128", "line 3: gemm shape '4096x128'"),
        ("any,1024", "sm_80,1024", "no row is for the architecture 'any'"),
        ("architecture,", "arch,", "there is no column 'architecture'"),
    ],
)
def test_a_mistake_is_one_line_that_names_table_and_line(
    load: Load, wrong: str, right: str, said: str
) -> None:
    with pytest.raises(UserError) as caught:
        load(TABLE.replace(wrong, right))
    assert "chosen: " in str(caught.value)
    assert "table.csv" in str(caught.value)
    assert said in str(caught.value)
