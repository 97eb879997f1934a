"""The headers of kernels/ take a kernel's numbers as template arguments."""

import re

import pytest
from support import ROOT, the_catalogue

HEADERS = sorted((ROOT / "kernels").rglob("*.cuh"))
VARIANTS = [variant for kernel in the_catalogue().values() for variant in kernel.every_variant]
MACROS = {name for variant in VARIANTS for name in variant.constants(None)}


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header.name)
def test_a_header_names_no_macro_of_who_includes_it(header):
    assert not MACROS & {*re.findall(r"\w+", header.read_text())}


def test_the_macros_are_those_of_tilings_and_of_the_card():
    assert {"TILE_M", "STAGES", "CLUSTER_M", "RESIDENT", "MULTIPROCESSORS"} <= MACROS
