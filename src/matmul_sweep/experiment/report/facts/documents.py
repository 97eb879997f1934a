"""The documents' numbers beside ours: value, ours, the document's divided by ours, and rates."""

import functools
from collections.abc import Mapping
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import kernel_name
from matmul_sweep.experiment.dataset.selection import Results, at, size_name
from matmul_sweep.experiment.report.numbers import UNITS, in_unit, significant
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

DOCUMENTS = ROOT / "reports" / "documents.yaml"
SPANS = {
    "kernel": "kernel",
    "unified": "unified memory",
    "first": "first launch",
    "end_to_end": "with copies",
}


@functools.cache
def documents() -> dict[str, Any]:
    """What the documents print, by document."""
    return dict(read_yaml(DOCUMENTS))


def document_times(operation: str, document: str | None = None) -> pd.DataFrame:
    """The documents' own times of square products, or those of one document: `document`, `n`,
    `time_ms`, its `text`, and `kernel`, the one that is compared with it first."""
    rows = [
        {
            "document": name,
            "kernel": kernel_name(number["ours"][0].get("variant") or number["ours"][0]["kernel"]),
            "n": number["shape"],
            "time_ms": number["value"] * UNITS[number["unit"]],
            "text": document_value(number)["text"],
        }
        for name, own in documents().items()
        if own.get("operation", GEMM.name) == operation and document in (None, name)
        for number in own["numbers"]
        if number["quantity"] == "time" and "value" in number and isinstance(number["shape"], int)
    ]
    return pd.DataFrame(rows)


def compare_documents(results: Results, documents: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One entry per document, with a row for each of its numbers and each comparable one of
    ours."""
    return [
        {
            "document": name,
            "operation": view.operation,
            **{fact: document.get(fact) for fact in ("title", "card", "why", "peak")},
            "rows": [row for number in document["numbers"] for row in number_rows(view, number)],
            "rates": [
                rate_row(view, number, document["peak"])
                for number in document["numbers"]
                if "computes" in number
            ],
        }
        for name, document in documents.items()
        for view in [results.of(document.get("operation", GEMM.name))]
    ]


def number_rows(results: Results, number: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A document's number beside each of ours, once each, because the fastest variant may be one
    that was named before; its own columns are in the first row only."""
    shape = results.product.parse(number["shape"])
    rows: list[dict[str, Any]] = []
    for ours in number["ours"]:
        row = compared(results, number, ours, shape)
        rows += [row] if row not in rows else []
    facts = {"system": number["system"], "size": size_name(shape)}
    facts |= {"document": document_value(number), "lines": len(rows)}
    return [facts | rows[0], *rows[1:]]


def document_value(number: Mapping[str, Any]) -> dict[str, Any]:
    """The document's number, or the quotient of two of its numbers: its value, and in words."""
    if "quotient_of" in number:
        slow, fast = number["quotient_of"]
        return {"value": slow / fast, "text": significant(slow / fast)}
    if "value" not in number:
        return {"value": None, "text": "not known"}
    value, unit = number["value"], ""
    if number["unit"] in UNITS:
        value, unit = in_unit(value * UNITS[number["unit"]])
    text = f"{value:g}" if value == float(f"{value:.3g}") else significant(value)
    parts = (number.get("about"), text, unit)
    return {"value": number["value"], "text": " ".join(part for part in parts if part)}


def compared(
    results: Results, number: Mapping[str, Any], ours: Mapping[str, Any], shape: Shape
) -> dict[str, Any]:
    """Ours in the document's unit, and if both are times the document's value divided by it."""
    shape = results.product.parse(ours["shape"]) if "shape" in ours else shape
    span = SPANS[ours["phase"]]
    row = {"span": span, "variant": None, "ours": None, "ratio": None, "unit": number["unit"]}
    names = ours.get("kernels") or [ours.get("kernel") or ours["variant"]]
    found = {name: our_row(results, ours, name, shape) for name in names}
    for name, own in found.items():
        if own is None:
            return row | {"missing": results.absence([kernel_name(name)], shape)}
    rows = [own for own in found.values() if own is not None]
    times, unit = [own.time_ms for own in rows], UNITS.get(number["unit"], 1.0)
    value = {
        "quotient": lambda: times[0] / times[1],
        "difference": lambda: (times[0] - times[1]) / unit,
        "time": lambda: times[0] / unit,
    }[number["quantity"]]()
    if ours["phase"] == "kernel" and ours.get("cache"):
        span = ", ".join([span, *dict.fromkeys(own.cache for own in rows)])
    # A quotient of quotients means nothing, nor does one with a negative difference.
    sense = number["quantity"] != "quotient" and "value" in number and value > 0
    return row | {
        "missing": None,
        "ours": value,
        "span": span if len(rows) == 1 else f"{span}, fastest variants",
        "variant": rows[0].variant if len(rows) == 1 else None,
        "ratio": number["value"] / value if sense else None,
    }


def our_row(results: Results, ours: Mapping[str, Any], name: str, shape: Shape) -> pd.Series | None:
    """The fastest row of a kernel or variant that `ours` names; where it was not timed with its
    cache, a hot one, because long launches are timed hot only."""
    for cache in (ours.get("cache"), "hot"):
        rows = at(results.timed(ours["phase"], cache), shape)
        rows = rows[rows["variant" if "variant" in ours else "kernel"] == name]
        if len(rows):
            return rows.loc[rows.time_ms.idxmin()]
    return None


def rate_row(view: Results, number: Mapping[str, Any], peak: Mapping[str, Any]) -> dict[str, Any]:
    """The rate of a document's system in GFLOP/s, by the operations that it executes, with its
    share of the units' peak. `half_s` is the time in which it would compute half of C at its
    rate."""
    shape = view.product.parse(number["shape"])
    m, n = shape.dimensions
    work = 2 * m * n * n if number["computes"] == "full" else shape.operations
    gflops = work / number["value"] / 1e6
    return {
        "size": size_name(shape),
        "document_s": number["value"] / 1e3,
        "document": gflops,
        "document_share": gflops / peak["value"],
        "half_s": number["value"] / 1e3 * shape.operations / work,
    }
