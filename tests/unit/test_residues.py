"""AᵀA by residues on the CPU: its numbers against whole numbers of Python, its products, and its
guard; tests/gpu has the same on a card."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import chinese
import numpy as np
import pytest
from kinds import BOUND, COLUMNS, EASY, errors, fooling
from support import ROOT, the_catalogue

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.operations.gram import GRAM, Gram

pytestmark = pytest.mark.slow

KERNEL = the_catalogue()["residues"]
FOLDER = ROOT / "kernels/gram"
NATIVE = 17


def small(accuracy: str, **own: int) -> Variant:
    """Small tiles, and a card of a few multiprocessors, for a CPU."""
    values = {**KERNEL.tilings[accuracy], "SIDE": 128, "STAGES": 3, "MULTIPROCESSORS": 5, **own}
    return KERNEL.tiled("small", values)


Multiply = Callable[[np.ndarray], np.ndarray]
Decide = Callable[[np.ndarray], tuple[int, bool]]


def multiplier(variant: Variant, folder: Path) -> Multiply:
    emulation.build_variant(variant, folder / "residues")

    def multiply(a: np.ndarray) -> np.ndarray:
        shape = Gram(*a.shape)
        c = np.full(shape.output, np.nan)
        return emulation.launch(folder / "residues", variant.plan(shape), shape, [a], c, 60)

    return multiply


@pytest.fixture(scope="module")
def componentwise(tmp_path_factory: pytest.TempPathFactory) -> Multiply:
    return multiplier(small("componentwise"), tmp_path_factory.mktemp("componentwise"))


@pytest.fixture(scope="module")
def normwise(tmp_path_factory: pytest.TempPathFactory) -> Multiply:
    variant = small("normwise", SIDE=256, PORTION=1, APART=1, IN_STEP=3)
    return multiplier(variant, tmp_path_factory.mktemp("normwise"))


@pytest.fixture(scope="module")
def guard(tmp_path_factory: pytest.TempPathFactory) -> Decide:
    """How many moduli the launches before the residues' choose, and whether by all rows of A."""
    variant, folder = small("componentwise"), tmp_path_factory.mktemp("guard")
    source, before = folder / "guard.cu", KERNEL.functions.index("split")
    functions = [*KERNEL.functions[:before], "show"]
    source.write_text(
        '#include "residues.cu"\nextern "C" __global__ void show(OPERANDS)\n'
        "{\n    extern __shared__ __align__(1024) char memory[];\n"
        "    C[0] = known(moduli).taken(), C[1] = known(moduli).in_doubt();\n}\n"
    )
    emulation.build(
        source, functions, GRAM, variant.constants(None), folder / "guard", None, [FOLDER],
        [*KERNEL.workspace], [*KERNEL.tensor_maps],
    )  # fmt: skip

    def decide(a: np.ndarray) -> tuple[int, bool]:
        shape = Gram(*a.shape)
        plan = variant.plan(shape)
        plan = replace(plan, launches=(*plan.launches[:before], Launch((1, 1, 1), (1, 1, 1))))
        c = emulation.launch(folder / "guard", plan, shape, [a], np.zeros(shape.output))
        return int(c[0, 0]), bool(c[0, 1])

    return decide


# ---- Numbers ----


def test_the_header_has_the_numbers_of_the_moduli():
    header = (FOLDER / "remainders.cuh").read_text()
    for count in chinese.COUNTS:
        [numbers] = re.findall(rf"struct Remainder<{count}> {{(.*?)^}};", header, re.M | re.S)
        _, *parts = re.split(r"(\w+)(?:\[\])? = ", numbers)
        found = {name: [*map(float.fromhex, re.findall(r"-?0x\S+?p[+-]\d+", text))]
                 for name, text in zip(parts[::2], parts[1::2], strict=True)}  # fmt: skip
        assert found == chinese.remainder(count)
    text = (FOLDER / "residues_columns.cuh").read_text()
    own = re.search(r"moduli_in_order\[\] = \{(.*?)\}", text, re.DOTALL)
    assert own and tuple(map(int, own[1].split(","))) == chinese.MODULI
    assert math.lcm(*chinese.MODULI) == math.prod(chinese.MODULI)


