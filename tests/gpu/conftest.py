"""The GPU, the instruments on it, a folder of binaries for it, and products by variants."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from matmul_sweep.build.binaries import binary_of, compile_instruments, compile_into
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.experiment.verify.runner import GpuRunner
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.gram import Gram
from matmul_sweep.process.errors import HANG_SECONDS


@pytest.fixture(scope="session")
def gpu() -> Gpu:
    """The first GPU, not held: the scripts that tests start hold it in turn."""
    try:
        first = Gpu(0)
    except NoDevice as missing:
        pytest.skip(f"{missing}; on a machine with an NVIDIA GPU: uv run pytest -m gpu")
    first.activate()
    return first


@pytest.fixture(scope="session")
def build(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of binaries that holds the instruments."""
    folder = tmp_path_factory.mktemp("build")
    compile_instruments(gpu.architecture, folder / gpu.architecture / "instruments.cubin")
    return folder


@pytest.fixture(scope="session")
def compiled(gpu: Gpu, build: Path) -> Callable[[Variant], Path]:
    """Compiles a variant into the folder of binaries, as the workflow does; the folder. Where the
    card does not run it, the test is skipped."""

    def compile_missing(variant: Variant) -> Path:
        if not variant.runs_on(gpu.architecture):
            pytest.skip(f"it needs compute capability {variant.kernel.since}")
        for part in variant.parts(gpu.architecture):
            binary = binary_of(part, build / gpu.architecture)
            if part.kernel.kind is Kind.CUDA and not binary.exists():
                content = compile_into(part, gpu.architecture, build)
                assert content["status"] == "ok", content["reason"]
        return build

    return compile_missing


@pytest.fixture(scope="session")
def tools(gpu: Gpu, build: Path) -> Instruments:
    return Instruments(gpu, build)


@pytest.fixture
def runner(gpu: Gpu, build: Path) -> GpuRunner:
    return GpuRunner(build, HANG_SECONDS, gpu)


@pytest.fixture
def products(runner: GpuRunner, compiled: Callable[[Variant], Path]) -> Callable[..., Any]:
    """A·B, or without B AᵀA, by each of some variants; cuBLAS needs no binary of its own."""

    def run(variants: Sequence[Variant], a: np.ndarray, *b: np.ndarray) -> list[np.ndarray]:
        shape = Gemm(len(a), b[0].shape[1], len(b[0])) if b else Gram(*a.shape)
        for variant in variants:
            compiled(variant)
        return [runner.multiply(variant, shape, a, *b) for variant in variants]

    return run
