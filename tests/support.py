"""Types and constants that tests and fixtures share."""

import copy
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sharing import shares_of
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.dispatch.cost import Work, work
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.verify.verification import accuracy
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.project import DEFAULT_CATALOGUE

ROOT = Path(__file__).resolve().parents[1]

PUBLISHED_SETS = sorted(file.parent for file in (ROOT / "reports/published").glob("*/device.json"))

the_catalogue = functools.cache(load_catalogue)  # reading it takes long

CUDA_ENTRY = {
    "title": "mine",
    "operation": "gemm",
    "source": "mine.cu",
    "function": "mine",
    "tile": [16, 16],
    "threads": [16, 16],
}
RIGHT_KERNEL = (ROOT / "tests" / "kernels" / "right.cu").read_text()
TILED_KERNEL = (ROOT / "tests" / "kernels" / "tiled.cu").read_text()
FIRST_BARRIER = "__syncthreads();  // until the tiles are there"
UNBARRED_KERNEL = TILED_KERNEL.replace(FIRST_BARRIER, "")

Entry = Callable[..., dict[str, Any]]
WriteCatalogue = Callable[..., Path]


@dataclass(frozen=True)
class Outcome:
    """What a script came to: its exit code, and the text that it printed."""

    code: int
    out: str
    err: str

    def error(self) -> str:
        """The only line of stderr, which has to be an `error:` line, with exit code 1."""
        assert self.code == 1, self.out + self.err
        lines = self.err.strip().splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: "), self.err
        return lines[0]


def documented_python(page: str, words: str) -> str:
    """The block of Python in a page that has these words."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    [found] = [block for block in blocks if words in block]
    return found


def error_share(c: np.ndarray, *inputs: np.ndarray, writes: str = "full") -> float:
    """The largest error of a product of full arithmetic as a share of its bound."""
    kernel = the_catalogue()["cublas_sgemm" if c.dtype == np.float32 else "cublas_dgemm"]
    return accuracy(replace(kernel, writes=writes), c, *inputs).share


Command = Callable[..., Outcome]


def step(
    command: Command, name: str, run: Experiment, folder: Path, output: str, *arguments: object
) -> Path:
    """Runs the program of a step for an experiment; what it wrote in the folder."""
    run.write(folder / "experiment.json")
    done = command(name, *arguments, "--experiment", folder / "experiment.json",
                   "--output", folder / output, "--log", folder / "log")  # fmt: skip
    assert (done.code, done.err) == (0, "")
    return folder / output


def work_of(variant: Variant, shape: Shape, multiprocessors: int) -> Work:
    """The quantities of a product, as its dispatch counts them."""
    return work(variant, shape, shares_of(variant, shape, multiprocessors), multiprocessors)


DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())


def changed(configuration: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of a configuration with some keys set; `a.b` is key b of section a."""
    found = copy.deepcopy({**configuration})
    for key, value in changes.items():
        *sections, last = key.split(".")
        functools.reduce(dict.__getitem__, sections, found)[last] = value
    return found


def experiment(
    *kernels: str, device: str = "cpu", catalogue: Path = DEFAULT_CATALOGUE, arch: str = "sm_90",
    spread: bool = False, **changes: Any,
) -> Experiment:  # fmt: skip
    """A run of some kernels, or of all, with some keys of the configuration changed: `a__b` is key
    b of section a. It has one sweep of two small products unless `sweeps` says otherwise."""
    usual = DEFAULT | {
        "catalogue": str(catalogue),
        "kernels": list(kernels) or "all",
        "sweeps": {"gemm": {"operation": "gemm", "shapes": [8, "9x8x7"]}},
    }
    configuration = changed(usual, {key.replace("__", "."): own for key, own in changes.items()})
    entries = the_catalogue() if catalogue == DEFAULT_CATALOGUE else load_catalogue(catalogue)
    return Experiment(configuration, entries, device, (arch,), spread)
