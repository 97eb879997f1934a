# Functions of the configuration and of wildcards that the rules share.
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
from matmul.catalogue.entries import Kind, source_files
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

# Rules whose jobs need a GPU, unless the CPU is measured.
ON_GPU = {"verify_variant", "measure_variant", "measure_ceilings", "count"}

# The program replaces the shell, so Snakemake is its parent, and it dies with its parent.
shell.prefix(f"set -euo pipefail; export {SNAKEMAKE}=$PPID; exec ")


def sent_off():
    """Whether jobs run on other machines and find their GPU there.

    The scope of the resource gpu says so. Snakemake passes it on, so a job, a dry run and a summary
    see what the run sees.
    """
    return workflow.resource_scopes.is_local("gpu")


def settle():
    """The chosen jobs, the device, the architectures and the compiler.

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
        jobs = configuration.chosen_jobs(config, catalogue, device)
        return jobs, device, architectures, compiler
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
    jobs = map(read_json, Path("results/local/measured").glob("*/*/facts.json"))
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
    return program_files(ROOT / "scripts" / f"{name}.py")


class Variants(dict):
    """Variants by slug."""

    def __missing__(self, slug):
        raise WorkflowError(f"the catalogue and its tables have no variant {slug}")


def sources(wildcards):
    """The source of a variant and the headers that it includes."""
    return source_files(BUILDABLE[wildcards.slug].kernel.code)


def compile_identity(wildcards):
    """Everything that determines a binary, except its sources."""
    variant, arch = BUILDABLE[wildcards.slug], wildcards.get("arch", binaries.HOST)
    kernel = variant.kernel
    words = [COMPILER, *kernel.functions, kernel.since, *binaries.flags(variant, arch)]
    return " ".join(words)


def built(variant):
    """The compile records (and so the binaries) that a variant needs.

    For a dispatch they are those of the variants that run at the shapes of its sweeps.
    """
    own = {Kind.LIBRARY: [], Kind.C: [binaries.HOST]}
    folders = own.get(variant.kernel.kind, ARCHITECTURES)
    parts = [(folder, part.slug) for folder in folders for part in parts_of(variant, folder)]
    return [f"results/local/build/{folder}/{slug}.json" for folder, slug in parts]


@functools.cache  # several rules ask, and a dispatch predicts the times of all its rows
def parts_of(variant, arch):
    """The variants that run for this one at the shapes of its sweeps."""
    return variant.parts(arch, dispatched_shapes(variant))


def own_sweeps(slug):
    """The settings of every sweep that measures a variant."""
    own = [name for name, variants in JOBS.items() if slug in variants]
    return [configuration.sweep_of(config, name) for name in own]


def dispatched_shapes(variant):
    """The shapes at which a dispatch is measured; None for other variants.

    Without a GPU, the variants for random shapes are neither compiled nor run in emulation.
    """
    if variant.kernel.kind is not Kind.DISPATCH:
        return None
    sweeps = [own for own in own_sweeps(variant.slug) if DEVICE == "gpu" or not own["random"]]
    texts = dict.fromkeys(text for own in sweeps for text in own["shapes"])
    return [parse_shape(text, variant.kernel.operation) for text in texts]


def runnable(wildcards):
    """What a variant needs to run: its binaries, and on a GPU the instruments."""
    variant = VARIANTS[wildcards.slug]
    return built(variant) + (built_tools("instruments") if variant.kernel.on_gpu else [])


def built_tools(*tools):
    """The binaries of the tools that measure on a GPU; none where there is no GPU."""
    folders = ARCHITECTURES if DEVICE == "gpu" else []
    return [f"results/local/build/{arch}/{tool}.cubin" for arch in folders for tool in tools]


def emulated_sources(wildcards):
    """The sources that run on the CPU where there is no GPU, and the emulation that runs them."""
    variant = VARIANTS[wildcards.slug]
    if not variant.kernel.hand_written or DEVICE != "cpu":
        return []
    files = [file for part in parts_of(variant, None) for file in source_files(part.kernel.code)]
    return [*dict.fromkeys(files), *runtime_on_cpu()]


def runtime_on_cpu():
    """The sources of the emulation."""
    return sorted(
        file for file in (ROOT / "scripts/matmul/cpu/cuda_on_cpu").rglob("*") if file.is_file()
    )


def run_identity(wildcards):
    """Everything else that determines a result: the launch and the machine."""
    return json.dumps([VARIANTS[wildcards.slug].launch_identity, MACHINE])


def machine_identity():
    """The GPU and driver that this machine measures on; empty if jobs run on other machines."""
    try:
        return configuration.gpu_identity() if DEVICE == "gpu" and not sent_off() else ""
    except NoDevice:
        return ""


def gpus(wildcards):
    """The number of GPUs that a job takes: a variant's, or of a job that measures the card itself."""
    slug = wildcards.get("slug")
    return int(DEVICE == "gpu" and (slug is None or VARIANTS[slug].kernel.on_gpu))


