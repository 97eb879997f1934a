"""The documents' numbers beside ours: value, ours, the document's divided by ours, and rates."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import kernel_name
from matmul_sweep.experiment.dataset.selection import Results, at, fastest, size_name
from matmul_sweep.experiment.dataset.sourced_numbers import Number, cell
from matmul_sweep.experiment.report.facts.executed_rates import binding_peak, executed, rate
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

DOCUMENTS = ROOT / "reports" / "documents.yaml"
PER_MS = {"ms": 1.0, "s": 1e-3}
SPANS = {
    "kernel": "kernel",
    "unified": "unified memory",
    "first": "first launch",
    "end_to_end": "with copies",
}


class NotMeasured(Exception):
    """There is no number of ours to compare; the message says why."""


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
            "time_ms": number["value"] / PER_MS[number["unit"]],
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
        compare_document(results.of(document.get("operation", GEMM.name)), document)
        | {"document": name}
        for name, document in documents.items()
    ]


def compare_document(results: Results, document: Mapping[str, Any]) -> dict[str, Any]:
    """One document compared with the results of its operation."""
    numbers = document["numbers"]
    return {
        "operation": results.operation,
        "title": document["title"],
        "card": document["card"],
        "why": document["why"],
        "rows": [row for number in numbers for row in number_rows(results, number)],
        "peak": document.get("peak"),
        "rates": [
            rate_row(results, number, document["peak"])
            for number in numbers
            if "computes" in number
        ],
    }


def number_rows(results: Results, number: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A document's number beside each of ours; its own columns are in the first row only."""
    shape = results.product.parse(number["shape"])
    facts = {
        "system": number["system"],
        "size": size_name(shape),
        "document": document_value(number),
    }
    rows = distinct(compared(results, number, ours, shape) for ours in number["ours"])
    if len({row["missing"] for row in rows}) == 1 and rows[0]["missing"]:
        rows = rows[:1]
    return [(facts | {"lines": len(rows)} if i == 0 else {}) | row for i, row in enumerate(rows)]


def distinct(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each of ours once, because the fastest variant may be one that was named before."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        kept += [row] if row["missing"] or row not in kept else []
    return kept


def printed(value: float) -> Number:
    """A number that a document prints."""
    return Number(value, repr(value))


def document_value(number: Mapping[str, Any]) -> dict[str, Any]:
    """The value as the document prints it, digit for digit, or the quotient of two of its
    numbers."""
    if "quotient_of" in number:
        slow, fast = map(printed, number["quotient_of"])
        return (slow / fast).json()
    if "value" not in number:
        return {"value": None, "text": "not known"}
    parts = (number.get("about"), f"{number['value']:.10g}", unit_of(number))
    return {"value": number["value"], "text": " ".join(part for part in parts if part)}


def compared(
    results: Results, number: Mapping[str, Any], ours: Mapping[str, Any], shape: Shape
) -> dict[str, Any]:
    """Ours in the document's unit, and if both are times the document's value divided by it."""
    shape = results.product.parse(ours["shape"]) if "shape" in ours else shape
    span = SPANS[ours["phase"]]
    row: dict[str, Any] = {"span": span, "variant": None, "ours": None, "ratio": None}
    try:
        chosen = our_rows(results, ours, shape)
    except NotMeasured as reason:
        return row | {"missing": str(reason)}
    value = combined(number, [cell(own, "time_ms") for own in chosen])
    if ours["phase"] == "kernel" and ours.get("cache"):
        span = ", ".join([span, *dict.fromkeys(own.cache for own in chosen)])
    row |= {"missing": None, "ours": value.json(), "unit": unit_of(number), "span": span}
    if len(chosen) == 1:
        row["variant"] = chosen[0].variant
    else:
        row["span"] += ", fastest variants"
    # A quotient of quotients means nothing, nor does one with a negative difference.
    if number["quantity"] != "quotient" and "value" in number and value.value > 0:
        row["ratio"] = (printed(number["value"]) / value).json()
    return row


def combined(number: Mapping[str, Any], times: Sequence[Number]) -> Number:
    """Our time, difference or quotient, in the document's unit, from times in ms."""
    if number["quantity"] == "quotient":
        return times[0] / times[1]
    per_ms = PER_MS[number["unit"]]
    if number["quantity"] == "difference":
        return (times[0] - times[1]).times(per_ms)
    return times[0].times(per_ms)


def unit_of(number: Mapping[str, Any]) -> str:
    return "" if number["unit"] == "1" else number["unit"]


def our_rows(results: Results, ours: Mapping[str, Any], shape: Shape) -> list[pd.Series]:
    """The rows that `ours` names. Raises NotMeasured.

    If a variant was not timed with its cache, hot launches are taken: long ones are timed hot only.
    """
    phase, cache = ours["phase"], ours.get("cache")
    rows, hot = (at(results.timed(phase, which), shape) for which in (cache, "hot"))
    rows = pd.concat([rows, hot[~hot.variant.isin(rows.variant)]])
    if "variant" in ours:
        return [only(results, rows[rows.variant == ours["variant"]], ours["variant"], shape)]
    kernels = ours.get("kernels") or [ours["kernel"]]
    best = fastest(rows)
    return [only(results, best[best.kernel == kernel], kernel, shape) for kernel in kernels]


def only(results: Results, rows: pd.DataFrame, name: str, shape: Shape) -> pd.Series:
    """The one row. Raises NotMeasured with the reason if there is none."""
    if rows.empty:
        raise NotMeasured(results.absence([kernel_name(name)], shape))
    return rows.iloc[0]


def rate_row(
    results: Results, number: Mapping[str, Any], peak: Mapping[str, Any]
) -> dict[str, Any]:
    """The rate of a document's system, and ours by the same count of operations.

    `half_s` is the time in which the document's system would compute half of C at its rate.
    """
    shape = results.product.parse(number["shape"])
    work, theirs = executed(shape, number["computes"]), printed(number["value"])
    gflops = rate(work, theirs).times(1e3)
    row = {
        "system": number["system"],
        "size": size_name(shape),
        "computes": number["computes"],
        "document_s": theirs.times(1e-3).json(),
        "document": gflops.json(),
        "document_share": (gflops / printed(peak["value"])).json(),
        "half_s": (executed(shape, "half") / (work / theirs)).times(1e-3).json(),
    }
    try:
        (chosen,) = our_rows(results, number["ours"][-1], shape)
    except NotMeasured as reason:
        return row | {"missing": str(reason)}
    ours = rate(work, cell(chosen, "time_ms"))
    units, bound = binding_peak(results, chosen) or (None, None)
    return row | {
        "missing": None,
        "ours": ours.json(),
        "units": units,
        "share": bound and (ours / bound).json(),
    }
