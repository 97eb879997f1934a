"""Occupancy, computed by hand by the rules of NVIDIA's calculator."""

from types import SimpleNamespace

import pytest
from support import the_catalogue

from matmul_sweep.experiment.measure import occupancy as module
from matmul_sweep.experiment.measure.occupancy import Limits, occupancy, occupancy_of

CC_9_0 = Limits(threads=2048, blocks=32, registers=65536, shared_bytes=228 << 10)
CC_8_6 = Limits(threads=1536, blocks=16, registers=65536, shared_bytes=100 << 10)


@pytest.mark.parametrize(
    ("limits", "threads", "registers", "shared", "expected", "why"),
    [
        (CC_9_0, 1024, 32, 8 << 10, 1.0, "2 blocks fill the registers exactly"),
        (CC_9_0, 1024, 33, 0, 0.5, "33 registers are rounded to 40: 51 warps, one block of 32"),
        (CC_9_0, 544, 40, 0, 0.53125, "51 warps, 12 in each quarter: 2 blocks of 17, not 3"),
        (CC_9_0, 256, 32, 48 << 10, 0.5, "49 KiB with the system's: 4 blocks in 228"),
        (CC_9_0, 1024, 32, 227 << 10, 0.5, "the largest block of shared memory"),
        (CC_9_0, 33, 16, 0, 1.0, "a warp of one thread counts whole"),
        (CC_9_0, 1024, 128, 0, 0.0, "131072 registers do not fit"),
        (CC_8_6, 1024, 32, 0, 2 / 3, "one block of 1024 in 1536"),
    ],
)
def test_value_by_hand(limits, threads, registers, shared, expected, why):
    assert occupancy(threads, registers, shared, limits) == pytest.approx(expected), why


def test_a_variant_has_the_occupancy_of_its_block_and_record(monkeypatch):
    record, gpu = {"registers": 40, "shared_bytes": 0}, SimpleNamespace()
    monkeypatch.setattr(module, "limits_of", lambda gpu: CC_9_0)
    assert occupancy_of(the_catalogue().variant("naive/32"), gpu, record) == 0.5
