# Functions of the configuration and of wildcards that the rules share.
import functools
import json
import os
import shlex
import sys
import time
from pathlib import Path

ROOT = Path(
    os.path.relpath(Path(workflow.current_basedir.get_path_or_uri(secret_free=True)))
).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from matmul_sweep.build import toolchain
from matmul_sweep.build.binaries import TOOLS
from matmul_sweep.catalogue.reading import CHECKED, catalogue_digest
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.process.yaml_files import read_yaml
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.dataset.tables import CHECKS, DATA_SET
from matmul_sweep.process.files import read_json
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.process import lock
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.lifetime import SNAKEMAKE
from matmul_sweep.process.programs import program_files
from matmul_sweep.experiment.report.figures.names import CAPTIONS, captions
from matmul_sweep.experiment.plan import cluster, configuration
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.classroom import results as mistake_results

# Rules whose jobs need a GPU, unless the CPU is measured.
ON_GPU = {"verify_operation", "measure_part", "measure_ceilings", "count"}

# The program replaces the shell, so Snakemake is its parent, and it dies with its parent. Programs
# keep their bytecode, or each job would compile hundreds of modules again.
shell.prefix(
    f"set -euo pipefail; export {SNAKEMAKE}=$PPID PYTHONDONTWRITEBYTECODE= "
    f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))}${{{{PYTHONPATH:+:$PYTHONPATH}}}}; exec "
)


def sent_off():
    """Whether jobs run on other machines and find their GPU there.

    The scope of the resource gpu says so. Snakemake passes it on, so a job, a dry run and a summary
    see what the run sees.
    """
    return workflow.resource_scopes.is_local("gpu")


def settle():
    """The experiment and the CUDA compiler.

    A user's mistake ends the run with one line.
    """
    try:
        origins = [
            *workflow.configfiles,
            *(["--config"] if workflow.config_settings.config else []),
        ]
        for file in workflow.configfiles:
            read_yaml(Path(file))  # refuses a repeated key; Snakemake's reader takes the last value
        catalogue = configuration.check_configuration(config, origins)
        compiler = toolchain.version(*toolchain.cuda())
        device, architectures = where_to_measure()
        toolchain.check_architectures(architectures)
        experiment = Experiment(config, catalogue, device, tuple(architectures), sent_off())
        experiment.jobs  # refuses a run that measures nothing
        # Jobs need not check it again.
        os.environ[CHECKED] = catalogue_digest(Path(config["catalogue"]))
        return experiment, compiler
    except UserError as error:
        sys.exit(f"error: {error}")


