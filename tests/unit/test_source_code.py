"""What the report takes from a kernel's source: marked lines, and paragraphs of its header."""

from pathlib import Path

import pytest
from made_up_data import the_catalogue

from matmul_sweep.catalogue.entries import Kernel
from matmul_sweep.experiment.report.facts.source_code import source_code

SOURCE = """\
// Removes     The wait
//             for memory.
// Limit       Power.
//
//             A picture.
#include "loop.cuh"
    // <report mine>
    int first;
    // </report>
    int hidden;
        // <report other>
        int another;
        // </report>
"""
HEADER = """\
        // <report mine>
#pragma unroll
        last();
        // </report>
"""


def test_lines_between_a_kernels_markers_are_shown_also_those_of_a_header(tmp_path: Path) -> None:
    (tmp_path / "mine.cu").write_text(SOURCE)
    (tmp_path / "loop.cuh").write_text(HEADER)
    found = source_code(Kernel(name="mine", operation="gemm", source=tmp_path / "mine.cu"))
    assert found == {
        "code": "int first;\n...\nlast();",
        "removes": "The wait for memory.",
        "limit": "Power.",
    }


@pytest.mark.parametrize("kernel", the_catalogue().values(), ids=lambda kernel: kernel.name)
def test_a_kernel_with_a_page_fits_on_it_and_says_why_it_misses(kernel: Kernel) -> None:
    code = source_code(kernel)["code"]
    assert bool(kernel.missed) == bool(code)
    if code:
        assert kernel.adds or kernel.arithmetic != "full"  # a bar of the staircase
        assert len(code.splitlines()) <= 16
        assert max(map(len, code.splitlines())) <= 110
    if kernel.source is None:
        assert source_code(None) == source_code(kernel)
