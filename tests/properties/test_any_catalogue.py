"""For all numbers of an entry: its tilings are variants that fit, or it is refused in one line."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import CUDA_ENTRY

from matmul_sweep.catalogue.expressions import evaluate
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.process.errors import UserError

# Of what a block may declare (CUDA C++ Programming Guide, table of technical specifications).
LIMITS = {"registers": 255, "shared_bytes": 48 * 1024, "dynamic_shared_bytes": 227 * 1024}
SIZES = st.sampled_from([0, 1, 2, 3, 4, 8, 12, 16, 32, 48, 64])
NAMES = st.sampled_from(["W", "TILE_WIDTH", "R2"])
PAIRS = st.builds("{} {} {}".format, NAMES, st.sampled_from(["+", "-", "*", "//"]), NAMES)
NUMBERS = SIZES | NAMES | PAIRS | st.builds("2 * ({} + 1)".format, NAMES)
TILINGS = st.fixed_dictionaries({"W": SIZES, "TILE_WIDTH": SIZES}, optional={"R2": SIZES})
ENTRIES = st.fixed_dictionaries(
    {
        "tilings": st.dictionaries(st.sampled_from("abc"), TILINGS, min_size=1),
        "tile": st.tuples(NUMBERS, NUMBERS),
        "threads": st.tuples(NUMBERS, NUMBERS),
    },
    optional={
        **{key: st.sampled_from([limit, limit + 1]) | NUMBERS for key, limit in LIMITS.items()},
        "multiples": st.dictionaries(NAMES, NUMBERS, min_size=1),
    },
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("catalogue")
    (folder / "mine.cu").touch()
    return folder / "catalogue.yaml"


@given(ENTRIES)
def test_each_tiling_is_a_variant_that_fits_or_the_entry_is_refused(file, entry):
    file.write_text(json.dumps({"mine": CUDA_ENTRY | entry}))  # which is YAML too
    try:
        variants = load_catalogue(file)["mine"].variants
    except UserError as error:
        assert str(error).startswith(f"{file}: mine")
        return
    assert [variant.tiling for variant in variants] == [*entry["tilings"]]
    for variant in variants:
        x, y, _ = variant.block
        assert min(x, y, *variant.tile) >= 1 and x * y <= 1024
        for key, limit in LIMITS.items():
            assert 0 <= evaluate(entry.get(key, 0), variant.parameters) <= limit
        for name, step in entry.get("multiples", {}).items():
            assert variant.parameters[name] % evaluate(step, variant.parameters) == 0