@pytest.mark.parametrize("count", chinese.COUNTS)
def test_high_parts_are_exact_in_sums(count):
    """Sums of high parts times residues are below 2^53 of their grain, and what is left of them
    after whole products, too."""
    grain = 1 << chinese.grain(count)
    highs = [chinese.split(weight, chinese.grain(count))[0] for weight in chinese.weights(count)]
    assert all(int(high) % grain == 0 for high in highs)
    most = sum(abs(int(h)) * (p + 1) // 2 for h, p in zip(highs, chinese.MODULI, strict=False))
    assert most < grain << 53


# ---- Products of bytes ----


def test_tensor_cores_multiply_bytes(tmp_path):
    rows = np.random.default_rng(1).integers(-128, 128, (192, 128))
    rows[[0, 64]] = -128  # a sum of squares of -128
    build_double("product", tmp_path)
    plan = Plan((Launch((1, 1, 1), (128, 1, 1)),))
    a, c = np.zeros((192, 192)), np.zeros((192, 192))
    a.ravel()[: rows.size] = rows.ravel()
    c = emulation.launch(tmp_path / "f", plan, Gram(192, 192), [a], c)
    np.testing.assert_array_equal(c.ravel()[: 64 * 128].reshape(64, 128), rows[:64] @ rows[64:].T)


# ---- The whole chain ----


SHORT = {"normal", "columns of 10^-100 to 10^100", "one huge element per column, in one row"}


@pytest.mark.parametrize(
    "kind", [pytest.param(x, marks=[pytest.mark.long] * (x not in SHORT)) for x in EASY]
)
def test_it_errs_no_more_than_a_sum_of_products(componentwise, kind):
    a = EASY[kind](np.random.default_rng(1), 300, 21)
    own, other = errors(componentwise(a), a), errors(in_order(a), a)
    assert own.max() <= 1.01 * other.max()
    assert own.mean() <= 1.01 * other.mean()


def in_order(a: np.ndarray) -> np.ndarray:
    """AᵀA by multiply-adds, one row after the other."""
    c = np.zeros((a.shape[1],) * 2)
    for row in a:
        c += np.outer(row, row)
    return c


@pytest.mark.parametrize(("kind", "moduli"), [("normal", 14), (21, 15), (7, 16)])
def test_it_is_the_product_of_the_whole_numbers(componentwise, kind, moduli):
    """For each number of moduli: but for two roundings, and a trace of those of low parts."""
    rng = np.random.default_rng(2)
    a = fooling(kind, 160, 12) if isinstance(kind, int) else COLUMNS[kind](rng, 160, 12)
    assert chinese.moduli_needed(a) == moduli
    c, exact = componentwise(a), chinese.gram(a, moduli)
    norms = np.sqrt(np.square(a).sum(0))
    for i, j in np.ndindex(c.shape):
        allowed = 2.0**-52 * abs(float(exact[i, j])) + 2.0**-80 * norms[i] * norms[j]
        assert abs(float(exact[i, j] - chinese.Fraction(c[i, j]))) <= allowed


@pytest.mark.parametrize(("m", "n"), [(128, 1), (129, 3), (140, 330)])
def test_tiles_and_edges_are_right(normwise, m, n):
    """Tiles on the diagonal and off it, with edges anywhere; of panels and squares fewer than
    blocks, and more."""
    a = EASY["normal"](np.random.default_rng(3), m, n)
    assert errors(normwise(a), a).max() <= BOUND


def test_portions_give_the_same_bits(componentwise, normwise):
    """One for each slab, or one for all."""
    a = EASY["normal"](np.random.default_rng(3), 300, 21)
    np.testing.assert_array_equal(normwise(a), componentwise(a))


def test_a_cluster_counts_each_tile_once_and_the_last_one_clears_the_count(tmp_path):
    """Three clusters, one after the other, of ten tiles 0, 3, 6, 9; 1, 4, 7; 2, 5, 8."""
    build_double("steps", tmp_path)
    plan, shape = Plan((Launch((6, 1, 1), (1, 1, 1), cluster=2),)), Gram(1, 4 * 128)
    c = emulation.launch(tmp_path / "f", plan, shape, [np.zeros((1, 512))], np.zeros(shape.output))
    assert c.ravel()[[0, 3, 6, 9, 1, 4, 7, 2, 5, 8]].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]