def undisturbed_cores(wildcards):
    """All cores of this run, so that nothing runs beside a timing job.

    With several GPUs, a GPU job takes its share of the cores. Without one it says so, and times
    nothing. On a cluster the profile decides.
    """
    slug = wildcards.get("slug")
    if DEVICE == "cpu" and slug and VARIANTS[slug].kernel.on_gpu:
        return 1
    cores = 1 if sent_off() else workflow.resource_settings.cores or 1
    beside = workflow.global_resources.get("gpu").value if gpus(wildcards) else 1
    return max(1, cores // (beside or 1))


def gpus_to_verify(wildcards):
    """The GPUs of a verifying job. It times nothing, so on this machine such jobs share a card."""
    return gpus(wildcards) if sent_off() else 0


def verify_shapes(wildcards):
    """The shapes from its sweeps at which a variant is verified, besides the built-in ones."""
    sweeps = own_sweeps(wildcards.slug)
    return list(dict.fromkeys(text for own in sweeps for text in own["verify_shapes"]))


def measured_shapes(wildcards):
    """verify.py's option for a dispatch: the shapes at which it is measured."""
    shapes = dispatched_shapes(VARIANTS[wildcards.slug])
    return [] if shapes is None else ["--measured", *shapes]


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
            f"--sample-seconds {sampling['sample_seconds']}",
            f"--copy-seconds {sampling['copy_seconds'] if copies else 0}",
            f"--warm-seconds {sampling['warm_seconds']} --load-seconds {sampling['load_seconds']}",
            f"--cool-celsius {limits['cool_celsius']} --cool-seconds {limits['cool_seconds']}",
            f"--launch-seconds {limits['gpu_seconds' if gpu else 'cpu_seconds']}",
            f"--hang-seconds {limits['hang_seconds']} --memory-share {limits['memory_share']}",
        ]
    )


def job_names():
    """Every measuring job as <sweep>/<slug>, the name of its folders."""
    return [f"{sweep}/{slug}" for sweep, variants in JOBS.items() for slug in variants]


def measured(*files):
    """These files of every measuring job."""
    return [f"results/local/measured/{job}/{file}" for job in job_names() for file in files]


def collect_options():
    """The inputs of collecting, as collect.py's options."""
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


def arguments_of(wildcards):
    """The binaries that are taken apart, or the variants whose counters are read."""
    if wildcards.step == "disassemble":
        return ["--records", *rules.compile.input]
    return ["--variants", *dict.fromkeys(v.name for v in VARIANTS.values() if v.kernel.on_gpu)]


def published():
    """The published data sets, as `published/<device>`, if they have all tables of today."""
    folders = (file.parent for file in (ROOT / "reports" / "published").glob("*/device.json"))
    whole = (folder for folder in folders if all((folder / name).exists() for name in DATA_SET))
    return sorted(f"published/{folder.name}" for folder in whole)


def reported():
    """The data sets that a run reports: its own and, if it has no GPU, the published ones."""
    return ["local", *(published() if DEVICE == "cpu" else [])]


def other_reports(wildcards):
    """Reports and pages of other GPU models that jobs ran on, as `collect` found them."""
    folder = Path(checkpoints.collect.get().output.others)
    names = sorted(file.parent.name for file in folder.glob("*/device.json"))
    return expand("results/others/{name}/{file}", name=names, file=["report.pdf", "explore.html"])


def folder_of(wildcards):
    """The folder of a data set: collected ones are local, published ones are in the repository."""
    dataset = wildcards.dataset
    if dataset.startswith("published/"):
        return ROOT / "reports" / dataset
    return "results/local" if dataset == "local" else f"results/local/{dataset}"


def beside(wildcards):
    """The folders of the published data sets, but for this one: their cards may be other ones.

    A run without a GPU has no card to hold against them.
    """
    if DEVICE == "cpu" and not wildcards.dataset.startswith("published/"):
        return []
    own = Path(folder_of(wildcards))
    folders = [ROOT / "reports" / name for name in published()]
    return [folder for folder in folders if folder != own]


def tables_beside(wildcards):
    """The tables of those data sets."""
    names = [*DATA_SET, "ceilings.csv"]
    files = [folder / name for folder in beside(wildcards) for name in names]
    return list(filter(os.path.exists, files))


def data_of(wildcards):
    """The tables of a data set; an old published one may lack the ceilings."""
    files = [f"{folder_of(wildcards)}/{name}" for name in (*DATA_SET, "ceilings.csv")]
    published = wildcards.dataset.startswith("published/")
    return list(filter(os.path.exists, files)) if published else files


def evidence_of(wildcards):
    """The tables of machine code and of counters: this run's, or published ones if they are there."""
    files = [f"{folder_of(wildcards)}/{name}.csv" for name in ("instructions", "counters")]
    return [file for file in files if wildcards.dataset == "local" or os.path.exists(file)]


def checks_of(wildcards):
    """The checks of the timing of a data set, if there are any."""
    files = [f"{folder_of(wildcards)}/{name}" for name in CHECKS]
    return list(filter(os.path.exists, files))
