"""What would give exactly the C that a kernel left: slips that NumPy makes, each told by its C."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from matmul_sweep.classroom.cuda_on_cpu.watched import WRITER, Watched
from matmul_sweep.classroom.experiments import Bench, Run
from matmul_sweep.classroom.explanation import common, explanations
from matmul_sweep.classroom.launching import EVERYTHING, Launch
from matmul_sweep.classroom.signature import Signature, signature_of
from matmul_sweep.classroom.source import Source
from matmul_sweep.classroom.verdict import between, rule_of
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.operations.shapes import Shape

Slip = Callable[..., np.ndarray]
LAUNCH = Launch((4, 4, 1), (4, 4), 0, 1, {})
OF_SQUARES = "const float* A, const float* B, float* C, int n"
OF_SHAPES = "const float* A, const float* B, float* C, int m, int n, int k"
OF_GRAM = "const float* A, float* C, int m, int n"


def signature(parameters: str) -> Signature:
    source = Source(Path("f.cu"), f"__global__ void f({parameters}) {{}}")
    return signature_of(source, source.kernel("f"), {}, {}, {})


def run(shape: Shape, slip: Slip) -> Run:
    """A launch in tiles of 4×4 whose C is what the slip makes of random inputs; NaN stays from
    before the launch."""
    random = np.random.default_rng(1)
    inputs = tuple(random.uniform(-1, 1, extents).astype(np.float32) for extents in shape.inputs)
    left, right = inputs if len(inputs) == 2 else (inputs[0].T, inputs[0])
    expected = left.astype(np.float64) @ right
    c = slip(*inputs).astype(np.float32)
    writers = np.zeros(c.shape, WRITER)
    writers["thread"][np.isnan(c)] = -1
    result = Watched(Path("f"), c, (), writers, "")
    wrong = ~(np.abs(c - expected) < 1e-5)
    return Run(shape, LAUNCH, inputs, result, expected=expected, wrong=wrong)


def flat(matrix: np.ndarray, rows: int, columns: int, stride: int) -> np.ndarray:
    """A matrix as read with rows of another length, NaN beyond its end."""
    index = np.arange(rows)[:, None] * stride + np.arange(columns)
    return np.append(matrix.ravel(), np.nan)[np.minimum(index, matrix.size)]


def tiles_turned(matrix: np.ndarray) -> np.ndarray:
    rows, columns = (extent // 4 for extent in matrix.shape)
    return matrix.reshape(rows, 4, columns, 4).transpose(0, 3, 2, 1).reshape(matrix.shape)


SQUARE = {
    "it computes A·A: A is read in the place of B": lambda a, b: a @ a,
    "it computes B·B: B is read in the place of A": lambda a, b: b @ b,
    "it computes B·A: the matrices are exchanged": lambda a, b: b @ a,
    "every sum has the wrong sign": lambda a, b: -a @ b,
    "every sum is counted 2 times": lambda a, b: 2 * a @ b,
    "every sum is 0.5 too large": lambda a, b: a @ b + 0.5,
    "C holds whole numbers: is a sum an int?": lambda a, b: np.trunc(a @ b),
    "C is nearly right, as if a factor or a sum were rounded to a smaller type":
        lambda a, b: a.astype(np.float16).astype(np.float32) @ b,
    "the last term of a sum is lost": lambda a, b: a[:, :-1] @ b[:-1],
    "the last terms are lost where n is no multiple of 4": lambda a, b: a[:, :8] @ b[:8],
    "a sum begins at term 1 instead of 0": lambda a, b: a[:, 1:] @ b[1:],
    "only the last tile of terms is summed: each round begins the sum anew":
        lambda a, b: a[:, 8:] @ b[8:],
    "only the last term of a sum is left: each one takes the place of those before":
        lambda a, b: a[:, -1:] @ b[-1:],
    "every second term of a sum is lost": lambda a, b: a[:, ::2] @ b[::2],
    "every sum is 0: is it an int, or does each term begin it anew?": lambda a, b: 0 * a,
    "each round takes A one term further on, not 4":
        lambda a, b: a[:, [0, 1, 2, 3, 1, 2, 3, 4, 2]] @ b,
    "A is read transposed": lambda a, b: a.T @ b,
    "B is read transposed": lambda a, b: a @ b.T,
    "C is written transposed": lambda a, b: (a @ b).T,
}  # fmt: skip
WIDE = {
    "A is read with rows of m elements; they have k": lambda a, b: flat(a, 6, 10, 6) @ b,
    "B is read with rows of m elements; they have n": lambda a, b: a @ flat(b, 10, 8, 6),
    "C is written transposed": lambda a, b: (a @ b).T.reshape(6, 8),
}
TILED = {
    "the tiles of A are used transposed": lambda a, b: tiles_turned(a) @ b,
    "the tiles of B are used transposed": lambda a, b: a @ tiles_turned(b),
    "each thread that loads a tile of A takes the column of the other axis":
        lambda a, b: np.stack([a[i, i % 4 :: 4].repeat(4) @ b for i in range(8)]),
    "each thread that loads a tile of B takes the row of the other axis":
        lambda a, b: np.stack([a @ b[j % 4 :: 4, j].repeat(4) for j in range(8)], axis=1),
    "only the last term of a full tile is left: each one takes the place of those before":
        lambda a, b: a[:, -1:] @ b[-1:],
    "every second tile of 4 terms is lost": lambda a, b: a[:, :4] @ b[:4] + a[:, 8:] @ b[8:],
}  # fmt: skip
GRAM = {
    "it computes A·Aᵀ, not AᵀA: A is read by rows": lambda a: a @ a.T,
    "it computes A·A: one of the factors is not transposed": lambda a: a @ a,
}
CASES = [
    *((OF_SQUARES, Gemm(9, 9, 9), key, slip) for key, slip in SQUARE.items()),
    *((OF_SHAPES, Gemm(6, 8, 10), key, slip) for key, slip in WIDE.items()),
    *((OF_SHAPES, Gemm(8, 8, 12), key, slip) for key, slip in TILED.items()),
    *((OF_GRAM, Gram(8, 8), key, slip) for key, slip in GRAM.items()),
]


@pytest.mark.parametrize(
    ("parameters", "shape", "key", "slip"), CASES, ids=[f"{case[2]}, {case[1]}" for case in CASES]
)
def test_a_slip_is_told_by_its_c(parameters, shape, key, slip):
    assert key in {one.key for one in explanations(run(shape, slip), signature(parameters))}


def test_a_tile_of_all_columns_is_explained_too():
    one = run(Gemm(9, 9, 9), lambda a, b: a.T @ b)
    one = replace(one, launch=replace(LAUNCH, tile=(4, EVERYTHING)))
    assert "A is read transposed" in {t.key for t in explanations(one, signature(OF_SQUARES))}


def test_a_number_of_terms_in_a_char_is_told():
    found = common([run(Gemm(2, 2, 257), lambda a, b: a[:, :1] @ b[:1])], signature(OF_SHAPES))
    assert found and found.key.startswith("only k % 256 terms of a sum are taken")


def test_what_no_slip_gives_is_not_told():
    random = np.random.default_rng(2)
    for slip in (
        lambda a, b: random.uniform(-1, 1, (9, 9)),
        lambda a, b: a @ b,
        lambda a, b: np.full((9, 9), np.nan),
    ):
        assert not explanations(run(Gemm(9, 9, 9), slip), signature(OF_SQUARES))


def test_elements_that_no_thread_wrote_say_nothing_of_the_others():
    half = run(Gemm(9, 9, 9), lambda a, b: np.where(np.arange(9) < 4, 2 * a @ b, np.nan))
    told = {one.key for one in explanations(half, signature(OF_SQUARES))}
    assert "every sum is counted 2 times" in told
    assert half.first_wrong == (0, 0) and half.unwritten.sum() == 9 * 5


def test_the_first_wrong_element_may_be_the_second_launchs():
    one = run(Gemm(2, 2, 2), lambda a, b: a @ b)
    assert replace(one, wrong_again=np.array([[False, True], [True, True]])).first_wrong == (0, 1)


def test_what_explains_every_shape_is_the_cause():
    """A·A at one shape, and lost terms at both."""
    own = signature(OF_SQUARES)
    runs = [run(Gemm(n, n, n), lambda a, b: a[:, 1:] @ b[1:]) for n in (5, 9)]
    found = common(runs, own)
    assert found and found.key == "a sum begins at term 1 instead of 0"
    assert common([*runs, run(Gemm(9, 9, 9), lambda a, b: a @ a)], own) is None
    assert common([], own) is None


MANY = [Gemm(*sides) for sides in itertools.product((1, 3, 5, 9), repeat=3)]
SQUARES, RAGGED = [Gemm(n, n, n) for n in (3, 4, 8)], [Gemm(4, 8, 3), Gemm(3, 8, 4), Gemm(4, 5, 4)]


@dataclass(frozen=True)
class Tried(Bench):
    """Of a kernel that is right where a function says so."""

    right: Callable[[Shape], bool] = bool

    def run(self, shape: Shape, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(right=self.right(shape))

    def is_cheap(self, shape: Shape) -> bool:
        return True


def rule(parameters: str, right: Callable[[Shape], bool], shapes: list[Shape]) -> str:
    """Of blocks of 4×1: what is said after these shapes, and those that are tried for it."""
    program: Any = SimpleNamespace(signature=signature(parameters))
    bench = Tried(program, Path("f"), replace(LAUNCH, block=(4, 1, 1)), right=right)
    return rule_of(between({shape: right(shape) for shape in shapes}, bench), bench)


@pytest.mark.parametrize(
    ("parameters", "right", "said"),
    [
        (OF_SHAPES, lambda s: False, "it is wrong at every shape that was tried"),
        (OF_SHAPES, lambda s: s.square, "it is right at square shapes only"),
        (OF_SHAPES, lambda s: s.k % 4 == 0, "it is right where k is a multiple of 4"),
        (OF_SHAPES, lambda s: s.m % 4 == s.k % 4 == 0,
         "it is right where m and k are multiples of 4"),
        (OF_SHAPES, lambda s: s.m % 4 == s.n % 8 == 0,
         "it is right where m is a multiple of 4 and n is a multiple of 8"),
        (OF_SQUARES, lambda s: s.m % 4 == 0, "it is right where n is a multiple of 4"),
        (OF_SHAPES, lambda s: s.n == s.k, "it is right at shapes with n = k only"),
        (OF_SHAPES, lambda s: s.n == s.k and s.m % 4 == s.n % 4 == 0,
         "it is right at multiples of 4 with n = k only"),
        (OF_SHAPES, lambda s: (s.m + s.n) % 5 > 1, ""),
    ],
)  # fmt: skip
def test_where_a_kernel_is_right_is_said_if_it_is_simple(parameters, right, said):
    shapes = SQUARES if parameters == OF_SQUARES else [*SQUARES, *RAGGED]
    assert rule(parameters, right, shapes) == said


@pytest.mark.parametrize(
    ("right", "said"),
    [
        (lambda s: s.m > 3 and s.n > 1, "it is right where m is at least 5 and n is at least 3"),
        (lambda s: s.square or s.m == s.n == 1, "it is right at square shapes only"),
        (lambda s: s.m == s.n == 1 and s.k > 1, ""),
        (lambda s: s != MANY[0], "of the 64 shapes that were tried, it is wrong only at 1x1x1"),
    ],
)
def test_of_many_shapes_more_is_said_of_where_a_kernel_is_right(right, said):
    assert rule(OF_SHAPES, right, MANY) == said


@pytest.mark.parametrize(("kind", "unit"), [("float", 0.0), ("__nv_bfloat16", 2.0**-8)])
def test_what_rounding_explains_by_hand(kind, unit):
    """Of two terms, with a third for what C held, in float: three units of Σ|a||b| = 4; and one
    of C's own type."""
    own = signature(OF_SHAPES.replace("float", kind))
    bench = Bench(SimpleNamespace(signature=own, needed={}, code=""), Path("f"), LAUNCH)
    a, b = (np.array(matrix, own.operation.dtype) for matrix in ([[1, 2]], [[2], [1]]))
    expected, bound = bench.reference(Gemm(1, 1, 2), (a, b))
    assert (expected.item(), bound.item()) == (4, 3 * 2.0**-24 * 4 + 4 * unit)
