"""gemm and gram with a driver whose memory is the host's and whose kernels are NumPy's."""

import functools
import itertools
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from emulated import build_text
from host_card import CONTEXT, NAN, SINGLE, Given, laid, touched, whole_numbers
from support import the_catalogue

import matmul_sweep
from matmul_sweep.api import cards, kinds
from matmul_sweep.api.products import known
from matmul_sweep.catalogue.plans import Launch, Plan
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.launch import combine, driver
from matmul_sweep.operations.gram import GRAM, Gram

pytestmark = pytest.mark.filterwarnings("ignore:matmul_sweep copies")
LAYOUTS = ("rows", "columns", "gaps", "odd")
FACTORS = [(1, 0), (2, 0), (1, 3), (-2, 1), (0, 2), (0, 0)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_numpys_arrays_go_to_the_card_and_back(card, dtype):
    a, b = whole_numbers(5, 7, dtype=dtype), whole_numbers(7, 6, dtype=dtype, seed=1)
    c = matmul_sweep.gemm(a, b)
    assert c.dtype == a.dtype
    np.testing.assert_array_equal(c, a @ b)
    out = np.ones((5, 6), dtype)
    assert matmul_sweep.gemm(a, b, out, alpha=2, beta=-1) is out
    np.testing.assert_array_equal(out, 2 * (a @ b) - 1)
    np.testing.assert_array_equal(matmul_sweep.gram(a), a.T @ a)
    assert not card.memory


@pytest.mark.parametrize("layout_of_a", LAYOUTS)
@pytest.mark.parametrize("layout_of_b", LAYOUTS)
def test_matrices_lie_in_any_way(card, layout_of_a, layout_of_b):
    a = laid(whole_numbers(9, 5), layout_of_a)
    b = laid(whole_numbers(5, 8, seed=1), layout_of_b)
    for layout, (alpha, beta) in itertools.product(LAYOUTS, FACTORS):
        before = whole_numbers(9, 8, seed=2) if beta else np.full((9, 8), NAN, SINGLE)
        out = laid(before, layout)
        matmul_sweep.gemm(Given(a), Given(b), Given(out), alpha=alpha, beta=beta)
        np.testing.assert_array_equal(out, alpha * (a @ b) + (beta * before if beta else 0))
        assert touched(out) <= out.size
    np.testing.assert_array_equal(matmul_sweep.gemm(Given(a), Given(b)).array, a @ b)
    assert not card.memory


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("layout_of_d", [*LAYOUTS, "interleaved"])
def test_d_is_added_in_any_layout(card, layout, layout_of_d, dtype):
    draw = functools.partial(whole_numbers, dtype=dtype)
    shapes = ((8, 8), (8, 16), (3, 8, 8))
    a, b, stack = (laid(draw(*shape, seed=i), layout) for i, shape in enumerate(shapes))
    symmetric, of_stack = draw(8, 8, seed=3), draw(3, 8, 8, seed=4)
    for product, factors, exact, d in (
        (matmul_sweep.gemm, (a, b), a @ b, draw(8, 16, seed=3)),
        (matmul_sweep.gram, (a,), a.T @ a, symmetric + symmetric.T),
        (matmul_sweep.gemm, (stack, a), stack @ a, of_stack),
        (matmul_sweep.gemm, (stack, stack), stack @ stack, of_stack),
    ):
        for alpha, beta in FACTORS:
            given = laid(d if beta else np.full(d.shape, NAN, dtype), layout_of_d)
            options = {"d": Given(given), "alpha": alpha, "beta": beta}
            out = laid(np.full(d.shape, NAN, dtype), layout)
            product(*map(Given, factors), out=Given(out), **options)
            np.testing.assert_array_equal(out, alpha * exact + beta * d)
            np.testing.assert_array_equal(product(*map(Given, factors), **options).array, out)


# How D is given, and what a float32 product takes beside its kernel: launches, pieces of memory.
ADDITIONS = [
    ({}, 0, 0),
    ({"alpha": 2}, 1, 0),
    ({"beta": 2}, 1, 1),
    ({"beta": 2, "d": "c"}, 1, 1),
    ({"beta": 2, "d": "rows"}, 1, 0),
    ({"beta": 2, "d": "columns"}, 1, 0),
    ({"beta": 2, "d": "gaps"}, 1, 0),
    ({"beta": 2, "d": "rows", "alpha": 0}, 0, 0),
    ({"d": "rows"}, 0, 0),
]


@pytest.mark.parametrize(("options", "passes", "memory"), ADDITIONS)
def test_what_an_addition_costs(card, options, passes, memory):
    a, b, c = (laid(whole_numbers(8, 8, seed=seed), "rows") for seed in range(3))
    out, d = Given(c), options.pop("d", None)
    addend = laid(whole_numbers(8, 8, seed=3), d) if d and d != "c" else c.copy()
    given = Given(c) if d == "c" else d and Given(addend)
    expected = options.get("alpha", 1) * (a @ b) + options.get("beta", 0) * addend
    matmul_sweep.gemm(Given(a), Given(b), out, d=given, **options)
    np.testing.assert_array_equal(c, expected)
    assert (len(card.launched) - 1, card.allocated) == (passes, memory)


# A bfloat16 product and what its kernels are; `x` is row-major.
IN_THE_STORE = [
    (lambda x, d: matmul_sweep.gram(Given(x.T), d=d, beta=2), ["gram_whole_bf16"]),
    (lambda x, d: matmul_sweep.gram(Given(x.T), alpha=2), ["gram_whole_bf16"]),
    (lambda x, d: matmul_sweep.gemm(Given(x), Given(x), d=d, beta=2), ["brief_bf16"]),
    (
        lambda x, d: matmul_sweep.gram(Given(x[:, :7].copy().T)),
        ["pad_gram_bf16", "gram_padded_bf16"],
    ),
]


@pytest.mark.parametrize(("product", "launched"), IN_THE_STORE)
def test_bfloat16_is_scaled_and_added_in_the_kernels_store(card, product, launched):
    x = laid(whole_numbers(8, 8, dtype="bfloat16"), "rows")
    product(x, Given(laid(np.ones((8, 8), "bfloat16"), "rows")))
    assert card.launched == launched


@pytest.mark.parametrize("alpha", [1, 0])
def test_without_terms_or_alpha_only_d_is_left(card, alpha):
    x = np.full((8, 0 if alpha else 8), NAN, "bfloat16")
    d = laid(whole_numbers(8, 8, dtype="bfloat16"), "rows")
    made = matmul_sweep.gram(Given(x.T), d=Given(d), alpha=alpha, beta=3).array
    np.testing.assert_array_equal(made, 3 * d)


# What is multiplied, and the products that this takes.
STACKS = [
    ((3, 4, 8), (3, 8, 4), 3),
    ((4, 8), (3, 8, 4), 3),
    ((3, 4, 5), (5, 6), 1),  # one tall matrix
    ((1, 4, 8), (3, 8, 4), 3),
    ((1, 4, 5), (5, 6), 1),
]


@pytest.mark.parametrize(("left", "right", "count"), STACKS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacks(card, left, right, count, layout):
    a, b = laid(whole_numbers(*left), layout), laid(whole_numbers(*right, seed=1), layout)
    made = matmul_sweep.gemm(Given(a), Given(b)).array
    np.testing.assert_array_equal(made, a @ b)
    if layout == "rows":
        assert len(card.launched) == count
    out = np.zeros_like(made)
    matmul_sweep.gemm(Given(a), Given(b), Given(out))
    np.testing.assert_array_equal(out, made)


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty_matrices(card, m, n, k):
    a, b = np.zeros((m, k), SINGLE), np.zeros((k, n), SINGLE)
    np.testing.assert_array_equal(matmul_sweep.gemm(a, b), a @ b)
    out = np.ones((m, n), SINGLE)
    np.testing.assert_array_equal(matmul_sweep.gemm(a, b, out, beta=2), 2 * np.ones((m, n)))


def test_the_second_call_writes_addresses_and_launches(card):
    a, b = (Given(laid(whole_numbers(8, 8, seed=seed), "rows")) for seed in (0, 1))
    matmul_sweep.gemm(a, b)
    asked = len(known.requests), len(card.functions)
    card.launched.clear()
    other = Given(laid(whole_numbers(8, 8, seed=2), "rows"))
    np.testing.assert_array_equal(matmul_sweep.gemm(other, b).array, other.array @ b.array)
    assert (len(known.requests), len(card.functions)) == asked
    assert len(card.launched) == 1


def test_copies_are_told_of_once(card):
    a, b = whole_numbers(6, 6), whole_numbers(6, 6, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matmul_sweep.gemm(Given(laid(a, "columns")), Given(laid(b, "columns")))
    with pytest.warns(UserWarning, match="copies a matrix"):
        matmul_sweep.gemm(Given(laid(a, "columns")), Given(laid(b, "rows")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matmul_sweep.gemm(Given(laid(a, "gaps")), Given(laid(b, "gaps")))


@pytest.mark.parametrize(("kernel", "loaded"), [("streamed", 2), ("pipelined", 1)])
def test_streams_do_not_share_a_kernels_variables(card, kernel, loaded):
    """`streamed` leaves sums and flags in global memory, which is a module's."""
    for stream in (5, 6, 5):
        matmul_sweep.gemm(*[Given(whole_numbers(8, 8), stream) for _ in range(3)], kernel=kernel)
    assert sum(function == "" for _, function in card.functions) == loaded


@pytest.mark.parametrize(
    ("streams", "launched", "waits"),
    [((5, 5, 5), 5, []), ((5, 6, 7), 7, [(7, 6), (7, 5)]), ((5, None, None), 5, [])],
)
def test_c_s_stream_waits_for_those_of_the_inputs(card, monkeypatch, streams, launched, waits):
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(kinds, "wait_for", lambda *pair: found.append(pair))
    matmul_sweep.gemm(*[Given(laid(whole_numbers(8, 8), "rows"), stream) for stream in streams])
    assert (card.stream, found) == (launched, waits)


def test_threads_do_not_write_into_one_anothers_launches(card):
    card.slow = 0.002
    pairs = [(whole_numbers(8, 8, seed=i), whole_numbers(8, 8, seed=i + 9)) for i in range(4)]
    results: list[tuple[np.ndarray, np.ndarray]] = []

    def multiply(a: np.ndarray, b: np.ndarray) -> None:
        for _ in range(5):
            results.append((matmul_sweep.gemm(a, b), a @ b))

    threads = [threading.Thread(target=multiply, args=pair) for pair in pairs]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert len(results) == 20
    for found, expected in results:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("own", "launches"),
    [
        ({"kernel": "residues"}, the_catalogue()["residues"].functions),
        (
            {"accuracy": "normwise"},
            ("norms", "finish_norms", "split", "residues", "combine", "gram_native"),
        ),
        ({"accuracy": "native"}, ("gram_tensor_direct",)),
        ({}, ("gram_tensor_direct",)),
    ],
)
def test_gram_in_float64_multiplies_in_several_ways(card, own, launches):
    a = whole_numbers(150, 40, dtype=np.float64)
    c = matmul_sweep.gram(Given(laid(a, "rows")), **own)
    assert card.launched == [*launches]
    np.testing.assert_array_equal(c.array, a.T @ a)


@pytest.mark.parametrize(
    ("accuracy", "arch", "by_bytes"),
    [
        ("float32", "sm_90", "residues/componentwise"),
        ("componentwise", "sm_90", "residues/componentwise"),
        ("normwise", "sm_90", "residues/normwise"),
        ("native", "sm_90", None),
        ("ieee", "sm_90", None),
        ("normwise", "sm_80", None),
    ],
)
def test_a_large_gram_goes_by_bytes_where_that_is_exact_enough(accuracy, arch, by_bytes):
    part = cards.chosen(None, accuracy, GRAM, Gram(8192, 8192), arch)
    assert (part.name if part.kernel.arithmetic == "residues" else None) == by_bytes


def test_without_memory_for_a_workspace_the_exact_kernel_runs(card, monkeypatch):
    zeros = Given(np.zeros((1024, 1024), SINGLE))
    illegal_address = 700
    for code, error in ((driver.OUT_OF_MEMORY, MemoryError), (illegal_address, driver.DriverError)):
        with monkeypatch.context() as failing:
            failing.setattr(card, "cuMemAllocAsync", lambda *_, code=code: code, raising=False)
            with pytest.raises(error):
                matmul_sweep.gemm(zeros, zeros, kernel="three_products")
            if error is MemoryError:
                with pytest.warns(UserWarning, match="takes the kernel that needs less"):
                    matmul_sweep.gemm(zeros, zeros)
                assert card.launched.pop() == "streamed"
            else:
                with pytest.raises(error):
                    matmul_sweep.gemm(zeros, zeros)
    matmul_sweep.gemm(zeros, zeros)
    assert card.launched[-1] == "three_products"


def test_kernels_can_be_compiled_ahead(card):
    matmul_sweep.prepare([(64, 64, 64), (2048, 2048, 2048)])
    assert len(card.compiled) == 2
    matmul_sweep.prepare([(48, 32)])  # gram of float32
    assert len(card.compiled) == 3
    matmul_sweep.prepare([(1001, 999)], "bfloat16")  # 999 rows of 1001 for AAᵀ
    plain, adding = sorted(card.compiled[3:])
    assert plain.startswith("gram_padded_bf16") and adding == f"{plain}-adds"
    assert matmul_sweep.kernels()["sgemm_split"].startswith("C = A·B in float32. If ")


@pytest.mark.parametrize(
    ("shapes", "options", "error", "words"),
    [
        ((64, 64, 64), {}, ValueError, "a list of shapes.* and 64 is none"),
        ([(64,)], {}, ValueError, r"\(64,\) is none"),
        ([(64, 64, 64, 64)], {}, ValueError, "is none"),
        ([(0, 64, 64)], {}, ValueError, "each side from 1 to"),
        ([(64, 64, 2**31)], {}, ValueError, "each side from 1 to"),
        ([(64, 64.5, 64)], {}, ValueError, "is none"),
        ([(64, 64, 64)], {"dtype": "float64"}, TypeError, "no kernel multiplies float64"),
        ([(64, 64, 64)], {"accuracy": "best"}, ValueError, "accuracy is one of"),
        ([(64, 64, 64)], {"kernel": "nothing"}, ValueError, "nothing"),
    ],
)
def test_what_cannot_be_compiled_ahead_is_told(card, shapes, options, error, words):
    with pytest.raises(error, match=words):
        matmul_sweep.prepare(shapes, **options)
    assert card.compiled == []


def square(**changes: Any) -> Given:
    return Given(np.zeros((4, 4), **{"dtype": SINGLE, **changes}))


SHARED = np.zeros((4, 8), SINGLE)
READ_ONLY = np.zeros((4, 4), SINGLE)
READ_ONLY.flags.writeable = False
MISTAKES = [
    ((square(dtype=">f4"), square(dtype=">f4")), {}, TypeError, "bytes in the other order"),
    ((square(), Given(np.zeros((5, 4), SINGLE))), {}, ValueError, r"\(4, 4\) and \(5, 4\)"),
    ((square(), Given(np.zeros(4, SINGLE))), {}, ValueError, r"not \(4,\)"),
    ((square(), square(dtype="float64")), {}, TypeError, "float32, float64"),
    ((square(dtype="int32"), square(dtype="int32")), {}, TypeError, "no kernel multiplies int32"),
    ((square(dtype="float16"),) * 2, {}, TypeError, "no kernel multiplies float16"),
    ((square(), np.zeros((4, 4), SINGLE)), {}, TypeError, "several libraries"),
    ((np.zeros((4, 4), SINGLE), square()), {}, TypeError, "several libraries"),
    (([[1.0]], [[1.0]]), {}, TypeError, "list"),
    ((square(), square(), Given(np.zeros((4, 5), SINGLE))), {}, ValueError, r"shape \(4, 5\)"),
    ((square(), square()), {"d": Given(np.zeros((4, 5), SINGLE))}, ValueError,
     r"d has the shape \(4, 5\), and the product \(4, 4\)"),
    ((square(), square()), {"d": square(dtype="float64")}, TypeError, "float32, float64"),
    ((square(), square()), {"d": np.zeros((4, 4), SINGLE)}, TypeError, "several libraries"),
    ((square(), square()), {"beta": 1}, ValueError, "nothing to add: give d or out"),
    ((square(), square(), square()), {"alpha": "2"}, TypeError, "must be real number, not str"),
    ((square(), square(), square()), {"beta": 2j}, TypeError, "must be real number, not complex"),
    ((square(), Given(np.zeros((4, 4), SINGLE), device=1)), {}, ValueError, "ones on GPU 0, GPU 1"),
    ((square(), Given(np.zeros((4, 4), SINGLE), device=-1)), {}, ValueError, "the CPU, GPU 0"),
    ((square(), square(), Given(READ_ONLY)), {}, ValueError, "out is read-only"),
    ((square(), square(), Given(SHARED[:, :4])), {"d": Given(SHARED[:, 2:6]), "beta": 1},
     ValueError, "a part of d"),
    ((square(), square()), {"accuracy": "best"}, ValueError, "float32, ieee"),
    ((square(), square()), {"accuracy": "normwise"}, ValueError, "of gram in float64"),
    ((square(), square()), {"kernel": "gram_naive"}, ValueError, "naive_rect"),
    ((square(), square()), {"kernel": "nothing"}, ValueError, "nothing"),
    ((Given(SHARED[:, :4]), square(), Given(SHARED[:, 2:6])), {}, ValueError, "shares memory"),
    ((square(), square(), Given(np.broadcast_to(np.zeros(4, SINGLE), (4, 4)))), {}, ValueError,
     "several elements of out"),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "options", "error", "words"), MISTAKES)
def test_a_mistake_is_a_sentence_and_nothing_is_launched(card, arrays, options, error, words):
    with pytest.raises(error, match=words):
        matmul_sweep.gemm(*arrays, **options)
    assert card.launched == []


def test_a_card_that_does_not_run_the_kernel_that_is_named(card):
    card.major = 8
    with pytest.raises(RuntimeError, match=r"three_products.* needs compute capability 9.0a, not"):
        matmul_sweep.gemm(square(), square(), kernel="three_products")
    assert card.launched == []
    matmul_sweep.gemm(square(), square())


def test_memory_that_does_not_suffice_for_numpys_arrays(card, monkeypatch):
    monkeypatch.setattr(card, "cuMemAlloc_v2", lambda *_: driver.OUT_OF_MEMORY, raising=False)
    a, out = np.zeros((4, 4), SINGLE), np.ones((4, 4), SINGLE)
    with pytest.raises(MemoryError):
        matmul_sweep.gemm(a, a, out)
    assert (out == 1).all() and card.launched == []


def test_memory_of_the_cpu_that_calls_itself_cudas(card, monkeypatch):
    monkeypatch.setitem(kinds.KINDS, Given.__module__, kinds.Kind)
    monkeypatch.setattr(
        card, "cuPointerGetAttribute", lambda *_: kinds.INVALID_VALUE, raising=False
    )
    with pytest.raises(ValueError, match=r"not ones on the CPU$"):
        matmul_sweep.gemm(square(), square(), square())


def test_each_gpu_has_its_own_kernels(card, monkeypatch):
    """A product of arrays on the second one, while the first is current."""
    entered = list[int]()
    note = lambda context: entered.append(context.value) or 0  # noqa: E731
    monkeypatch.setattr(card, "cuCtxPushCurrent_v2", note, raising=False)
    for which in (0, 1):
        a = Given(laid(whole_numbers(8, 8), "rows"), device=which)
        made = matmul_sweep.gemm(a, a)
        np.testing.assert_array_equal(made.array, a.array @ a.array)
        assert made.device == which
    assert entered[-1] == CONTEXT + 1
    loaded = [source for source, function in card.functions if not function]
    assert len(loaded) == 2 and len({*loaded}) == 1


def test_columns_beside_one_another_are_apart(card):
    both = np.zeros((4, 8), SINGLE)
    both[:, :4] = whole_numbers(4, 4)
    a, out = both[:, :4], both[:, 4:]
    matmul_sweep.gemm(Given(a), Given(laid(a, "rows")), Given(out))
    np.testing.assert_array_equal(out, a @ a)


def test_another_context_is_left_as_it_was(card, monkeypatch):
    used: list[str] = []
    for name in ("Push", "Pop"):
        note = functools.partial(lambda name, *_: used.append(name) or 0, name)
        monkeypatch.setattr(card, f"cuCtx{name}Current_v2", note, raising=False)
    matmul_sweep.gemm(square(), square())
    used.clear()
    card.context = 5
    matmul_sweep.gemm(square(), square())
    assert used == ["Push", "Pop"]


@pytest.mark.parametrize(("source", "target"), [("rows", "columns"), ("columns", "rows")])
def test_the_kernel_that_combines(source, target, tmp_path):
    """On the processor: C = alpha·A + beta·C of 40×40 elements, so that tiles have edges."""
    strides = {"rows": "Strides{40, 1}", "columns": "Strides{1, 40}"}
    text = f"""#include "{combine.SOURCE}"
        extern "C" __global__ void f(const float* A, float* C, int m, int n)
        {{
            combine(A, C, m, n, {strides[source]}, {strides[target]}, A[0], A[1]);
        }}"""
    a, c = whole_numbers(40, 40), whole_numbers(40, 40, seed=1)
    plan = Plan((Launch((4, 1, 1), combine.THREADS),))
    found = emulation.launch(build_text(text, tmp_path), plan, Gram(40, 40), (a,), c)
    np.testing.assert_array_equal(found, a[0, 0] * a.T + a[0, 1] * c)
