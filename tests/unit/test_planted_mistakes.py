"""Twenty mistakes of ten kinds in classroom kernels: each is found without a GPU, its kind and its
line are named. That the kernels pass without a mistake is held in test_card.py."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from matmul.trial.mistakes import described
from matmul.trial.verdict import WRONG, judge

KERNELS = Path(__file__).parent / "trial"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unoptimised", "hurried")]


@dataclass(frozen=True)
class Planted:
    """A mistake: what stands in a kernel, and what stands there instead. line: a part of the line
    that the verdict has to name."""

    kernel: str
    right: str
    wrong: str
    kind: str
    line: str


PLANTED = {
    "no guard": Planted("naive", "if (row < m && col < n) {", "{", "out of bounds", "sum += A["),
    "guard of rows only": Planted(
        "naive", "row < m && col < n", "row < m", "out of bounds", "sum += A["
    ),
    "a term too many": Planted("naive", "p < k;", "p <= k;", "out of bounds", "sum += A["),
    "store without a guard": Planted(
        "tiled", "if (row < rowsA && col < colsB)", "", "out of bounds", "C[row * colsB"
    ),
    "index beyond a tile": Planted(
        "tiled", "p < TILE;", "p <= TILE;", "out of shared memory", "sum += tileA"
    ),
    "tile without its last column": Planted(
        "tiled",
        "tileB[TILE][TILE]",
        "tileB[TILE][TILE - 1]",
        "out of shared memory",
        "tileB[y][x] =",
    ),
    "no barrier before the sums": Planted(
        "tiled", "__syncthreads();  // staged", "", "missing barrier", "sum += tileA"
    ),
    "no barrier after the sums": Planted(
        "tiled", "__syncthreads();  // used", "", "missing barrier", "sum += tileA"
    ),
    "return before a barrier": Planted(
        "tiled",
        "float sum = 0;",
        "float sum = 0; if (row >= rowsA || col >= colsB) return;",
        "divergent barrier",
        "// staged",
    ),
    "barrier in a branch": Planted(
        "tiled",
        "__syncthreads();  // used",
        "if (row < rowsA) __syncthreads();  // used",
        "divergent barrier",
        "// used",
    ),
    "edges are not zeroed": Planted(
        "tiled",
        "tileB[y][x] = element(B, colsA, colsB, t * TILE + y, col);",
        "if (t * TILE + y < colsA && col < colsB) tileB[y][x] = B[(t * TILE + y) * colsB + col];",
        "uninitialised shared memory",
        "sum += tileA",
    ),
    "last row never computed": Planted(
        "naive",
        "row < m && col < n",
        "row < m - 1 && col < n",
        "elements not written",
        "if (row < m - 1",
    ),
    "triangle not mirrored": Planted(
        "gram", "C[j * cols + i] = sum;", "", "elements not written", "C[i * cols + j] = sum"
    ),
    "stride of another matrix": Planted(
        "naive", "B[p * n + col]", "B[p * k + col]", "wrong index", "B[p * k + col]"
    ),
    "C stored transposed": Planted(
        "naive",
        "C[row * n + col] = sum",
        "C[col * m + row] = sum",
        "wrong index",
        "C[col * m + row]",
    ),
    "ragged tile left out": Planted(
        "tiled", "(colsA + TILE - 1) / TILE", "colsA / TILE", "lost terms", "colsA / TILE"
    ),
    "first term left out": Planted(
        "naive", "int p = 0; p < k", "int p = 1; p < k", "lost terms", "int p = 1"
    ),
    "sum in C from nothing": Planted(
        "naive",
        "C[row * n + col] = sum",
        "C[row * n + col] += sum",
        "uninitialised C",
        "C[row * n + col] += sum",
    ),
    "every lane stores": Planted("warp", "&& lane == 0", "", "race", "C[row * N + col] = part"),
    "loop that never ends": Planted(
        "naive", "p++", "p += k / (k + 1)", "endless loop", "sum += A["
    ),
}


# Of kinds that are there already, told by what C holds.
FURTHER = {
    "every sum negative": Planted("naive", "sum +=", "sum -=", "wrong result", "sum -="),
    "the last term only": Planted("naive", "sum +=", "sum =", "lost terms", "sum = A["),
    "divided by zero": Planted(
        "naive", "col] = sum", "col] = sum / (k - k)", "wrong result", "col] = sum"
    ),
    "never stored": Planted(
        "naive", "C[row * n + col] = sum;", "", "elements not written", "multiply("
    ),
    "A by rows": Planted(
        "gram", "A[p * cols + i] * A[p * cols + j]", "A[i * rows + p] * A[j * rows + p]",
        "wrong index", "A[i * rows"
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "columns", "words"),
    [
        ([3], [], "4 of 24 elements, those of row 3,"),
        ([2, 3, 4], [], "12 of 24 elements, those of rows 2 to 4,"),
        ([5], [0, 1], "14 of 24 elements, those of row 5 and columns 0 to 1,"),
        ([1, 3], [], "8 of 24 elements"),
        (range(6), [], "all elements"),
    ],
)
def test_wrong_elements_are_said_by_their_rows_and_columns(
    rows: Iterable[int], columns: list[int], words: str
) -> None:
    mask = np.zeros((6, 4), bool)
    mask[[*rows]] = mask[:, columns] = True
    assert described(mask) == words


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted")


# Of a kind and at a place of the kernel that another one has; CI finds these too.
ALIKE = {"no guard", "a term too many", "store without a guard", "index beyond a tile",
         "no barrier after the sums", "barrier in a branch", "first term left out",
         "last row never computed", "never stored", "every sum negative"}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in ALIKE else ())
        for name in PLANTED | FURTHER
    ],
)
def test_a_planted_mistake_is_found(name: str, planted: Path) -> None:
    mistake = (PLANTED | FURTHER)[name]
    text = (KERNELS / f"{mistake.kernel}.cu").read_text()
    assert text.count(mistake.right) == 1
    text = text.replace(mistake.right, mistake.wrong)
    file = planted / f"{name.replace(' ', '_')}.cu"
    file.write_text(text)
    verdict = judge(file, {})
    assert verdict.status == WRONG
    worst = verdict.mistakes[0]
    assert worst.kind == mistake.kind, worst.what
    assert mistake.line in text.splitlines()[worst.line - 1], worst.line


def test_the_mistakes_are_of_ten_kinds() -> None:
    assert len(PLANTED) == 20
    assert len({mistake.kind for mistake in PLANTED.values()}) >= 10
