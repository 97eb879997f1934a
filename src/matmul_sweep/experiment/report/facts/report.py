"""Everything that the report prints, computed from a data set and the documents' numbers; the
sentences are the report's."""

import re
from collections.abc import Mapping
from typing import Any

import pandas as pd

from matmul_sweep.catalogue.entries import Kind
from matmul_sweep.experiment.dataset.selection import (
    Results,
    in_order,
    points_of,
    processor,
    short_commit,
    size_name,
    version_words,
)
from matmul_sweep.experiment.dataset.sweeps import sweep_of, takes_place
from matmul_sweep.experiment.report.facts.beside import beside, documents_beside, ladders, loads
from matmul_sweep.experiment.report.facts.cards import tried
from matmul_sweep.experiment.report.facts.findings import findings
from matmul_sweep.experiment.report.facts.measuring import measuring, timer
from matmul_sweep.experiment.report.facts.peaks import ceiling
from matmul_sweep.experiment.report.facts.random_shapes import random_shapes
from matmul_sweep.experiment.report.facts.studies import exact_inputs, studies
from matmul_sweep.experiment.report.facts.ways import ways
from matmul_sweep.experiment.verify.cublas import WORKSPACE_BYTES
from matmul_sweep.operations import OPERATIONS, shape_of

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def tables_of(results: Results, documents: Mapping[str, Any]) -> dict[str, Any]:
    """tables.json."""
    return {
        "data_set": data_set(results),
        "device": results.device,
        "copy_gb_s": ceiling(results, "copy"),
        "cublas_workspace_mib": WORKSPACE_BYTES >> 20,
        "scope": scope(results),
        "operations": operations(),
        "findings": findings(results),
        "published": beside(results),
        "ladders": ladders(results),
        "loads": loads(results),
        "documents": documents_beside(results, documents),
        "random_shapes": random_shapes(results),
        "ways": ways(results),
        "tried": tried([results, *results.others]),
        "studies": (studied := studies(results)),
        "exact_inputs": exact_inputs(studied["fill"]),
        "not_measured": {status: missing(results, status) for status in ("failed", "skipped")},
        "measuring": measuring(results),
        "timer": timer(results),
        "sampling": sampling(results.device),
    }


def data_set(results: Results) -> dict[str, Any]:
    """The facts that identify the data set on every page."""
    device = results.device
    return {
        "processor": processor(device),
        "date": device.get("date") or "date unknown",
        "commit": short_commit(device),
        "dirty": bool(device.get("dirty")),
        "earlier": version_words(results) or None,
    }


def operations() -> dict[str, dict[str, Any]]:
    """Each operation in words, in the order of the report."""
    facts = ("title", "dtype", "work", "figure_prefix")
    return {
        name: {fact: getattr(own, fact) for fact in facts}
        | {"factors": ["A" + "ᵀ" * own.left_transposed,
                       own.matrices[-2] + "ᵀ" * own.right_transposed]}
        for name, own in OPERATIONS.items()
    }  # fmt: skip


def scope(results: Results) -> dict[str, Any]:
    """How many points were timed, skipped and failed, on the GPU and on the CPU, and what was
    compiled and verified."""
    points = points_of(results.summary)
    gpu = results.gpu(points)
    checked = results.verification[results.verification.status != "skipped"]
    cuda = results.kernels[results.kernels.kernel.map(results.kind) == Kind.CUDA]
    own = [results.catalogue[name] for name in results.present if name in results.catalogue]
    return {
        "timed": {"gpu": counts(points[gpu]), "cpu": counts(points[~gpu])},
        "on_gpu": results.timed_gpu,
        "cards": len(results.cards),
        "gpu_absence": results.gpu_absence(),
        "architectures": sorted(set(results.instructions.architecture.dropna())),
        "compiled": counts(cuda),
        "timed_and_verified": int((points[points.status == "ok"].error <= 1).sum()),
        "verified": {where: counts(rows) for where, rows in checked.groupby("where")},
        "operations": [name for name in OPERATIONS if results.of(name, reduced=True).present],
        "programs": [{"title": k.title, "idea": k.idea or k.lesson} for k in own if not k.on_gpu],
    }


def counts(rows: pd.DataFrame) -> dict[str, int]:
    return {status: int((rows.status == status).sum()) for status in ("ok", "skipped", "failed")}


def missing(results: Results, status: str) -> list[dict[str, Any]]:
    """Points without a time, grouped by operation and by reasons that differ in numbers only, of
    which the first is told; those of random shapes apart."""
    points = points_of(results.summary)
    points = points[points.status == status]
    told = [impersonal(row) for _, row in points.iterrows()]
    kinds = [NUMBER.sub("", text) for text in told]
    points = points.assign(told=told, drawn=results.drawn(points), kind=kinds)
    return [
        {
            "reason": rows.told.iloc[0],
            "points": len(rows),
            "variants": [*rows.variant.unique()],
            "drawn": bool(drawn),
            "shapes": [size_name(shape) for shape in in_order(map(shape_of, rows.itertuples()))],
        }
        for (_, drawn, _), rows in points.groupby(["operation", "drawn", "kind"], sort=False)
    ]


def for_readers(reason: str) -> str:
    """Why a point has no time, without a key of the configuration."""
    return "it takes too long on the processor" if "cpu_without" in reason else reason


def impersonal(row: pd.Series) -> str:
    """A row's reason without its own shape and variant, so that similar reasons are equal."""
    text = for_readers(str(row.reason)).replace(str(shape_of(row)), "this shape")
    text = text.replace(row.variant, "the kernel")
    return re.sub(rf"^{re.escape(row.kernel)}\b(\[[^]]*\])?", "the kernel", text)


def sampling(device: Mapping[str, Any]) -> dict[str, Any]:
    """The configured stopping rules, inputs and limits; empty if the data set has none."""
    configuration = device.get("configuration") or {}
    sweeps, on_gpu = configuration.get("sweeps", {}), bool(device.get("gpu"))
    measured = [name for name, own in sweeps.items() if takes_place(own, on_gpu)]
    return {
        "sweeps": {name: sweep_of(configuration, name) for name in measured},
        "seed": configuration.get("seed"),
    }
