"""The results of the gallery of mistakes that the repository has, and whether they are of today's
sources: the same on every machine, so a run need not repeat them."""

import hashlib
from pathlib import Path

from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.process.files import read_json
from matmul_sweep.process.project import ROOT

SOURCES = ROOT / "kernels" / "mistakes"
COMMITTED = ROOT / "reports" / "mistakes"
RESULTS = "mistakes.json"


def sources() -> list[Path]:
    """What the results follow from: the gallery with its kernels, and the emulation."""
    return [*sorted(SOURCES.iterdir()), *emulation.runtime()]


def digest() -> str:
    """SHA-256 of the sources."""
    return hashlib.sha256(b"".join(file.read_bytes() for file in sources())).hexdigest()


def current() -> bool:
    """Whether the repository's results are of today's sources."""
    file = COMMITTED / RESULTS
    return file.exists() and read_json(file)["digest"] == digest()
