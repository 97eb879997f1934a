"""The sweeps of a configuration, as a run is given it and as device.json keeps it."""

from collections.abc import Mapping
from typing import Any

from matmul_sweep.operations.random_shapes import drawn_shapes


def sweep_of(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The full settings of a sweep: its own keys override the common ones.

    `shapes` is a list of texts; `random` says how they were drawn, or is None. Raises UserError for
    shapes that cannot be drawn.
    """
    common = {key: config[key] for key in ("fills", "modes", "caches")}
    unset: dict[str, Any] = {"cpu_without": [], "verify_shapes": [], "copies": []}
    own = dict.fromkeys(("kernels", "cold"), "all") | unset | config["sweeps"][name]
    merged = {key: config[key] | own.get(key, {}) for key in ("sampling", "limits")}
    shapes = own["shapes"]
    rule = shapes if isinstance(shapes, Mapping) else None
    drawn = {"shapes": drawn_shapes(rule, own["operation"]) if rule else shapes, "random": rule}
    return common | own | merged | drawn


def takes_place(sweep: Mapping[str, Any], on_gpu: bool) -> bool:
    """Whether a sweep measures anything in a run with a GPU, or without one."""
    return bool(sweep["shapes"]) and not (on_gpu and sweep.get("without_gpu", False))
