"""The peaks of cards are those that NVIDIA states for its products."""

import math

import pytest

from matmul_sweep.catalogue.architectures import peak_terms

# TFLOP/s at these clocks, of NVIDIA's white papers on the A100 and the H100 (SXM5).
A100 = {"fp32": 19.5, "fp64": 9.7, "fp64_tensor": 19.5, "bf16_tensor": 312}
H100 = {"bf16_tensor": 989.4}


@pytest.mark.parametrize(
    ("capability", "multiprocessors", "clock_mhz", "stated"),
    [("8.0", 108, 1410, A100), ("9.0", 132, 1830, H100)],
)
def test_a_peak_is_what_the_white_paper_states(capability, multiprocessors, clock_mhz, stated):
    card = {"multiprocessors": multiprocessors, "clock_mhz": clock_mhz}
    for units, peak in stated.items():
        terms = peak_terms(card | {"compute_capability": capability}, units)
        assert terms is not None
        assert math.prod(terms) == pytest.approx(peak, rel=0.005)
