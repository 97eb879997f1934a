"""The cards that were tried: what the fastest float32 kernel reaches on each, beside one rival."""

from collections.abc import Iterable
from typing import Any

from matmul_sweep.experiment.dataset.selection import Results, leading_own, processor, size_name
from matmul_sweep.experiment.report.facts.findings import named
from matmul_sweep.experiment.report.facts.ladder import shares
from matmul_sweep.operations import shape_of
from matmul_sweep.operations.gemm import GEMM


def tried(sets: Iterable[Results]) -> list[dict[str, Any]]:
    """The card of each set in which the library's routine was timed beside a kernel: the `kernel`,
    its `rate` in TFLOP/s and speed-up, and their way of timing. Sets may have no algorithms that
    were tuned, so the `rival` is the same routine for all."""
    return [
        {
            "card": processor(one.device),
            "date": str(one.device.get("date")),
            "version": f"of version {one.device['version']}" if one.earlier else "this version's",
            "kernel": named(one, row.kernel, row.variant),
            "size": size_name(shape_of(row)),
            "rate": row.tflops,
            "rival": pair["library"]["title"],
            "ratio": pair["ratio"],
            "way": "alone" if row.cache == "alone" else "in turn",
        }
        for one in sets
        for _, row in leading_own(one.of(GEMM.name)).iterrows()
        for pair in shares(one.of(GEMM.name), row, 1)
        if pair["library"]["name"] == GEMM.rivals[0] and pair["interval"]
    ]
