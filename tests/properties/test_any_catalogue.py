"""For all tilings of an entry: each is one variant, or the entry is refused."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import CUDA_ENTRY

from matmul_sweep.build.binaries import flags
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.plan.configuration import chosen_jobs
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.shapes import LARGEST, Shape
from matmul_sweep.process.errors import UserError

CATALOGUE = load_catalogue()
VARIANTS = list(CATALOGUE.buildable.values())
SIZES = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64])
NAMES = ["W", "TILE_WIDTH", "R2"]
TILINGS = st.lists(st.sampled_from(NAMES), unique=True).flatmap(
    lambda names: st.lists(
        st.fixed_dictionaries(dict.fromkeys(names, SIZES)), min_size=1, max_size=4
    )
)

# Of what a block may declare (CUDA C++ Programming Guide, table of technical specifications).
LIMITS = {"registers": 255, "shared_bytes": 48 * 1024, "dynamic_shared_bytes": 227 * 1024}


def expressions(names: list[str]) -> st.SearchStrategy[int | str]:
    """Of a catalogue's numbers, most of them small."""
    if not names:
        return SIZES
    one = st.sampled_from(names)
    pair = st.builds("{} {} {}".format, one, st.sampled_from(["+", "-", "*", "//"]), one)
    return SIZES | one | pair | st.builds("2 * ({} + 1)".format, one)


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """A catalogue entry of a CUDA kernel, right in all but perhaps its numbers."""
    tilings = draw(TILINGS)
    parameters = tilings[0]
    number = expressions([*parameters])
    extent = st.lists(number, min_size=2, max_size=2)
    optional = {
        key: st.sampled_from([1, limit, limit + 1]) | number for key, limit in LIMITS.items()
    }
    if parameters:
        optional["multiples"] = st.dictionaries(st.sampled_from([*parameters]), number, min_size=1)
    keys = draw(st.lists(st.sampled_from([*optional]), unique=True, max_size=1))
    entry = {
        "tilings": {f"t{i}": own for i, own in enumerate(tilings)},
        "tile": draw(extent),
        "threads": draw(extent),
    }
    return CUDA_ENTRY | entry | {key: draw(optional[key]) for key in keys}


def value(expression: int | str, parameters: dict[str, int]) -> int:
    return eval(str(expression), {}, parameters)


def runs(entry: dict[str, Any], parameters: dict[str, int]) -> bool:
    """Whether a block fits a multiprocessor, and the parameters each other."""
    y, x, rows, columns = (value(e, parameters) for e in (*entry["threads"], *entry["tile"]))
    declared = {key: value(entry.get(key, 0), parameters) for key in LIMITS}
    steps = {name: value(e, parameters) for name, e in entry.get("multiples", {}).items()}
    return (
        min(y, x, rows, columns) >= 1
        and y * x <= 1024
        and all(0 <= declared[key] <= limit for key, limit in LIMITS.items())
        and declared["registers"] * y * x <= 64 * 1024
        and all(step >= 1 and parameters[name] % step == 0 for name, step in steps.items())
    )


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "mine.cu").touch()
    return folder / "catalogue.yaml"


def variant_of(entry: dict[str, Any], tiling: str) -> tuple[Any, ...]:
    """What the variant of an entry with this tiling is, by the entry's own words."""
    parameters = entry["tilings"][tiling]
    rows, columns = (value(e, parameters) for e in entry["tile"])
    y, x = (value(e, parameters) for e in entry["threads"])
    return (
        f"mine/{tiling}",
        f"mine-{tiling}",
        (rows, columns),
        (x, y, 1),
        {f"-D{k}={v}" for k, v in parameters.items()},
    )


@settings(max_examples=300)
@given(entries())
def test_each_tiling_is_one_variant_or_the_entry_is_refused(
    file: Path, entry: dict[str, Any]
) -> None:
    file.write_text(json.dumps({"mine": entry}))  # which is YAML too
    tilings = entry["tilings"]
    if not all(runs(entry, parameters) for parameters in tilings.values()):
        with pytest.raises(UserError) as caught:
            load_catalogue(file)
        assert str(caught.value).startswith(f"{file}: mine: ")
        assert len(str(caught.value).splitlines()) == 1
        return
    catalogue = load_catalogue(file)
    variants = catalogue["mine"].variants
    assert [*catalogue.variants.values()] == variants
    for variant, tiling in zip(variants, tilings, strict=True):
        name, slug, tile, block, defines = variant_of(entry, tiling)
        assert (variant.name, variant.slug) == (name, slug)
        assert (variant.tile, variant.block) == (tile, block)
        assert {flag for flag in flags(variant, "sm_90") if flag.startswith("-D")} == defines
        assert catalogue.variant(slug) is catalogue.variants[slug] is variant
        assert catalogue.variant(name) is variant
    assert catalogue.variant("mine") is variants[0]


