"""What the report takes from the source of a kernel with a page."""

import pytest
from made_up_data import the_catalogue

from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.experiment.report.facts.source_code import GAP, source_code


@pytest.mark.parametrize("kernel", the_catalogue().values(), ids=lambda kernel: kernel.name)
def test_a_kernel_with_a_page_fits_on_it_and_says_why_it_misses(kernel):
    code = source_code(kernel)["code"]
    assert kernel.missed or not code
    if code:
        assert kernel.adds or kernel.arithmetic != "full"  # a bar of the staircase
        assert "#pragma" not in code and "report>" not in code
        texts = [file.read_text() for file in source_files(kernel.code)]
        marks = sum(text.count(f"// <report {kernel.name}>") for text in texts)
        assert code.splitlines().count(GAP) == marks - 1
        assert len(code.splitlines()) <= 16
        assert max(map(len, code.splitlines())) <= 110
    if kernel.source is None:
        assert source_code(None) == source_code(kernel)
