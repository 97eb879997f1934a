"""Dispatch: which variant runs at which shape, by what it costs, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support import Entry, WriteCatalogue, the_catalogue

from matmul_sweep.build.binaries import digest
from matmul_sweep.catalogue.entries import Catalogue, Kind
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import TERMS
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.errors import UserError

BLOCKS = ("first", "second", "third", "further")  # whose slabs are terms of their own
HEADER = ("architecture", "variant", "TILE", *TERMS, "most_additions", "shapes")
SEARCHED = ("8", "24", "32")  # tilings of `mine` that only a table defines
Row = dict[str, object]
Load = Callable[..., Catalogue]


def row(
    variant: str, launch: float = 1, slabs: float = 0, tiles: float = 0, **other: object
) -> Row:
    """A row for sm_90 of a variant that costs so much, and for the rest nothing."""
    of_blocks = {term: slabs for term in TERMS if term.startswith(BLOCKS)}
    costs = dict.fromkeys(TERMS, 0) | {"launch": launch, "tiles": tiles} | of_blocks
    return {"architecture": "sm_90", "variant": variant} | costs | other


def without_costs(variant: str, shapes: str) -> Row:
    return {"architecture": "sm_90", "variant": variant, "shapes": shapes}


def table(*rows: Row) -> str:
    lines = [HEADER]
    for own in rows:
        tiling = str(own["variant"]).removeprefix("mine/")
        own = ({"TILE": tiling} if tiling in SEARCHED else {}) | own
        lines.append(tuple(str(own.get(column, "")) for column in HEADER))
    return "".join(",".join(line) + "\n" for line in lines)


# 8 is launched fastest, 16 costs less where there is much to do.
SMALL, LARGE = row("mine/8", launch=2, slabs=0.1), row("mine/16", launch=6, slabs=0.02)
TWO = table(SMALL, LARGE)


@pytest.fixture
def load(entry: Entry, write_catalogue: WriteCatalogue, tmp_path: Path) -> Load:
    """Reads a catalogue of `mine`, which is measured at 16 alone, and a dispatch that uses it.
    `new` is the same kernel, since 8.0."""

    def read(text: str = TWO, **mine_too: object) -> Catalogue:
        (tmp_path / "table.csv").write_text(text)
        mine = entry(
            tilings={16: {"TILE": 16}},
            tile=["TILE", "TILE"], threads=["TILE", "TILE"], **mine_too,
        )  # fmt: skip
        new = entry(
            tilings={16: {"TILE": 16}}, tile=["TILE", "TILE"], threads=["TILE", "TILE"],
            since="8.0",
        )  # fmt: skip
        large = new | {"since": "7.5", "dynamic_shared_bytes": 200 << 10}
        chosen = {"operation": "gemm", "dispatch": "table.csv"}
        every = {"chosen": chosen, "mine": mine, "new": new, "large": large}
        return load_catalogue(write_catalogue(every))

    return read


def choice(catalogue: Catalogue, shape: str, arch: str | None = "sm_90") -> str:
    return catalogue.variant("chosen").part(parse_shape(shape, "gemm"), arch).name


def test_the_least_predicted_cost_wins(load: Load) -> None:
    # A tile for a block, and a term for a slab: 2 + 0.1·k·tiles of 8 against 6 + 0.02·k·tiles of 16
    # on the busiest of 132 multiprocessors.
    catalogue = load()
    assert {shape: choice(catalogue, shape) for shape in ("8x8x49", "8x8x51", "1", "640")} == {
        "8x8x49": "mine/8", "8x8x51": "mine/16", "1": "mine/8", "640": "mine/16",
    }  # fmt: skip


def test_where_costs_are_alike_the_first_row_wins(load: Load) -> None:
    assert choice(load(table(row("mine/24"), row("mine/8"))), "100") == "mine/24"


def test_the_row_of_a_known_shape_wins_whatever_it_costs(load: Load) -> None:
    known = row("mine/32", launch=1000, shapes="640 8x16x24")
    catalogue = load(table(SMALL, LARGE, known))
    assert [choice(catalogue, shape) for shape in ("640", "8x16x24", "640x640x641")] == [
        "mine/32", "mine/32", "mine/16",
    ]  # fmt: skip


def test_a_variant_without_costs_runs_at_its_shapes_only(load: Load) -> None:
    catalogue = load(table(SMALL, without_costs("mine/24", "640")))
    assert [choice(catalogue, shape) for shape in ("640", "641", "639")] == [
        "mine/24", "mine/8", "mine/8",
    ]  # fmt: skip


def test_most_additions_keeps_a_variant_out_of_longer_sums(load: Load) -> None:
    catalogue = load(table(SMALL, row("mine/32", launch=0.5, most_additions=100)))
    assert [choice(catalogue, shape) for shape in ("9x9x100", "9x9x101", "999x9x1")] == [
        "mine/32", "mine/8", "mine/32",
    ]  # fmt: skip


def test_a_known_shape_may_be_longer_than_most_additions(load: Load) -> None:
    """What was measured and found right there is not guessed."""
    own = row("mine/32", most_additions=100, shapes="9x9x101")
    assert choice(load(table(SMALL, own)), "9x9x101") == "mine/32"


@pytest.mark.parametrize("known", ["", "17x5x5"])
def test_a_variant_that_refuses_a_shape_is_passed_over(load: Load, known: str) -> None:
    cheapest = row("mine/16", launch=0.1, shapes=known)
    catalogue = load(table(row("mine/32"), cheapest), most_rows="16 * (32 // TILE - 1)")
    assert [choice(catalogue, shape) for shape in ("16x5x5", "17x5x5")] == ["mine/16", "mine/32"]


def test_a_card_without_rows_takes_the_first_cards(load: Load) -> None:
    other = SMALL | {"architecture": "sm_80", "variant": "mine/24"}
    catalogue = load(table(SMALL, LARGE, other))
    assert [p.name for p in catalogue.variant("chosen").parts("sm_80")] == ["mine/24"]
    for arch in ("sm_75", "sm_120", None):
        assert [p.name for p in catalogue.variant("chosen").parts(arch)] == ["mine/8", "mine/16"]


def test_of_those_it_takes_what_runs_there(load: Load) -> None:
    catalogue = load(table(row("new/16", 0.1), row("large/16", 0.2), row("mine/32", 5)))
    chosen = catalogue.variant("chosen")

    def parts(arch: str) -> list[str]:
        return [part.name for part in chosen.parts(arch)]

    assert parts("sm_100") == ["new/16", "large/16", "mine/32"]
    assert parts("sm_86") == ["new/16", "mine/32"]  # 99 KB of shared memory
    assert parts("sm_75") == ["mine/32"]
    assert choice(catalogue, "100", "sm_75") == "mine/32"
    assert choice(catalogue, "100", "sm_100") == "new/16"


def test_costs_count_the_multiprocessors_of_the_card(load: Load) -> None:
    """100 tiles of 16: one for each of 132 multiprocessors, two for some of 72."""
    catalogue = load(table(row("mine/32", tiles=2.5), row("mine/16", tiles=2)))
    assert choice(catalogue, "160", "sm_90") == "mine/16"
    assert choice(catalogue, "160", "sm_75") == "mine/32"


def test_only_what_runs_at_given_shapes_is_a_part_for_them(load: Load) -> None:
    chosen = load().variant("chosen")

    def parts(*shapes: Gemm) -> list[str]:
        return [part.name for part in chosen.parts("sm_90", shapes)]

    assert parts(Gemm(640, 640, 640), Gemm(641, 640, 640)) == ["mine/16"]
    assert parts(Gemm(1, 1, 1), Gemm(640, 640, 640)) == ["mine/8", "mine/16"]
    assert parts(Gemm(65536 * 32, 1, 1)) == []  # the measuring job says why


def test_what_only_the_table_names_is_built_and_not_measured(load: Load) -> None:
    catalogue = load(table(SMALL, LARGE, {"variant": "mine/32"}))  # no card takes 32 yet
    assert set(catalogue.variants) == {"chosen", "mine-16", "new-16", "large-16"}
    assert {"mine-8", "mine-32"} < set(catalogue.buildable)
    assert "mine/32" not in [part.name for part in catalogue.variant("chosen").parts("sm_90")]
    assert catalogue.variant("mine/32").tile == (32, 32)


@pytest.mark.parametrize(
    "changed",
    [
        row("mine/24", launch=6, slabs=0.02),
        LARGE | {"first_slabs": 0.03},
        LARGE | {"most_additions": 1000},
        LARGE | {"shapes": 640},
    ],
)
def test_the_digest_follows_the_table(load: Load, changed: Row) -> None:
    before = digest(load().variant("chosen"))
    assert digest(load().variant("chosen")) == before
    assert digest(load(table(SMALL, changed)).variant("chosen")) != before


def test_the_digest_follows_the_sources_of_the_parts(load: Load) -> None:
    catalogue = load()
    before = digest(catalogue.variant("chosen"))
    source = catalogue["mine"].code
    source.write_text(source.read_text() + "int changed;\n")
    assert digest(catalogue.variant("chosen")) != before


def test_a_shape_that_no_row_takes_is_refused_by_the_tables_name(load: Load) -> None:
    with pytest.raises(UserError, match=r"table\.csv: no row's variant takes 2097152x1x1"):
        choice(load(), f"{65536 * 32}x1x1")


def refused(load: Load, text: str, **mine_too: object) -> str:
    """What is said of a table: one line, which names the dispatch and the table."""
    with pytest.raises(UserError) as caught:
        load(text, **mine_too)
    said = str(caught.value)
    assert "\n" not in said
    assert "table.csv" in said
    return said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"variant": "yours/16"}, "kernel 'yours/16'"),
        ({"variant": "mine"}, "variant 'mine': say which, of mine/16, mine/8"),
        ({"variant": "mine[TILE=16]"}, "variant 'mine[TILE=16]': the catalogue has mine/16"),
        ({"variant": "chosen"}, "chosen is not a CUDA kernel"),
        ({"tiles": "much"}, "tiles: 'much' is not a number from 0 on"),
        ({"tiles": "inf"}, "tiles: 'inf' is not a number from 0 on"),
        ({"far_megabytes": -0.5}, "far_megabytes: '-0.5' is not a number from 0 on"),
        ({"most_additions": "any"}, "most_additions: 'any' is not a number from 0 on"),
        ({"architecture": "9.0"}, "architecture '9.0': write one such as sm_90"),
        ({"architecture": "sm_75", "variant": "new/16"}, "new/16 does not run on sm_75"),
        ({"architecture": "sm_86", "variant": "large/16"}, "large/16 does not run on sm_86"),
        (dict.fromkeys(TERMS, ""), "launch: a row has all costs, or none and the shapes"),
        ({"sums": "", "shapes": "640"}, "sums: a row has all costs, or none and the shapes"),
        ({"shapes": "640 4096x128"}, "gemm shape '4096x128'"),
        ({"TILE": 15}, "TILE=15: elsewhere mine/16 has 16; give one of them another name"),
        ({"variant": "mine/8", "TILE": 9}, "TILE=9: elsewhere mine/8 has 8"),
        ({"TILE": "16.0"}, "TILE: '16.0' is not a whole number"),
        ({"variant": "yours/16", "TILE": 16}, "variant: 'yours' is not one of chosen, mine, new"),
    ],
)
def test_a_mistake_is_one_line_that_names_table_line_and_column(
    load: Load, wrong: Row, said: str
) -> None:
    assert re.search(f"line 3: .*{re.escape(said)}", refused(load, table(SMALL, LARGE | wrong)))


@pytest.mark.parametrize("column", ["variant", "launch", "shapes"])
def test_a_column_that_is_missing_is_named(load: Load, column: str) -> None:
    text = re.sub(rf"\b{column}\b", "other", TWO, count=1)
    assert f"there is no column '{column}'" in refused(load, text)


def test_a_table_has_a_row(load: Load) -> None:
    assert "there is no row" in refused(load, table())


def test_a_table_that_is_not_there_is_named(load: Load, tmp_path: Path) -> None:
    load()
    (tmp_path / "table.csv").unlink()
    with pytest.raises(UserError, match=r"chosen: .*table\.csv.*No such file"):
        load_catalogue(tmp_path / "catalogue.yaml")


@pytest.mark.parametrize(
    ("rows", "limits"),
    [
        ([SMALL], {"most_rows": "16 // TILE"}),
        ([SMALL], {"most_columns": "16 // TILE"}),
        ([SMALL], {"accepts": "TILE"}),
        ([SMALL], {"fewest_terms": 2}),
        ([row("mine/8", most_additions=4096)], {}),
        ([without_costs("mine/8", "640")], {}),
    ],
)
def test_every_shape_has_a_row_that_takes_it(
    load: Load, rows: list[Row], limits: dict[str, object]
) -> None:
    said = refused(load, table(*rows), **limits)
    assert "one of the rows for 'sm_90' must name a variant that takes every shape" in said


def test_so_it_is_for_each_architecture(load: Load) -> None:
    said = refused(load, table(SMALL, LARGE | {"architecture": "sm_80", "most_additions": 9}))
    assert "one of the rows for 'sm_80' must name" in said


def test_one_of_the_first_cards_rows_is_for_the_oldest_card(load: Load) -> None:
    """Those are what a card takes that the table was not fitted on."""
    said = refused(load, table(row("new/16"), SMALL | {"architecture": "sm_80"}))
    assert "cards that it was not fitted on take the rows for 'sm_90'" in said
    assert "runs from 6.0 on" in said


def test_the_fewest_terms_keep_a_variant_out_of_shorter_sums(load: Load) -> None:
    """In a known shape too."""
    catalogue = load(
        table(SMALL, row("mine/32", launch=0.5, shapes="9x9x63")), fewest_terms="TILE // 32 * 64"
    )
    assert [choice(catalogue, shape) for shape in ("9x9x63", "9x9x64")] == ["mine/8", "mine/32"]


# ---- Another dispatch ----


@pytest.fixture
def load_both(load: Load, write_catalogue: WriteCatalogue, tmp_path: Path) -> Load:
    """Reads the same catalogue with `large`, a dispatch that leaves shapes to `chosen`."""

    def read(text: str, otherwise: str = "chosen", **mine_too: object) -> Catalogue:
        load(**mine_too)
        (tmp_path / "large.csv").write_text(text)
        every = yaml.safe_load((tmp_path / "catalogue.yaml").read_text())
        choosing = {"operation": "gemm", "dispatch": "large.csv", "otherwise": otherwise}
        first = {name: every.pop(name) for name in ("mine", "chosen")}
        return load_catalogue(write_catalogue({**first, "both": choosing, **every}))

    return read


def choice_of_both(catalogue: Catalogue, *shapes: str, arch: str = "sm_90") -> list[str]:
    both = catalogue.variant("both")
    return [both.part(parse_shape(shape, "gemm"), arch).name for shape in shapes]


def test_the_table_that_predicts_less_decides(load_both: Load) -> None:
    catalogue = load_both(table(row("mine/32", launch=4, slabs=0.01)))
    assert choice_of_both(catalogue, "1", "640") == ["mine/8", "mine/32"]


@pytest.mark.parametrize(("launch", "chosen"), [(1.8, "mine/32"), (1.95, "mine/8")])
def test_what_is_hardly_faster_is_left_to_the_other(
    load_both: Load, launch: float, chosen: str
) -> None:
    """At a tile of a term, which takes `chosen` 2.1 µs."""
    assert choice_of_both(load_both(table(row("mine/32", launch))), "1") == [chosen]


def test_a_known_shape_of_a_slower_table_does_not_count(load_both: Load) -> None:
    own = table(row("mine/32", launch=1000, shapes="640"), row("mine/24", launch=900))
    assert choice_of_both(load_both(own), "640") == ["mine/16"]
    own = table(row("mine/32", launch=4, shapes="640"), row("mine/24", launch=3))
    assert choice_of_both(load_both(own), "640", "641") == ["mine/32", "mine/24"]


@pytest.mark.parametrize("own", [table(), table(row("mine/32", 0.1))])
def test_what_no_own_row_takes_is_left_to_the_other(load_both: Load, own: str) -> None:
    catalogue = load_both(own, fewest_terms="TILE // 32 * 64")
    assert choice_of_both(catalogue, "1") == ["mine/8"]


def test_a_card_is_told_what_to_compile_of_both(load_both: Load) -> None:
    catalogue = load_both(table(row("mine/32")))
    parts = catalogue.variant("both").parts("sm_90")
    assert [part.name for part in parts] == ["mine/32", "mine/8", "mine/16"]


@pytest.mark.parametrize("other", ["mine", "both", "large"])
def test_the_other_is_a_dispatch_above(load_both: Load, other: str) -> None:
    with pytest.raises(UserError, match=f"both: otherwise: '{other}' is no dispatch of gemm above"):
        load_both(table(), other)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", None])
@pytest.mark.parametrize("size", [1, 16, 16385])
def test_the_projects_dispatches_have_a_variant_for_every_size(arch: str | None, size: int) -> None:
    for kernel in the_catalogue().values():
        if kernel.kind is Kind.DISPATCH:
            (dispatch,) = kernel.variants
            part = dispatch.part(parse_shape(str(size), kernel.operation), arch)
            assert part in dispatch.parts(arch)
            assert part.runs_on(arch or "sm_90")