@pytest.mark.parametrize("tiles", [1, 3, 4, 11])
def test_patches_cover_the_triangle_once(tiles, tmp_path):
    """In the order of their rows of patches, and in each of columns."""
    plan = Plan((Launch((1, 1, 1), (1, 1, 1)),))
    build_double("places", tmp_path)
    c = emulation.launch(
        tmp_path / "f", plan, Gram(tiles, 2 * tiles), [np.zeros((tiles, 2 * tiles))],
        np.full((2 * tiles,) * 2, -1.0),
    )  # fmt: skip
    found = [divmod(int(x), 100) for x in c.ravel() if x >= 0]
    places = [(row, column) for row in range(tiles) for column in range(row, tiles)]
    assert found == sorted(places, key=lambda at: (at[0] // 4, at[1], at[0]))


def build_double(name: str, folder: Path) -> None:
    """The program of a kernel `f` that takes (A, C, m, n) in float64, and headers of kernels."""
    source = Path(__file__).parent / "residues" / f"{name}.cu"
    emulation.build(source, ["f"], GRAM, {}, folder / "f", None, [FOLDER.parent])


def test_its_bits_depend_neither_on_the_triangle_nor_on_the_order_of_rows(componentwise):
    a = EASY["uniform [0, 1]"](np.random.default_rng(4), 150, 100)
    c = componentwise(a)
    np.testing.assert_array_equal(c, c.T)
    np.testing.assert_array_equal(c, componentwise(np.random.default_rng(5).permutation(a)))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e-200, 1e200])
def test_columns_beyond_the_scales_are_native(normwise, bad):
    a = EASY["normal"](np.random.default_rng(6), 150, 9)
    a[:, 4] *= bad
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_allclose(normwise(a), a.T @ a, rtol=1e-12)


def test_few_terms_and_a_column_of_zeros_are_native(guard):
    a = EASY["normal"](np.random.default_rng(6), 128, 9)
    assert [guard(a[:rows])[0] for rows in (127, 128)] == [NATIVE, 14]
    a[:, 4] = 0
    assert guard(a) == (NATIVE, False)


# ---- The guard ----


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_guard_decides_as_in_python(guard, kind):
    a = COLUMNS[kind](np.random.default_rng(7), 200, 19)
    moduli, by_all = guard(a)
    assert moduli == chinese.moduli_needed(a)
    assert (moduli < NATIVE) == (kind in EASY)
    assert by_all == (chinese.moduli_needed(a, every=8) > 14)


def test_the_guard_decides_as_in_python_on_drawn_columns(guard):
    drawn = [fooling(seed, 160, 12) for seed in range(14, 22)]
    found = [guard(a)[0] for a in drawn]
    assert found == [chinese.moduli_needed(a) for a in drawn]
    assert {*found} == {14, 15, 16, NATIVE}


def test_what_the_guard_passes_errs_no_more_than_the_bound():
    """Without it half of them would err more, of columns that are drawn to fool it."""
    passed = [error_of(a, chinese.moduli_needed(a)) for a in drawn_columns()]
    assert max(passed) <= BOUND
    assert passed.count(0) < 400
    assert sum(error_of(a, 14) > BOUND for a in drawn_columns()) > 200


def drawn_columns() -> list[np.ndarray]:
    return [fooling(seed, 256, 24) for seed in range(600)]


def error_of(a: np.ndarray, moduli: int) -> float:
    """The largest error of AᵀA of the whole numbers, as a share of Σ|a||b|; 0 for native."""
    if moduli == NATIVE:
        return 0
    lost = np.ldexp(chinese.whole(a, moduli), -chinese.exponents(a, moduli)) - a
    error = a.T @ lost + lost.T @ a + lost.T @ lost
    terms = np.abs(a).T @ np.abs(a)
    return float((np.abs(error[terms > 0]) / terms[terms > 0]).max())
