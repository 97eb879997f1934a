# What the rules share: functions of the configuration and of wildcards.
import functools
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(
    os.path.relpath(Path(workflow.current_basedir.get_path_or_uri(secret_free=True)))
).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from matmul.build import binaries, toolchain
from matmul.build.binaries import TOOLS
from matmul.catalogue.entries import HAND_WRITTEN, source_files
from matmul.catalogue.schema import read_yaml
from matmul.dataset.tables import CHECKS, DATA_SET, read_json
from matmul.gpu.device import NoDevice
from matmul.operations import parse_shape
from matmul.process import lock
from matmul.process.errors import UserError
from matmul.process.lifetime import SNAKEMAKE
from matmul.process.programs import program_files
from matmul.report.figures.names import captions
from matmul.settings import cluster, configuration
from snakemake.exceptions import WorkflowError

# Rules whose jobs need a GPU where there is to be one.
ON_GPU = {"verify_variant", "measure_variant", "measure_ceilings"}

# The program takes the shell's place, so that Snakemake is its parent, with which it dies.
shell.prefix(f"set -euo pipefail; export {SNAKEMAKE}=$PPID; exec ")


def sent_off():
    """Whether jobs find their GPU on another machine than this one.

    The scope of the resource gpu says so. Snakemake hands it on, so that a job, a dry run and a
    summary see what the run sees.
    """
    return workflow.resource_scopes.is_local("gpu")


def settle():
    """Catalogue's variants, device and architectures; a user's mistake ends it in one line."""
    try:
        origins = [
            *workflow.configfiles,
            *(["--config"] if workflow.config_settings.config else []),
        ]
        for file in workflow.configfiles:
            read_yaml(Path(file))  # Snakemake's reader takes the last of a key's values
        catalogue = configuration.check_configuration(config, origins)
        compiler = toolchain.version(toolchain.nvcc())
        device, architectures = where_to_measure()
        toolchain.check_architectures(architectures)
        return configuration.chosen_jobs(config, catalogue), device, architectures, compiler
    except UserError as error:
        sys.exit(f"error: {error}")


def where_to_measure():
    """gpu or cpu, and the architectures to compile for.

    Raises UserError where the CPU would be measured in the place of a GPU of an earlier run.
    """
    if sent_off() and config["device"] != "cpu":
        return "gpu", config["architectures"]
    device, architectures = configuration.resolve_device(config)
    if (config["device"], device) == ("auto", "cpu") and (gpu := measured_on()):
        raise UserError(
            f"results/local was measured on {gpu}, there is no GPU here, and a run would replace it: "
            "on a cluster use --workflow-profile profiles/slurm, else --config device=cpu"
        )
    return device, architectures


def measured_on():
    """The GPU that jobs of results/local ran on, or None."""
    jobs = map(read_json, Path("results/local/measured").glob("*/*/facts.json"))
    return next((job["gpu"] for job in jobs if job.get("gpu")), None)


def check_run():
    """End a run with one line whose jobs would miss their GPU, lose results or never end."""
    rules_to_run = {job.rule.name for job in workflow.dag.needrun_jobs()}
    try:
        if not sent_off() and DEVICE == "gpu" and rules_to_run & ON_GPU:
            configuration.check_gpu()
        if DEVICE == "cpu" and "compare" in rules_to_run:
            raise UserError(
                "compare: there is no GPU here, and what is published was measured on GPUs; run it "
                "where there is one, or leave it out"
            )
        if workflow.non_local_exec and not sent_off():
            raise UserError(
                "jobs are sent off, but GPUs are counted on this machine: use --workflow-profile "
                "profiles/slurm, or --set-resource-scopes gpu=local timing=local"
            )
        if hasattr(workflow.executor_settings, "array_jobs"):
            cluster.check_slurm(workflow.executor_settings, workflow.workdir_init)
    except UserError as error:
        sys.exit(f"error: {error}")


def tell_verdict():
    """Print, as the last of what a run says, the verdict that it wrote; a failed one ends it."""
    file, rest = Path(VERDICT), {job.rule.name for job in workflow.dag.needrun_jobs()}
    spoken = "pass_verdict" in rest and rest <= {"pass_verdict", "all", "publish"}
    if not file.exists() or not (spoken or file.stat().st_mtime >= BEGUN):
        return
    text = file.read_text().strip()
    if text.startswith("failed"):
        sys.exit(text)
    print(text, file=sys.stderr)


