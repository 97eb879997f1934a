"""What a data set without a GPU tells beside a published one: the card's rates with the machine
code that was compiled here, and the processor's times beside the card's."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import Kind, kernel_name
from matmul_sweep.experiment.dataset.selection import (
    Results,
    at,
    fastest,
    processor,
    published_name,
    squares,
)
from matmul_sweep.experiment.report.facts.documents import compare_documents
from matmul_sweep.experiment.report.facts.ladder import ladder
from matmul_sweep.experiment.report.facts.published import stand_in
from matmul_sweep.experiment.report.numbers import UNITS, known
from matmul_sweep.operations import OPERATIONS
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.shapes import Shape


def published(results: Results) -> Results | None:
    """The published set that stands beside a data set; None if a GPU was measured, or no set is
    published."""
    return None if results.timed_gpu else stand_in(results)


def beside(results: Results) -> dict[str, Any] | None:
    """Which set that is, where its report is, and what it shows first."""
    other = published(results)
    if other is None:
        return None
    return {
        "card": processor(other.device),
        "date": str(other.device.get("date")),
        "report": f"reports/published/{published_name(other.device)}/report.pdf",
        "headline": headline(results, other),
    }


def headline(results: Results, other: Results) -> dict[str, Any] | None:
    """The time of a square product by the processor, by the card's first kernel and by its fastest
    one, at the largest size that both measured; None if there is no such size."""
    there = other.of(GEMM.name)
    card = squares(fastest(there.timed()))
    card = card[card.kernel.map(there.hand_written).astype(bool)]
    first = card[card.kernel.isin(there.told[:1])]
    loops = squares(on_processor(results, GEMM.name, Kind.C))
    sizes = set(loops.n) & set(first.n)
    if not sizes:
        return None
    n = max(sizes)
    rows = {
        "loop": (results, loops),
        "blas": (results, squares(on_processor(results, GEMM.name, Kind.LIBRARY))),
        "first": (there, first),
        "best": (there, card),
    }
    return {"n": int(n)} | {
        name: {"title": view.title(row.kernel), "time_ms": row.time_ms}
        for name, (view, own) in rows.items()
        for row in own[own.n == n].nsmallest(1, "time_ms").itertuples()
    }


def on_processor(results: Results, operation: str, kind: Kind) -> pd.DataFrame:
    """The times of the first kernel of a kind that runs on the processor."""
    view = results.of(operation)
    own = [name for name in view.order if view.kind(name) is kind and not view.on_gpu(name)]
    return fastest(view.launches[view.launches.kernel.isin(own[:1])])


def ladders(results: Results) -> dict[str, dict[str, Any]]:
    """The steps of each operation."""
    return {operation: ladder_shown(results, operation) for operation in OPERATIONS}


def ladder_shown(results: Results, operation: str) -> dict[str, Any]:
    """The steps of an operation; without a GPU with the rates of the published set, and with the
    machine code that was compiled here for its architecture."""
    other = published(results)
    if other is None:
        return ladder(results, operation)
    code = results.instructions
    mixed = dataclasses.replace(
        other,
        instructions=code[code.architecture == other.architecture],
        kernels=results.kernels,
        counters=other.counters[:0],
    )
    return ladder(mixed, operation)


def documents_beside(results: Results, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The documents' numbers beside ours; without a GPU beside those of the published set, each
    with what the processor takes for the same product."""
    other = published(results)
    if other is None:
        return compare_documents(results, documents)
    found = compare_documents(other, documents)
    for entry, document in zip(found, documents.values(), strict=True):
        operation = OPERATIONS[entry["operation"]]
        for row in entry["rows"]:  # the published set has a processor of its own
            if row["variant"] and not other.on_gpu(kernel_name(row["variant"])):
                row |= {"ours": None, "ratio": None, "variant": None, "span": ""}
        first = [row for row in entry["rows"] if "system" in row]
        for row, number in zip(first, document["numbers"], strict=True):
            unit = UNITS.get(number["unit"])
            row["here"] = unit and here(results, operation.parse(number["shape"]), unit)
    return found


def here(results: Results, shape: Shape, unit: float) -> dict[str, Any]:
    """What the loop and the library take on this processor, in ms over `unit`, each None if it
    was not timed."""
    return {
        name: known(at(on_processor(results, shape.operation, kind), shape).time_ms.max() / unit)
        for name, kind in (("loop", Kind.C), ("blas", Kind.LIBRARY))
    }


def loads(results: Results) -> list[dict[str, Any]]:
    """How many elements the first counted variant of a kernel of A·B reads from global memory for a
    multiply-add."""
    rows = results.loads[(results.loads.status == "ok") & (results.loads.operation == GEMM.name)]
    return [
        {"title": results.title(row.kernel), "each": float(row.loads) / float(row.multiply_adds)}
        for _, row in rows.drop_duplicates("kernel").iterrows()
    ]
