"""How the blocks of stream_k.cuh share out slabs: the kernels' own code, and the cost model's."""

import random
import subprocess
from pathlib import Path

import pytest
from support import ROOT

from matmul_sweep.catalogue.sharing import shares_of
from matmul_sweep.classroom.cuda_on_cpu.emulation import compiler
from matmul_sweep.operations import parse_shape

HERE = Path(__file__).parent
BLOCKS = 132
SLAB = 8  # terms of one


@pytest.fixture(scope="module")
def shares(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program of shares.cpp."""
    program = tmp_path_factory.mktemp("shares") / "shares"
    source = HERE / "cuda_on_cpu" / "shares.cpp"
    command = [compiler(), "-std=c++17", "-O1", f"-I{ROOT / 'kernels'}", source, "-o", program]
    subprocess.run(command, check=True)
    return program


def walked(program: Path, cases: list[tuple[int, ...]]) -> list[list[int]]:
    lines = "\n".join(" ".join(map(str, case)) for case in cases)
    run = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [[int(word) for word in line.split()] for line in run.stdout.splitlines()]


def test_each_slab_is_multiplied_once_and_sums_that_are_left_are_wanted(shares):
    draw = random.Random(2026)
    cases = [
        (draw.randint(1, 5 * BLOCKS), draw.randint(0, BLOCKS), slabs)
        for slabs in [*range(1, 40), 127, 128, 129, 500] * 8
    ]
    found = walked(shares, cases)
    assert len(found) == len(cases)
    assert [(case, row) for case, row in zip(cases, found, strict=True) if row[2]] == []


@pytest.mark.parametrize(
    ("tiles", "slabs", "whole", "stretches"),
    [
        (300, 100, 132, BLOCKS),  # two waves and a fifth: stretches longer than a tile
        (350, 100, 264, BLOCKS),  # and two thirds: shorter
        (265, 6, 132, BLOCKS),
        (60, 5, 0, BLOCKS),  # less than a wave
        (14, 3, 0, 21),  # of two slabs at least
    ],
)
def test_the_cost_model_has_the_shares_of_the_kernels(shares, mine, tiles, slabs, whole, stretches):
    layout = {"slab": SLAB, "thread": [2, 4]}
    variant = mine(
        tile=[32, 64], threads=[16, 16], layout=layout, blocks="MULTIPROCESSORS", least="2"
    )
    shape = parse_shape(f"{32 * tiles}x64x{slabs * SLAB}", "gemm")
    ((own_whole, own_stretches, _),) = walked(shares, [(tiles, 0, slabs)])
    model = shares_of(variant, shape, BLOCKS)
    assert (own_whole, own_stretches) == (whole, stretches)
    assert model.longest == whole // BLOCKS * slabs + -(-(tiles - whole) * slabs // stretches)
