"""The traffic of a product, by hand."""

import pytest
from made_up_data import the_catalogue

from matmul.operations.gemm import Gemm
from matmul.operations.gram import Gram
from matmul.report.facts.traffic import asked, intensity, least

LARGE = Gemm(1024, 1024, 1024)


@pytest.mark.parametrize(
    ("variant", "shape", "elements"),
    [
        ("naive/32", LARGE, 2 * 1024 + 1),
        ("shared/32", LARGE, 2 * 1024 / 32 + 1),
        ("register_column", Gemm(65, 64, 10), 10 * (1 / 64 + 1 / 64) + 1),
        ("gram_naive", Gram(100, 32), 2 * 100 + 1),
        ("gram_register_tile/48", Gram(100, 96), 100 / 48 + 1),
        ("gram_tensor_direct/48", Gram(100, 96), 100 / 48 + 1),
    ],
)
def test_bytes_follow_from_the_tile(variant: str, shape: Gemm | Gram, elements: float) -> None:
    size = 4 if isinstance(shape, Gemm) else 8
    found = asked(the_catalogue().variant(variant), shape)
    assert found.value == pytest.approx(size * elements)
    per_element = shape.operations / shape.elements[-1]
    assert intensity(found, shape).value == pytest.approx(per_element / (size * elements))


def test_a_library_counts_as_if_it_moved_each_matrix_once() -> None:
    assert asked(the_catalogue().variant("cublas_sgemm"), LARGE) is None
    assert least(LARGE, "float32").value == 3 * 4
    assert least(Gram(100, 50), "float64").value == (100 * 50 + 50 * 50) / 50**2 * 8
