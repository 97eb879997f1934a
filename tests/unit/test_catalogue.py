"""The catalogue: mistakes are named in one line, entries expand, digests follow the sources."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support import the_catalogue

from matmul_sweep.build import packages
from matmul_sweep.build.binaries import essence, flags, recipe
from matmul_sweep.build.recipes import compiled
from matmul_sweep.catalogue.entries import Catalogue, Variant
from matmul_sweep.catalogue.keys import Entry as Entry_
from matmul_sweep.catalogue.keys import OwnLaunch, OwnLayout, OwnMap
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom.gallery import GALLERY
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.models import description, fields_of
from matmul_sweep.process.project import DEFAULT_CATALOGUE

Mine = Callable[..., Variant]


def mistake(path: Path) -> str:
    """The only line that a refused catalogue gives, which starts with its path."""
    with pytest.raises(UserError, match=f"^{path}: ") as caught:
        load_catalogue(path)
    return str(caught.value).removeprefix(f"{path}: ")


MAP = {"of": "A", "extents": ["m", "k"], "box": [64, 32]}
LIBRARY = {"library": "cublasSgemm", "source": None, "tile": None, "threads": None}
REFUSED = [
    ({"tiles": [16, 16]}, "unknown key 'tiles'; did you mean 'tile'?; known are operation, title,"),
    ({"operation": None}, "'operation' is missing: One of src/matmul_sweep/operations"),
    ({"library": "cublasSgemm"}, "exactly one of source (a .cu or .c file), library"),
    ({"title": "a, b"}, "title: 'a, b': not 1 to 80 characters on one line, no comma"),
    ({"source": "absent.cu"}, "source: there is no file"),
    ({"tile": None}, "tile and threads: one is missing"),
    ({"tile": ["TILE", 16]}, "'TILE' is not a whole number, a parameter"),
    ({"tile": [16]}, "tile: '1' is missing: Rows and columns of C"),
    ({"threads": ["16 / 2", 16]}, "expression '16 / 2': '16 / 2' is not a whole number"),
    ({"threads": [32, 33]}, "mine: 32×33 = 1056 threads per block and a tile of 16×16; a block"),
    ({"tilings": {2: {"W": 2}}, "threads": ["W - 6", "W - 6"]}, "mine/2: -4×-4 = 16 threads"),
    ({"parameters": {"W": [32, 16]}},
     "parameters.W: '[32, 16]': not a whole number from 0 on; wanted: Compile-time parameters of "
     "all tilings that do not override them, one value each; name variants in `tilings: {32: "),
    ({"tilings": {"a/b": {"W": 16}}}, "tilings: 'a/b': not a name of letters, digits and hyphens"),
    ({"tilings": {1: {"W": 1}, 2: {"W": 2, "R": 1}}}, "tilings: only one of 1 and 2 sets R"),
    ({"accepts": "WIDTH"}, "accepts: 'WIDTH' is not one of any, square"),
    ({"parameters": {"W": 0}, "accepts": "W"}, "accepts: W is 0 in one of its tilings"),
    ({"parameters": {"W": 48, "B": 32}, "multiples": {"W": "B"}}, "W=48 is not a multiple of B=32"),
    ({"parameters": {"W": 48}, "multiples": {"W": "W - 48"}}, "multiple of W - 48=0"),
    ({"registers": 256}, "registers: 256 registers per thread, outside 0 to 255"),
    ({"cluster": 16}, "cluster: 16 blocks per cluster, outside 0 to 8"),
    ({"registers": 65, "threads": [32, 32]}, "registers: 66560 registers for 1024 threads"),
    ({"shared_bytes": "48 * 1024 + 4"}, "shared_bytes: 49156 bytes of static shared memory"),
    ({"dynamic_shared_bytes": "228 * 1024"}, "dynamic_shared_bytes: 233472 bytes"),
    ({"layout": {"thread": [2, 2]}},
     "256 threads of 2×2 results do not cover a tile of 16×16"),
    ({"layout": {"thread": [3, 1]}}, "3×1 does not divide 16×16"),
    ({"layout": {"piece": [1, 32]}}, "1×32 does not divide 16×16"),
    ({"layout": {"warp": [16, 16]}}, "32 threads of 1×1 results do not cover a tile of 16×16"),
    ({"schedule": "uper"}, "did you mean 'upper'?; wanted: The tiles of a symmetric C"),
    ({"before": [{"function": "first", "threads": [1, 32]}]},
     "before.0: 'blocks' is missing: Blocks of the grid"),
    ({"tensor_maps": {"a": MAP}}, "stride of 4 bytes is no multiple of 16: let `accepts` refuse"),
    ({"tensor_maps": {"a": MAP | {"of": "D"}}}, "tensor_maps: a: of: 'D' is not one of A, B, C"),
    ({"tensor_maps": {"a": MAP | {"box": [257, 32]}}}, "not 257×32"),
    ({"tensor_maps": {"a": MAP | {"box": [64, 3]}}}, "rows of 12 bytes"),
    ({"tensor_maps": {"a": MAP | {"swizzle": 64}}}, "128 bytes, over the 64 of its swizzle"),
    ({"tensor_maps": {"a": MAP | {"box": [32]}}}, "one number for each dimension"),
    (LIBRARY | {"operation": "gram"}, "library of gram: 'cublasSgemm' is not one of cublasDgemm"),
    (LIBRARY | {"library": "numpy.matmul", "arithmetic": "tf32"},
     "arithmetic: 'numpy.matmul' has full, not tf32"),
    ({"arithmetic": "tf32"}, "arithmetic: only a library routine can have tf32"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), REFUSED, ids=str)
def test_a_mistake_is_one_line_naming_file_entry_key_and_remedy(
    entry, write_catalogue, changes, said
):
    multiples = {} if "let `accepts`" in said else {"accepts": {"n": 4, "k": 4}}
    changes = multiples | changes if "tensor_maps" in changes else changes
    message = mistake(write_catalogue({"mine": entry(**changes)}))
    assert message.startswith("mine") and said in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'None': input should be a valid dictionary"),
        ("mine: 7", "mine: '7': input should be keys and their values"),
        ("Mine: {operation: gemm}", "'Mine': not a name of at most 48 small letters"),
        ("mine: {}\nmine: {}", "line 2: not valid YAML: key 'mine' is given twice"),
    ],
    ids=lambda text: text[:40],
)
def test_a_file_that_is_no_catalogue_is_refused(write_catalogue, text, said):
    path = write_catalogue(text)
    assert mistake(path).startswith(said)
    path.unlink()
    assert "No such file" in mistake(path)


def test_every_key_is_described():
    for model in (Entry_, OwnLaunch, OwnMap, OwnLayout):
        for key in fields_of(model):
            assert len(description(model, [key])) > 10, key


def test_a_kernel_is_held_against_the_rivals_of_its_operation_that_there_are():
    names = ("naive", "cublas_sgemm", "cublas_tuned", "gram_naive", "cublas_dsyrk", "cpu_blas")
    catalogue = Catalogue({name: the_catalogue()[name] for name in names})
    rivals = {"naive": ["cublas_sgemm"], "gram_naive": ["cublas_dsyrk"]}
    alone = rivals | {"naive": ["cublas_sgemm", "cublas_tuned"]}
    for which, wanted in ((False, rivals), (True, alone)):
        held = {n: [v.name for v in catalogue.rivals(k, which)] for n, k in catalogue.items()}
        assert held == {name: wanted.get(name, []) for name in names}


@pytest.mark.parametrize(
    "variant", [k.variants[-1] for k in the_catalogue().values() if k.shared_bytes],
    ids=lambda v: v.name,
)  # fmt: skip
def test_declared_resources_are_what_the_compiler_finds(variant, tmp_path):
    """Shared memory to the byte; registers at least, since addresses and counters need some too."""
    record = compiled(recipe(variant, "sm_90"), tmp_path / "cubin")
    assert record["status"] == "ok"
    assert record["shared_bytes"] == variant.shared_bytes
    assert record["registers"] >= variant.registers
    # NVRTC unrolls less than nvcc, so that an index is not always known.
    assert record["spill_bytes"] <= (16 if packages.installed() == "cuda12" else 0)


def test_each_tiling_is_a_variant_with_the_shared_parameters(mine):
    tilings = {32: {"W": 32}, "16x2": {"W": 16, "R": 2}}
    first, last = mine(
        parameters={"R": 1}, tilings=tilings, tile=["W * R", "W"], threads=["W // R", "W"],
        overlaps=True, optimization="R",
    ).kernel.variants  # fmt: skip
    assert (first.name, first.parameters) == ("mine/32", {"W": 32, "R": 1})
    assert (last.name, last.slug, last.tile) == ("mine/16x2", "mine-16x2", (32, 16))
    assert last.block == (16, 8, 1)  # x, y, z from threads = [y, x]
    assert last.grid(Gemm(33, 17, 5)) == (2, 2, 1)
    assert set(flags(last, "sm_90")) >= {"-DW=16", "-DR=2", "-DOVERLAPS=1", "-O2"}


@pytest.mark.parametrize(("arch", "count"), [("sm_90a", 132), ("sm_75", 72), (None, 132)])
def test_a_grid_for_the_device_has_the_architectures_multiprocessors(mine, arch, count):
    variant = mine(parameters={"RESIDENT": 2}, blocks="RESIDENT * MULTIPROCESSORS")
    assert variant.grid(Gemm(1, 1, 1), arch) == (2 * count, 1, 1)
    assert f"-DMULTIPROCESSORS={count}" in flags(variant, arch or "sm_90")
    assert variant.parameters == {"RESIDENT": 2}


@pytest.mark.parametrize("text", ["shared/16", "shared-16", "shared", "cpu_loop"])
def test_a_variant_is_found_by_name_slug_and_kernel(text):
    names = {"shared-16": "shared/16", "shared": "shared/32"}
    assert the_catalogue().variant(text).name == names.get(text, text)


ROW, LONGEST = {"most_rows": 1}, 65535 * 16  # gridDim.y holds 65535 blocks


@pytest.mark.parametrize(
    ("changes", "shape", "said"),
    [
        ({"accepts": "square"}, Gemm(2, 2, 3), "mine multiplies square matrices only, not 2x2x3"),
        ({"accepts": "W"}, Gemm(8, 8, 9), "mine takes multiples of W=8 only, not 8x8x9"),
        ({"accepts": {"k": 4}}, Gemm(1, 1, 9), "mine takes multiples of 4 for k only, not 1x1x9"),
        (ROW, Gemm(2, 1, 1), "mine takes at most 1 row of C, not 2x1x1"),
        ({"most_columns": "W"}, Gemm(1, 9, 1), "mine takes at most 8 columns of C, not 1x9x1"),
        ({}, Gemm(LONGEST + 1, 1, 1), "mine: a grid of 65536 blocks in y, over 65535"),
        ({}, Gemm(LONGEST, 1, 1), None),
        ({"accepts": "W", "most_columns": 8, **ROW}, Gemm(8, 8, 8), "mine takes at most 1 row"),
        ({"accepts": "W", "most_columns": 8}, Gemm(16, 8, 8), None),
    ],
)
def test_a_shape_is_taken_or_refused_in_one_line_that_says_why(mine, changes, shape, said):
    refusal = mine(parameters={"W": 8}, **changes).refusal(shape)
    assert refusal is None if said is None else str(refusal).startswith(said)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a = b; // old", "a = b;  /* new,\n of two lines */", True),
        ("a = b + c;", "a =\n    b+c ;", True),
        ("#define A 1\nint x;", "  #define A 1\n\n\n  int   x;", True),
        ("int x;", "intx;", False),
        ('f("// a");', 'f("// b");', False),
        ("#define A 1\n-x", "#define A 1 -x", False),
        ("a + b", "a - b", False),
    ],
)
def test_the_digest_has_what_a_compiler_tells_apart(one, other, same):
    assert (essence(one) == essence(other)) == same


def test_headers_are_found_through_headers_and_once(tmp_path):
    """One that is not beside the source, or is missing, is the compiler's matter."""
    folder = tmp_path / "common"
    folder.mkdir()
    source, outer, inner = tmp_path / "a.cu", folder / "outer.h", folder / "inner.h"
    text = '#include <cstdio>\n #  include "common/outer.h"\n#include "cuda_fp16.h"\n'
    source.write_text(text + '// #include "no.h"\n')
    outer.write_text('#include "inner.h"\n')
    inner.write_text('#include "outer.h"\n')
    assert [f.resolve() for f in source_files(source)] == [source, outer, inner]


def test_every_source_of_the_project_is_in_the_catalogue():
    """A kernel that is compiled by nobody would rot. The gallery of mistakes has its own list."""
    folder = DEFAULT_CATALOGUE.parent
    kernels = the_catalogue().values()
    listed = {file.resolve() for k in kernels for file in (k.source, k.dispatch) if file}
    found = (file for ending in ("cu", "c", "csv") for file in folder.rglob(f"*.{ending}"))
    assert listed == {file.resolve() for file in found if file.parent != GALLERY.parent}