def where_to_measure():
    """gpu or cpu, and the architectures to compile for.

    Raises UserError if CPU results would replace those of an earlier run on a GPU.
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
    """The GPU that the jobs in results/local ran on, or None."""
    jobs = map(read_json, Path("results/local/measured").glob("*/*/*/facts.json"))
    return next((job["gpu"] for job in jobs if job.get("gpu")), None)


def check_run():
    """End a run with one line if its jobs would miss their GPU, lose results or never end."""
    rules_to_run = {job.rule.name for job in workflow.dag.needrun_jobs()}
    try:
        if not sent_off() and DEVICE == "gpu" and rules_to_run & ON_GPU:
            configuration.check_gpu()
        if DEVICE == "cpu" and "compare" in rules_to_run:
            raise UserError(
                "compare: there is no GPU here, and the published data sets were measured on GPUs; "
                "run it where there is one, or leave it out"
            )
        if workflow.non_local_exec and not sent_off():
            raise UserError(
                "jobs are sent to other machines, but GPUs are counted on this one: use "
                "--workflow-profile profiles/slurm, or --set-resource-scopes gpu=local timing=local"
            )
        if hasattr(workflow.executor_settings, "array_jobs"):
            cluster.check_slurm(workflow.executor_settings, workflow.workdir_init)
    except UserError as error:
        sys.exit(f"error: {error}")


def tell_verdict():
    """Print the verdict that this run wrote as its last words; a failed verdict ends the run."""
    file, rest = Path(VERDICT), {job.rule.name for job in workflow.dag.needrun_jobs()}
    spoken = "pass_verdict" in rest and rest <= {"pass_verdict", "all", "check", "publish"}
    if not file.exists() or not (spoken or file.stat().st_mtime >= BEGUN):
        return
    text = file.read_text().strip()
    if text.startswith("failed"):
        sys.exit(text)
    print(text, file=sys.stderr)


def tell_interruption(logs):
    """After a Ctrl-C, which Snakemake notes in its log, say what to do next."""
    if any("Terminating processes on user request" in Path(log).read_text() for log in logs):
        sys.exit("interrupted: the same command continues where this one stopped")


@functools.cache
def program(name):
    """The script of a step and the shared modules that it imports."""
    [script] = (ROOT / "scripts").rglob(f"{name}.py")
    return program_files(script)


def sources(wildcards):
    """The source of a kernel and the headers that it includes."""
    return source_files(EXPERIMENT.catalogue[wildcards.kernel].code)


def build_identity(wildcards):
    """Everything that determines the binaries of a kernel, except its sources."""
    return f"{COMPILER} {EXPERIMENT.build_identity(wildcards.arch, wildcards.kernel)}"


def built(variants):
    """The folders of the binaries that variants need."""
    return sorted(
        {
            f"results/local/build/{folder}/{part.kernel.name}"
            for variant in variants
            for folder in EXPERIMENT.folders(variant)
            for part in EXPERIMENT.parts(variant, folder)
        }
    )


def runnable(variants):
    """What variants need to run: their binaries, and on a GPU the instruments."""
    on_gpu = DEVICE == "gpu" and any(variant.kernel.on_gpu for variant in variants)
    return built(variants) + (built_tools("instruments") if on_gpu else [])


def built_tools(*tools):
    """The binaries of the tools that measure on a GPU; none where there is no GPU."""
    folders = EXPERIMENT.architectures if DEVICE == "gpu" else []
    return [f"results/local/build/{arch}/{tool}.cubin" for arch in folders for tool in tools]


def named(files):
    """Files of the project by their paths from here, so that a clone that moves runs nothing again."""
    return [os.path.relpath(file) for file in files]


def verifiable(wildcards):
    """What the verification of an operation reads: binaries, or sources that run on the CPU."""
    variants = EXPERIMENT.operations[wildcards.operation]
    if DEVICE == "gpu":
        return runnable(variants)
    parts = [
        part
        for variant in variants
        if variant.kernel.hand_written
        for part in EXPERIMENT.parts(variant, None)
    ]
    files = [file for part in parts for file in source_files(part.kernel.code)]
    own = [variant for variant in variants if not variant.kernel.on_gpu]
    return [*dict.fromkeys(files), *(named(emulation.runtime()) if parts else []), *built(own)]


def machine_identity():
    """The GPU and driver that this machine measures on; empty if jobs run on other machines."""
    try:
        return configuration.gpu_identity() if DEVICE == "gpu" and not sent_off() else ""
    except NoDevice:
        return ""


def gpus(wildcards):
    """The number of GPUs that a job takes: of a timing job, or one that measures the card itself."""
    own = EXPERIMENT.measured.get((wildcards.get("sweep"), wildcards.get("part")))
    return int(DEVICE == "gpu" and (own is None or own[0].kernel.on_gpu))


def undisturbed_cores(wildcards):
    """All cores of this run, so that nothing runs beside a timing job.

    With several GPUs, a GPU job takes its share of the cores. On a cluster the profile decides.
    """
    cores = 1 if sent_off() else workflow.resource_settings.cores or 1
    beside = workflow.global_resources.get("gpu").value if gpus(wildcards) else 1
    return max(1, cores // (beside or 1))


def measured():
    """The folders of all measuring jobs."""
    return [f"results/local/measured/{sweep}/{part}" for sweep, part in EXPERIMENT.measured]


def ceilings():
    """The measured ceilings; none without a GPU."""
    return ["results/local/measured/ceilings.csv"] if DEVICE == "gpu" else []


def collected():
    """The tables of this run's data set."""
    return [*DATA_SET, *(["ceilings.csv"] if DEVICE == "gpu" else [])]


def mistakes_shown():
    """The folder of the gallery of mistakes: the repository's, if it is of today's sources."""
    [committed] = named([mistake_results.COMMITTED])
    return committed if mistake_results.current() else "results/mistakes"


def published():
    """The published data sets, as `published/<device>`, if they have all tables of today."""
    folders = (file.parent for file in (ROOT / "reports" / "published").glob("*/device.json"))
    whole = (folder for folder in folders if all((folder / name).exists() for name in DATA_SET))
    return sorted(f"published/{folder.name}" for folder in whole)


def reported():
    """The data sets that a run reports: its own and, if asked for, the published ones."""
    return ["local", *(published() if config["published"] == "rebuild" else [])]


def folder_of(wildcards):
    """The folder of a data set: collected ones are local, published ones are in the repository."""
    dataset = wildcards.dataset
    if dataset.startswith("published/"):
        return ROOT / "reports" / dataset
    return "results/local" if dataset == "local" else f"results/local/{dataset}"


def beside(wildcards):
    """The folders of the published data sets, but for this one: their cards may be other ones."""
    own = Path(folder_of(wildcards))
    folders = [ROOT / "reports" / name for name in published()]
    return [folder for folder in folders if folder != own]


def tables_beside(wildcards):
    """The tables of those data sets."""
    names = [*DATA_SET, "ceilings.csv"]
    files = [folder / name for folder in beside(wildcards) for name in names]
    return list(filter(os.path.exists, files))


def data_of(wildcards):
    """The tables of a data set; a published one may lack some."""
    folder = folder_of(wildcards)
    if wildcards.dataset.startswith("published/"):
        files = [f"{folder}/{name}" for name in (*DATA_SET, "ceilings.csv")]
        return list(filter(os.path.exists, files))
    return [f"{folder}/{name}" for name in collected()]


def evidence_of(wildcards):
    """The tables of what holds kernels back: this run's, or published ones if they are there."""
    folder = folder_of(wildcards)
    if wildcards.dataset == "local":
        counted = "counters" if DEVICE == "gpu" else "loads"
        return [f"{folder}/{name}.csv" for name in ("instructions", counted)]
    files = [f"{folder}/{name}.csv" for name in ("instructions", "counters")]
    return list(filter(os.path.exists, files))


def checks_of(wildcards):
    """The checks of the timing of a data set, if there are any."""
    files = [f"{folder_of(wildcards)}/{name}" for name in CHECKS]
    return list(filter(os.path.exists, files))
