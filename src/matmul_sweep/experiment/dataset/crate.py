"""A data set as a Research Object Crate, which archives and their search engines read.

https://w3id.org/ro/crate/1.1
"""

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

CRATE = "ro-crate-metadata.json"
FORMATS = {
    ".csv": "text/csv", ".gz": "application/gzip", ".json": "application/json",
    ".pdf": "application/pdf", ".svg": "image/svg+xml",
}  # fmt: skip


def crate(device: Mapping[str, Any], files: Iterable[str]) -> dict[str, Any]:
    """The description of a set that has these files. device: its device.json."""
    parts = [
        {"@id": name, "@type": "File", "encodingFormat": FORMATS[PurePath(name).suffix]}
        for name in sorted(files)
    ]
    measured = f"by commit {device['commit']}, with the report that follows from it"
    whole = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"CUDA matrix multiplication on {device['gpu']}",
        "description": f"Times, errors, power and counters of kernels, measured {measured}",
        "datePublished": device["date"],
        "license": {"@id": "https://spdx.org/licenses/MIT"},
        "hasPart": [{"@id": part["@id"]} for part in parts],
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": whole["@id"]},
    }
    graph = [descriptor, whole, *parts]
    return {"@context": "https://w3id.org/ro/crate/1.1/context", "@graph": graph}
