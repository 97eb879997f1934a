"""The examples that need no GPU for their logic."""

import runpy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support import ROOT

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
def test_muons_step_brings_all_singular_values_near_one(
    step: Callable[[np.ndarray], np.ndarray],
) -> None:
    x = np.random.default_rng(49).standard_normal((12, 30))
    x /= np.linalg.norm(x)
    left, values, right = np.linalg.svd(x, full_matrices=False)
    a, b, c = MUON["A"], MUON["B"], MUON["C"]
    for _ in range(MUON["ITERATIONS"]):
        values = a * values + b * values**3 + c * values**5
    assert values.min() > 0.6 and values.max() < 1.3
    np.testing.assert_allclose(step(x), left * values @ right, rtol=1e-9, atol=1e-12)
