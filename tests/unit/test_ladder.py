"""The ladders: tiles that are covered, traffic and resources by the parameters, gains by intervals."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_data import DEVICE, made_up, the_catalogue
from support import Entry, WriteCatalogue

from matmul.catalogue import load_catalogue
from matmul.errors import UserError
from matmul.layout import WARP, Layout
from matmul.reporting.findings import all_findings
from matmul.reporting.ladder import ladder
from matmul.schema import read_yaml

ROOT = Path(__file__).resolve().parents[2]
GEMM = {"gemm": (320, 1024)}
LAID_OUT = [v for v in the_catalogue().buildable.values() if v.layout]
Times = dict[str, tuple[float, float, float]]


def results_of(layout: Layout, thread: int) -> set[tuple[int, int]]:
    """The elements of the tile that a thread computes."""
    (rows, columns), (lanes_down, lanes_across) = layout.region, layout.lanes
    warp, lane = (divmod(thread, WARP) if layout.warp else (0, thread))
    top, left = divmod(warp, layout.tile[1] // columns)
    down, across = divmod(lane, lanes_across)
    return {
        (top * rows + down * layout.piece[0] + i * layout.step[0] + y,
         left * columns + across * layout.piece[1] + j * layout.step[1] + x)
        for i, j in itertools.product(*map(range, layout.pieces))
        for y, x in itertools.product(*map(range, layout.piece))
    }  # fmt: skip


@pytest.mark.parametrize("variant", LAID_OUT, ids=lambda variant: variant.slug)
def test_threads_cover_their_tile_once(variant: Any) -> None:
    layout = variant.layout
    assert layout.lanes[0] * layout.lanes[1] == min(WARP, layout.threads)
    if not layout.warp:  # lanes go on from one row of threads to the next
        across = layout.region[1] // layout.thread[1]
        layout = Layout(**vars(layout) | {"warp": None})
        object.__setattr__(layout, "across", across)
    covered = [place for t in range(layout.threads) for place in results_of(layout, t)]
    assert sorted(covered) == list(itertools.product(*map(range, layout.tile)))
