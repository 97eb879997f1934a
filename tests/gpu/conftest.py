"""The GPU, the instruments on it, and a folder of binaries for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from matmul.building import compile_instruments, compile_variant
from matmul.catalogue import Variant
from matmul.dataset import write_json
from matmul.device import Gpu, NoDevice, architecture, driver, opened
from matmul.instruments import Instruments


@pytest.fixture(scope="session")
def gpu() -> Iterator[Gpu]:
    try:
        driver()
    except NoDevice as missing:
        pytest.skip(f"{missing}; on a machine with an NVIDIA GPU: uv run pytest -m gpu")
    with opened() as gpu:
        yield gpu


@pytest.fixture(scope="session")
def build(gpu: Gpu, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of binaries that holds the instruments."""
    folder = tmp_path_factory.mktemp("build")
    compile_instruments(architecture(), folder / architecture() / "instruments.cubin")
    return folder


@pytest.fixture(scope="session")
def compiled(build: Path) -> Callable[[Variant], Path]:
    """Compiles a variant into the folder of binaries, as the workflow does; the folder."""

    def compile_into(variant: Variant) -> Path:
        record = build / architecture() / f"{variant.slug}.json"
        if variant.kernel.language == "cuda" and not record.exists():
            content = compile_variant(variant, architecture(), record.with_suffix(".cubin"))
            assert content["status"] == "ok", content["reason"]
            write_json(content, record)
        return build

    return compile_into


@pytest.fixture(scope="session")
def tools(gpu: Gpu, build: Path) -> Instruments:
    return Instruments(gpu, build)
