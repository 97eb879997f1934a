# What the rules share: functions of the configuration and of wildcards.
import functools
import json
import os
import re
import sys
from pathlib import Path

ROOT = Path(
    os.path.relpath(Path(workflow.current_basedir.get_path_or_uri(secret_free=True)))
).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from matmul import configuration, toolchain
from matmul.catalogue import source_files
from matmul.dataset import DATA_SET
from matmul.device import NoDevice
from matmul.errors import UserError
from matmul.modules import imported_files


def settle():
    """Catalogue's variants, device and architectures; a user's mistake ends it in one line."""
    try:
        origins = [
            *workflow.configfiles,
            *(["--config"] if workflow.config_settings.config else []),
        ]
        catalogue = configuration.check_configuration(config, origins)
        compiler = toolchain.version(toolchain.nvcc())
        device, architectures = configuration.resolve_device(config)
        return configuration.chosen_variants(config, catalogue), device, architectures, compiler
    except UserError as error:
        sys.exit(f"error: {error}")


@functools.cache
def program(name):
    """A step's script and the shared modules that it imports."""
    script = ROOT / "scripts" / f"{name}.py"
    return [script, *imported_files(script)]


def sources(wildcards):
    """A variant's source and the headers that it includes."""
    return source_files(VARIANTS[wildcards.slug].kernel.source)


def compile_identity(wildcards):
    """What decides a binary beside its sources."""
    variant = VARIANTS[wildcards.slug]
    return " ".join([COMPILER, variant.kernel.function, *variant.flags])


def built(variant):
    """The compile records (and with them the binaries) of a variant."""
    folders = {"library": [], "c": ["host"], "cuda": ARCHITECTURES}[variant.kernel.language]
    return [f"results/local/build/{folder}/{variant.slug}.json" for folder in folders]


def runnable(wildcards):
    """What a variant needs to run: its binaries, and the instruments on a GPU."""
    variant = VARIANTS[wildcards.slug]
    tools = ARCHITECTURES if variant.kernel.on_gpu and DEVICE == "gpu" else []
    return built(variant) + [f"results/local/build/{arch}/instruments.cubin" for arch in tools]


def emulated_sources(wildcards):
    """The sources that are run on the CPU where there is no GPU, and what runs them there."""
    if VARIANTS[wildcards.slug].kernel.language != "cuda" or DEVICE != "cpu":
        return []
    return [*sources(wildcards), *sorted((ROOT / "scripts/matmul/cuda_on_cpu").iterdir())]


def run_identity(wildcards):
    """What decides a result beside binaries and configuration: the launch, and the machine."""
    return json.dumps([VARIANTS[wildcards.slug].launch_identity, MACHINE])


def machine_identity():
    """The GPU and driver that this machine measures on; empty where jobs find theirs elsewhere."""
    try:
        return configuration.gpu_identity() if DEVICE == "gpu" else ""
    except NoDevice:
        return ""


def gpus(wildcards):
    """GPUs that a job on a variant takes."""
    return int(DEVICE == "gpu" and VARIANTS[wildcards.slug].kernel.on_gpu)


def every_core(wildcards):
    """All cores of this run, so that nothing runs beside a timing job; one where jobs are sent off."""
    return workflow.cores or 1


def sweep(wildcards):
    """What the configuration says of a variant's operation."""
    return configuration.sweep_of(config, VARIANTS[wildcards.slug].kernel.operation)


def shapes(wildcards):
    """The shapes at which a variant is measured."""
    return sweep(wildcards)["shapes"]


def verify_shapes(wildcards):
    """The shapes at which a variant is verified beside the built-in ones."""
    return sweep(wildcards)["verify_shapes"]


def measure_options(wildcards):
    """The configuration as measure.py's options."""
    wanted, gpu = sweep(wildcards), VARIANTS[wildcards.slug].kernel.on_gpu
    sampling, limits = wanted["sampling"], wanted["limits"]
    return " ".join(
        [
            f"--caches {' '.join(wanted['caches'])}",
            f"--minimum {sampling['minimum']} --maximum {sampling['maximum']}",
            f"--interval {sampling['interval']} --seconds {sampling['seconds']}",
            f"--copy-seconds {sampling['copy_seconds'] if wanted['copies'] else 0}",
            f"--launch-seconds {limits['gpu_seconds' if gpu else 'cpu_seconds']}",
            f"--memory-share {limits['memory_share']}",
        ]
    )


def published():
    """The published data sets, as `published/<device>`."""
    folders = (ROOT / "reports" / "published").glob("*/summary.csv")
    return sorted(f"published/{file.parent.name}" for file in folders)


def data_of(wildcards):
    """The tables of a data set: the local one is collected, a published one lies in the repository."""
    local = wildcards.dataset == "local"
    folder = "results/local" if local else ROOT / "reports" / wildcards.dataset
    return [f"{folder}/{name}" for name in DATA_SET]
