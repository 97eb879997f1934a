"""Names of variants before version 1.0.0, which spelled out the parameters of a tiling."""

import re

SINCE = "1.0.0"


def todays_name(name: str) -> str:
    """`register_column/64x64` for `register_column[TILE_M=64,TILE_N=64,TILE_K=8,ROWS=8]`; a name
    without the sides of a tile stays as it is."""
    kernel, _, parameters = name.partition("[")
    sides = [side for side in re.findall(r"\bTILE(?:_WIDTH|_M|_N)?=(\d+)", parameters)
             if side != "1"]  # fmt: skip
    return f"{kernel}/{'x'.join(sides)}" if sides else name