NAMED = st.lists(
    st.sampled_from([*CATALOGUE, *(variant.name for variant in VARIANTS)]), min_size=1, unique=True
)
KERNELS = st.just("all") | NAMED
SWEEPS = st.dictionaries(
    st.sampled_from(["gemm", "gram", "fills"]),
    st.fixed_dictionaries(
        {"operation": st.sampled_from([*OPERATIONS]), "shapes": st.lists(st.just(64), max_size=1)},
        optional={"kernels": KERNELS, "without_gpu": st.booleans()},
    ),
    min_size=1,
)


@settings(max_examples=400)
@given(KERNELS, SWEEPS, st.sampled_from(["gpu", "cpu"]))
def test_a_sweep_measures_the_variants_that_both_lists_name(
    kernels: Any, sweeps: dict[str, dict[str, Any]], device: str
) -> None:
    def named(wanted: Any, variant: Variant) -> bool:
        return wanted == "all" or variant.name in wanted or variant.kernel.name in wanted

    expected = {
        name: [
            variant
            for variant in VARIANTS
            if variant.kernel.operation == sweep["operation"]
            and named(kernels, variant)
            and named(sweep.get("kernels", "all"), variant)
            and (variant.measured or variant.name in [*kernels, *sweep.get("kernels", "all")])
        ]
        for name, sweep in sweeps.items()
        if sweep["shapes"] and (device == "cpu" or not sweep.get("without_gpu"))
    }
    common = {"fills": [], "modes": [], "caches": [], "sampling": {}, "limits": {}}
    config = common | {"kernels": kernels, "sweeps": sweeps}
    if not any(expected.values()):
        with pytest.raises(UserError, match="nothing to measure"):
            chosen_jobs(config, CATALOGUE, device)
        return
    chosen = chosen_jobs(config, CATALOGUE, device)
    assert {name: [*variants.values()] for name, variants in chosen.items()} == expected
    assert all(slug == variant.slug for jobs in chosen.values() for slug, variant in jobs.items())


EXTENTS = st.integers(1, 100) | st.integers(1, LARGEST)
SHAPES = {
    name: st.builds(operation.shape, *[EXTENTS] * len(operation.shape.__match_args__))
    | EXTENTS.map(operation.parse)
    for name, operation in OPERATIONS.items()
}


@st.composite
def requests(draw: st.DrawFn) -> tuple[Variant, Shape]:
    """A variant, whatever shapes its entry says that it accepts and however few rows and columns,
    and a shape of its operation."""
    variant = draw(st.sampled_from(VARIANTS))
    steps = [name for name, step in variant.parameters.items() if step]
    accepts = draw(st.sampled_from(["any", "square", *steps]))
    shape = draw(SHAPES[variant.kernel.operation])
    step = variant.parameters.get(accepts, 1)
    extents = [-(-n // step) * step if draw(st.booleans()) else n for n in shape.dimensions]
    shape = type(shape)(*extents)
    rows, columns = (draw(st.just(0) | st.integers(1, 100)) for _ in range(2))
    kernel = replace(variant.kernel, accepts=accepts, most_rows=rows, most_columns=columns)
    return replace(variant, kernel=kernel), shape


@settings(max_examples=800)
@given(requests())
def test_a_shape_is_taken_or_refused_in_one_line_that_says_why(
    request_: tuple[Variant, Shape],
) -> None:
    variant, shape = request_
    accepts, step = variant.kernel.accepts, variant.parameters.get(variant.kernel.accepts, 1)
    blocks = 0
    if variant.kernel.tile and not variant.kernel.blocks:
        blocks = math.ceil(Fraction(shape.output[0], variant.tile[0]))
        if variant.kernel.schedule == "triangle":  # a row of blocks has two rows of tiles
            blocks = math.ceil(Fraction(blocks, 2))
    rows, columns = variant.most_rows, variant.most_columns
    reasons = {
        "square": accepts == "square" and len({*shape.dimensions}) > 1,
        f"multiples of {accepts}={step}": any(extent % step for extent in shape.dimensions),
        f"at most {rows} row{'s' if rows > 1 else ''} of C": 0 < rows < shape.output[0],
        f"at most {columns} column{'s' if columns > 1 else ''} of C": 0 < columns < shape.output[1],
        f"a grid of {blocks} blocks in y": blocks > 65535,
    }
    refusal = variant.refusal(shape)
    expected = [why for why, holds in reasons.items() if holds]
    assert (refusal is None) == (not expected)
    for fragment in [variant.kernel.name, *expected[:1]] if refusal else ():
        assert fragment in refusal
