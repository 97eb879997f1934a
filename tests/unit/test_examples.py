"""The examples and the code of docs/library.md, without a GPU."""

import inspect
import re
import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from host_card import Given, laid, whole_numbers
from support import ROOT, documented_python

import matmul_sweep

pytestmark = pytest.mark.filterwarnings("ignore:matmul_sweep copies")
MUON = runpy.run_path(str(ROOT / "examples" / "muon.py"))


def gram(a: np.ndarray, d: Any = 0, alpha: float = 1, beta: float = 0) -> np.ndarray:
    return alpha * (a.T @ a) + beta * d


def gemm(a: np.ndarray, b: np.ndarray, d: Any = 0, alpha: float = 1, beta: float = 0) -> np.ndarray:
    return alpha * (a @ b) + beta * d


STEPS: list[Callable[[np.ndarray], np.ndarray]] = [
    lambda x: MUON["by_halves"](x, gram, gemm),
    MUON["by_expressions"],
]


@pytest.mark.parametrize("step", STEPS)
def test_muons_step_brings_all_singular_values_near_one(step):
    x = np.random.default_rng(49).standard_normal((12, 30))
    x /= np.linalg.norm(x)
    left, values, right = np.linalg.svd(x, full_matrices=False)
    a, b, c = MUON["A"], MUON["B"], MUON["C"]
    for _ in range(MUON["ITERATIONS"]):
        values = a * values + b * values**3 + c * values**5
    assert values.min() > 0.6 and values.max() < 1.3
    np.testing.assert_allclose(step(x), left * values @ right, rtol=1e-9, atol=1e-12)


def test_the_first_products_of_the_documents(card):
    code = documented_python("docs/library.md", "gemm(a, b)  # A·B")
    a, b = laid(whole_numbers(5, 7), "rows"), laid(whole_numbers(7, 6, seed=1), "rows")
    names: dict[str, Any] = {"a": Given(a), "b": Given(b)}
    exec(code, names)
    np.testing.assert_array_equal(names["c"].array, a.T @ a)
    assert len(card.launched) > 1


def test_the_iteration_of_the_documents(card):
    code = documented_python("docs/library.md", "b = gram(s.T")
    x = np.random.default_rng(46).uniform(-0.3, 0.3, (8, 16)).astype("bfloat16")
    names = {"x": Given(laid(x, "rows")), "gram": matmul_sweep.gram, "gemm": matmul_sweep.gemm}
    exec(code, names)
    exact, (a, b, c) = x.astype(float), (MUON[name] for name in "ABC")
    s = exact @ exact.T
    expected = a * exact + (b * s + c * s @ s) @ exact
    np.testing.assert_allclose(names["x"].array.astype(float), expected, rtol=0.05, atol=0.05)


SIGNATURES = documented_python("docs/library.md", "gemm(a, b, out=None").splitlines()


@pytest.mark.parametrize("line", [line for line in SIGNATURES if "None" in line])
def test_the_documented_arguments_are_those_of_the_function(line):
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", line).groups()  # type: ignore[union-attr]
    found = inspect.signature(getattr(matmul_sweep, name))
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in found.parameters.values()]
    assert bare == [*inspect.signature(eval(f"lambda {arguments}: None")).parameters.values()]


def test_the_other_documented_calls(card):
    names = {"prepare": matmul_sweep.prepare, "kernels": matmul_sweep.kernels}
    for line in SIGNATURES:
        if "None" not in line:
            eval(line, names)
    assert card.compiled
