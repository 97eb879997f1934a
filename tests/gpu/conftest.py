"""The GPU, the instruments on it, and a folder of binaries for it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from matmul_sweep.build.binaries import binary_of, compile_instruments, compile_into
from matmul_sweep.catalogue.entries import Kind, Variant
from matmul_sweep.experiment.verify.gpu import Gpu
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.launch.driver import NoDevice


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
    """Compiles a variant into the folder of binaries, as the workflow does; the folder."""

    def compile_missing(variant: Variant) -> Path:
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
