"""Dispatch: which variant runs at which shape, by what it costs, and what is refused."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import Entry, WriteCatalogue

from matmul_sweep.build.binaries import digest
from matmul_sweep.catalogue.entries import Catalogue
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import TERMS
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.errors import UserError

HEADER = ("architecture", "variant", "TILE", *TERMS, "at_limit", "most_additions", "shapes")
Row = dict[str, object]
Load = Callable[..., Catalogue]
Case = tuple[str, dict[str, object], str]


def row(variant: str, launch: float = 1, slabs: float = 0, tiles: float = 0, **own: object) -> Row:
    """A row for sm_90 of a variant that costs so much, and for the rest nothing."""
    of_blocks = {f"{block}_slabs": slabs for block in ("first", "second", "third", "further")}
    costs = dict.fromkeys(TERMS, 0) | {"launch": launch, "tiles": tiles} | of_blocks
    return {"architecture": "sm_90", "variant": variant} | costs | own


def table(*rows: Row) -> str:
    own = [{"TILE": str(each["variant"]).partition("/")[2]} | each for each in rows]
    lines = [HEADER, *([str(each.get(column, "")) for column in HEADER] for each in own)]
    return "".join(",".join(line) + "\n" for line in lines)


# 8 is launched fastest, 16 costs less where there is much to do. 24 runs at a known shape only.
SMALL, LARGE = row("mine/8", launch=2, slabs=0.1), row("mine/16", launch=6, slabs=0.02)
KNOWN = {"architecture": "sm_90", "variant": "mine/24", "shapes": "640"}
TWO = table(SMALL, LARGE)
LATE = {"fewest_terms": "TILE // 32 * 64"}


@pytest.fixture
def load(entry: Entry, write_catalogue: WriteCatalogue, tmp_path: Path) -> Load:
    """Reads a catalogue of `mine`, which is measured at 16 alone, and of `chosen`, a dispatch with
    a table; if there is another table, of `both` too, which leaves shapes to `chosen`. `new` is
    the same kernel, since 8.0."""

    def read(
        text: str = TWO, other: str | None = None, otherwise: str = "chosen", **mine_too: object
    ) -> Catalogue:
        (tmp_path / "table.csv").write_text(text)
        (tmp_path / "other.csv").write_text(other or "")
        sized = {"tile": ["TILE", "TILE"], "threads": ["TILE", "TILE"]}
        sized["tilings"] = {16: {"TILE": 16}}
        dispatch = {"operation": "gemm", "dispatch": "table.csv"}
        both = {"both": dispatch | {"dispatch": "other.csv", "otherwise": otherwise}}
        return load_catalogue(write_catalogue({
            "chosen": dispatch, "mine": entry(**sized, **mine_too),
            **(both if other is not None else {}),
            "new": entry(**sized, since="8.0"),
            "large": entry(**sized, since="7.5", dynamic_shared_bytes=200 << 10),
        }))  # fmt: skip

    return read


def choice(catalogue: Catalogue, shape: str, arch: str | None = "sm_90", of: str = "chosen") -> str:
    return catalogue.variant(of).part(parse_shape(shape, "gemm"), arch).name


def parts(catalogue: Catalogue, arch: str | None, *shapes: Gemm, of: str = "chosen") -> list[str]:
    return [part.name for part in catalogue.variant(of).parts(arch, shapes or None)]


def both(rows: list[Row], expected: dict[str, int], **mine: object) -> tuple[Any, ...]:
    """Rows of the dispatch that leaves shapes to another one."""
    return [SMALL, LARGE], {"other": table(*rows), **mine}, expected


@pytest.mark.parametrize(
    ("rows", "others", "expected"),
    [
        # The least predicted time wins. A tile for a block, and a term for a slab: 2 + 0.1·k·tiles
        # of 8 against 6 + 0.02·k·tiles of 16 on the busiest of 132 multiprocessors.
        ([SMALL, LARGE], {}, {"8x8x49": 8, "8x8x51": 16, "1": 8, "640": 16}),
        # No large product takes less than its energy over the power limit: of 4096 in all
        # directions, 521 units of volume.
        ([SMALL, LARGE | {"at_limit": 2000}], {}, {"640": 16, "4096": 8}),
        # Where costs are alike the first row wins.
        ([row("mine/24"), row("mine/8")], {}, {"100": 24}),
        # The row of a known shape wins whatever it costs, and one without costs only there.
        ([SMALL, KNOWN], {}, {"640": 24, "641": 8, "639": 8}),
        # A variant is kept out of sums longer than most_additions, unless one was measured and
        # found right.
        ([SMALL, row("mine/32", launch=0.5, most_additions=100, shapes="9x9x102")], {},
         {"9x9x100": 32, "9x9x101": 8, "9x9x102": 32, "999x9x1": 32}),
        # What a variant refuses is another one's, though it be known; so are too few terms.
        ([row("mine/32"), row("mine/16", launch=0.1, shapes="17x5x5")],
         {"most_rows": "16 * (32 // TILE - 1)"}, {"16x5x5": 16, "17x5x5": 32}),
        ([SMALL, row("mine/32", launch=0.5, shapes="9x9x63")], LATE, {"9x9x63": 8, "9x9x64": 32}),
        # Of two dispatches the one that predicts less decides; what is hardly faster is left to the
        # other, which a tile of a term takes 2.1 µs.
        both([row("mine/32", launch=1.8)], {"1": 32}),
        both([row("mine/32", launch=1.95)], {"1": 8}),
        # A known shape counts in the table that is faster.
        both([row("mine/32", launch=4, shapes="640"), row("mine/24", launch=3)],
             {"640": 32, "641": 24}),
        # What none of its own rows takes is left to the other.
        both([], {"1": 8}, **LATE),
        both([row("mine/32", 0.1)], {"1": 8}, **LATE),
    ],
)  # fmt: skip
def test_the_least_predicted_time_wins_among_those_that_may_be_chosen(load, rows, others, expected):
    catalogue, dispatch = load(table(*rows), **others), "both" if "other" in others else "chosen"
    for shape, tiling in expected.items():
        assert choice(catalogue, shape, of=dispatch) == f"mine/{tiling}"


OLDER = table(SMALL, LARGE, SMALL | {"architecture": "sm_80", "variant": "mine/24"})
NEWER = table(row("new/16", 0.1), row("large/16", 0.2), row("mine/32", 5))
TILED = table(row("mine/32", tiles=2.5), row("mine/16", tiles=2))


@pytest.mark.parametrize(
    ("text", "arch", "expected", "at_160"),
    [
        (OLDER, "sm_80", ["mine/24"], "mine/24"),
        # A card without rows takes those of the first card,
        (OLDER, "sm_75", ["mine/8", "mine/16"], "mine/16"),
        (OLDER, None, ["mine/8", "mine/16"], "mine/16"),
        # of which it takes what runs there (sm_86 has 99 KB of shared memory).
        (NEWER, "sm_100", ["new/16", "large/16", "mine/32"], "new/16"),
        (NEWER, "sm_86", ["new/16", "mine/32"], "new/16"),
        (NEWER, "sm_75", ["mine/32"], "mine/32"),
        # 100 tiles of 16: one for each of 132 multiprocessors, two for some of 72.
        (TILED, "sm_90", ["mine/32", "mine/16"], "mine/16"),
        (TILED, "sm_75", ["mine/32", "mine/16"], "mine/32"),
    ],
)
def test_a_card_takes_its_rows_and_chooses_by_multiprocessors(load, text, arch, expected, at_160):
    catalogue = load(text)
    assert parts(catalogue, arch) == expected
    assert choice(catalogue, "160", arch) == at_160


def test_what_runs_at_given_shapes_is_compiled_for_them_and_of_two_dispatches_all(load):
    catalogue = load(other=table(row("mine/32")))
    assert parts(catalogue, "sm_90", Gemm(640, 640, 640), Gemm(641, 640, 640)) == ["mine/16"]
    assert parts(catalogue, "sm_90", Gemm(1, 1, 1), Gemm(640, 640, 640)) == ["mine/8", "mine/16"]
    assert parts(catalogue, "sm_90", Gemm(65536 * 32, 1, 1)) == []  # the measuring job says why
    assert parts(catalogue, "sm_90", of="both") == ["mine/32", "mine/8", "mine/16"]
    assert catalogue.buildable.keys() - catalogue.variants.keys() == {"mine-8", "mine-32"}
    with pytest.raises(UserError, match=r"table\.csv: no row's variant takes 2097152x1x1"):
        choice(catalogue, f"{65536 * 32}x1x1")


def test_the_digest_follows_the_table_and_the_sources_of_the_parts(load):
    first, again = load().variant("chosen"), load().variant("chosen")
    assert digest(first) == digest(again)
    changes = {"first_slabs": 0.03}, {"most_additions": 1000}, {"shapes": 640}, {"at_limit": 0.1}
    rows = [row("mine/24", launch=6, slabs=0.02), *(LARGE | change for change in changes)]
    changed = [load(table(SMALL, other)).variant("chosen") for other in rows]
    assert len({variant.launch_identity for variant in (first, *changed)}) == 6
    digests = {digest(variant) for variant in (first, *changed)}
    source = first.kernel.costs[0].variant.kernel.code
    source.write_text(source.read_text() + "int changed;\n")
    assert len(digests | {digest(again)}) == 7


def wrong(said: str, **changes: object) -> Case:
    """A table whose last line is wrong, and what is said of it."""
    return table(SMALL, LARGE | changes), {}, f"table.csv, line 3: {said}"


def short(*rows: Row, said: str = "", **mine: object) -> Case:
    """A table in which some shape or some card has no row, and what is said of it."""
    every = "one of the rows for 'sm_90' must name a variant that takes every shape"
    return table(*rows), mine, said or every


@pytest.mark.parametrize(
    ("text", "others", "said"),
    [
        wrong("variant 'mine': say which, of mine/16, mine/8", variant="mine"),
        wrong("variant 'chosen': chosen is not a CUDA kernel", variant="chosen"),
        wrong("tiles: 'inf' is not a number from 0 on", tiles="inf"),
        wrong("at_limit: '-1' is not a number from 0 on", at_limit="-1"),
        wrong("most_additions: 'any' is not a number from 0 on", most_additions="any"),
        wrong("architecture '9.0': write one such as sm_90", architecture="9.0"),
        wrong("new/16 does not run on sm_75", architecture="sm_75", variant="new/16"),
        wrong("launch: a row has all costs, or none and the", **dict.fromkeys(TERMS, "")),
        wrong("sums: a row has all costs, or none and the shapes", sums="", shapes="640"),
        wrong("TILE=9: elsewhere mine/8 has 8; give one of them another name", variant="mine/8",
              TILE=9),
        wrong("TILE: '16.0' is not a whole number", TILE="16.0"),
        wrong("variant: 'yours' is not one of chosen, mine, new", variant="yours/16"),
        (TWO.replace("variant", "other"), {}, "table.csv: there is no column 'variant'"),
        short(said="table.csv: there is no row"),
        short(SMALL, most_rows="16 // TILE"),
        short(SMALL, accepts="TILE"),
        short(SMALL, fewest_terms=2),
        short(row("mine/8", most_additions=4096)),
        short(KNOWN),
        short(SMALL, LARGE | {"architecture": "sm_80", "most_additions": 9},
              said="one of the rows for 'sm_80' must name"),
        # Cards that the table was not fitted on take the rows of the first one.
        short(row("new/16"), SMALL | {"architecture": "sm_80"},
              said="take the rows for 'sm_90'; one of them must name a variant that takes every "
                   "shape and runs from 6.0 on"),
        *((TWO, {"other": table(), "otherwise": name},
           f"both: otherwise: '{name}' is no dispatch of gemm above this entry")
          for name in ("mine", "both")),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_table_line_and_column(load, text, others, said):
    with pytest.raises(UserError, match=re.escape(said)):
        load(text, **others)


def test_a_table_that_is_not_there_is_named(load, tmp_path):
    load()
    (tmp_path / "table.csv").unlink()
    with pytest.raises(UserError, match=r"chosen: .*table\.csv.*No such file"):
        load_catalogue(tmp_path / "catalogue.yaml")