def tell_interruption(logs):
    """After a Ctrl-C, which Snakemake notes in its log, say last what to do next."""
    if any("Terminating processes on user request" in Path(log).read_text() for log in logs):
        sys.exit("interrupted: the same command goes on where this stopped")


@functools.cache
def program(name):
    """A step's script and the shared modules that it imports."""
    return program_files(ROOT / "scripts" / f"{name}.py")


class Variants(dict):
    """Variants by slug."""

    def __missing__(self, slug):
        raise WorkflowError(f"the catalogue and its tables have no variant {slug}")


def sources(wildcards):
    """A variant's source and the headers that it includes."""
    return source_files(BUILDABLE[wildcards.slug].kernel.source)


def compile_identity(wildcards):
    """What decides a binary beside its sources."""
    variant = BUILDABLE[wildcards.slug]
    return " ".join([COMPILER, variant.kernel.function, *binaries.flags(variant)])


def built(variant):
    """The compile records (and with them the binaries) of a variant, or of those of its table's
    that run at the shapes of its sweeps."""
    languages = {"library": [], "c": ["host"], "cuda": ARCHITECTURES, "table": ARCHITECTURES}
    folders, shapes = languages[variant.kernel.language], table_shapes(variant)
    parts = [(folder, part.slug) for folder in folders for part in variant.parts(folder, shapes)]
    return [f"results/local/build/{folder}/{slug}.json" for folder, slug in parts]


def own_shapes(slug, key):
    """The shapes of all sweeps that measure a variant, each once; those of `key` as written."""
    own = [name for name, variants in JOBS.items() if slug in variants]
    return list(dict.fromkeys(s for name in own for s in configuration.sweep_of(config, name)[key]))


def table_shapes(variant):
    """The shapes at which a table's variant is measured; None for any other variant."""
    if variant.kernel.language != "table":
        return None
    return [parse_shape(s, variant.kernel.operation) for s in own_shapes(variant.slug, "shapes")]


def runnable(wildcards):
    """What a variant needs to run: its binaries, and the instruments on a GPU."""
    variant = VARIANTS[wildcards.slug]
    return built(variant) + (built_tools("instruments") if variant.kernel.on_gpu else [])


def built_tools(*tools):
    """The binaries of what measures on a GPU; none where there is no GPU."""
    folders = ARCHITECTURES if DEVICE == "gpu" else []
    return [f"results/local/build/{arch}/{tool}.cubin" for arch in folders for tool in tools]


def emulated_sources(wildcards):
    """The sources that are run on the CPU where there is no GPU, and what runs them there."""
    variant = VARIANTS[wildcards.slug]
    if variant.kernel.language not in HAND_WRITTEN or DEVICE != "cpu":
        return []
    files = [
        file
        for part in variant.parts(None, table_shapes(variant))
        for file in source_files(part.kernel.source)
    ]
    return [*dict.fromkeys(files), *sorted((ROOT / "scripts/matmul/cpu/cuda_on_cpu").iterdir())]


def run_identity(wildcards):
    """What decides a result beside binaries and configuration: the launch, and the machine."""
    return json.dumps([VARIANTS[wildcards.slug].launch_identity, MACHINE])


def machine_identity():
    """The GPU and driver that this machine measures on; empty where jobs find theirs elsewhere."""
    try:
        return configuration.gpu_identity() if DEVICE == "gpu" and not sent_off() else ""
    except NoDevice:
        return ""


def gpus(wildcards):
    """GPUs that a job takes: on a variant, or without one on the card itself."""
    slug = wildcards.get("slug")
    return int(DEVICE == "gpu" and (slug is None or VARIANTS[slug].kernel.on_gpu))


def undisturbed_cores(wildcards):
    """All cores of this run, so that nothing runs beside a timing job; of a job on one of several
    GPUs its share of them. Where jobs are sent off, the profile says how many."""
    cores = 1 if sent_off() else workflow.resource_settings.cores or 1
    beside = workflow.global_resources.get("gpu").value if gpus(wildcards) else 1
    return max(1, cores // (beside or 1))


def gpus_to_verify(wildcards):
    """Verifying times nothing: on this machine its jobs share a card."""
    return gpus(wildcards) if sent_off() else 0


def verify_shapes(wildcards):
    """The shapes at which a variant is verified beside the built-in ones: those of its sweeps."""
    return own_shapes(wildcards.slug, "verify_shapes")


def measured_shapes(wildcards):
    """What verify.py needs to know of a table: where it is measured."""
    shapes = table_shapes(VARIANTS[wildcards.slug])
    return ["--measured", *shapes] if shapes else []


def measure_options(wildcards):
    """The configuration of a sweep as measure.py's options."""
    wanted = configuration.sweep_of(config, wildcards.sweep)
    sampling, limits = wanted["sampling"], wanted["limits"]
    variant = VARIANTS[wildcards.slug]
    gpu = variant.kernel.on_gpu
    copies = configuration.named(variant, wanted["copies"])
    wanted["spared"] = configuration.spared(wanted, gpu)
    wanted["caches"] = configuration.caches_of(variant, wanted)
    return " ".join(
        [
            *(
                f"--{key} {' '.join(map(str, wanted[key]))}"
                for key in ("shapes", "spared", "fills", "modes", "caches")
            ),
            f"--minimum {sampling['minimum']} --maximum {sampling['maximum']}",
            f"--interval {sampling['interval']} --seconds {sampling['seconds']}",
            f"--copy-seconds {sampling['copy_seconds'] if copies else 0}",
            f"--warm-seconds {sampling['warm_seconds']} --load-seconds {sampling['load_seconds']}",
            f"--cool-celsius {limits['cool_celsius']} --cool-seconds {limits['cool_seconds']}",
            f"--launch-seconds {limits['gpu_seconds' if gpu else 'cpu_seconds']}",
            f"--hang-seconds {limits['hang_seconds']} --memory-share {limits['memory_share']}",
        ]
    )


def job_names():
    """Every measuring job as <sweep>/<slug>, by which its folders are named."""
    return [f"{sweep}/{slug}" for sweep, variants in JOBS.items() for slug in variants]


def measured(*files):
    """These files of every measuring job."""
    return [f"results/local/measured/{job}/{file}" for job in job_names() for file in files]


def collect_options():
    """What is collected, as collect.py's options."""
    return [
        "--measured",
        *(f"results/local/measured/{job}" for job in job_names()),
        "--journals",
        *(f"results/local/journal/{job}" for job in job_names()),
        "--verified",
        *rules.verify.input,
        "--records",
        *rules.compile.input,
        "--configuration",
        json.dumps(config),
    ]


def published():
    """The published data sets, as `published/<device>`; not those from before a table was added."""
    folders = (file.parent for file in (ROOT / "reports" / "published").glob("*/device.json"))
    whole = (folder for folder in folders if all((folder / name).exists() for name in DATA_SET))
    return sorted(f"published/{folder.name}" for folder in whole)


def reported():
    """The data sets that a run reports on: its own and, where it has no GPU, the published ones."""
    return ["local", *(published() if DEVICE == "cpu" else [])]


def other_reports(wildcards):
    """Reports and pages of the other models of GPU that jobs ran on, as `collect` found them."""
    folder = Path(checkpoints.collect.get().output.others)
    names = sorted(file.parent.name for file in folder.glob("*/device.json"))
    return expand("results/others/{name}/{file}", name=names, file=["report.pdf", "explore.html"])


def folder_of(wildcards):
    """Where a data set lies: the local ones are collected, a published one is in the repository."""
    dataset = wildcards.dataset
    if dataset.startswith("published/"):
        return ROOT / "reports" / dataset
    return "results/local" if dataset == "local" else f"results/local/{dataset}"


def data_of(wildcards):
    """The tables of a data set; a published one may be older than the ceilings."""
    files = [f"{folder_of(wildcards)}/{name}" for name in (*DATA_SET, "ceilings.csv")]
    published = wildcards.dataset.startswith("published/")
    return list(filter(os.path.exists, files)) if published else files


def checks_of(wildcards):
    """The checks of a data set's timing, where they were made."""
    files = [f"{folder_of(wildcards)}/{name}" for name in CHECKS]
    return list(filter(os.path.exists, files))
