"""What the rules of the workflow ask: the run that they serve, the inputs and the resources of its
jobs, and what is said at its beginning and its end.

A rule's input function takes the rule's wildcards. Paths are relative to the working directory, so
that a clone that moves runs nothing again.
"""

import os
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from snakemake.utils import update_config

from matmul_sweep.build import toolchain
from matmul_sweep.catalogue.entries import Variant
from matmul_sweep.catalogue.sources import source_files
from matmul_sweep.classroom import results as mistakes
from matmul_sweep.classroom.cuda_on_cpu import emulation
from matmul_sweep.experiment.dataset.provenance import COMMIT_VARIABLE, commit, named_commit
from matmul_sweep.experiment.dataset.tables import CHECKS, DATA_SET
from matmul_sweep.experiment.plan import cluster, configuration
from matmul_sweep.experiment.plan.experiment import Experiment
from matmul_sweep.experiment.plan.settings import CPU, GPU
from matmul_sweep.launch.device import driver_version, gpus
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.process import lock, written
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json, write_json
from matmul_sweep.process.programs import program_files
from matmul_sweep.process.yaml_files import read_yaml

if TYPE_CHECKING:
    from matmul_sweep.experiment.plan.keys import Configuration

LOCAL = Path("results/local")
BUILD = LOCAL / "build"
VERDICT = LOCAL / "verdict.txt"
WRITTEN = Path("results/.written.json")  # the sizes of the outputs of finished jobs
CEILINGS = "ceilings.csv"
# Rules whose jobs need a GPU, unless the CPU is measured.
ON_GPU = {"verify_operation", "measure_part", "measure_ceilings", "count"}
UNPUBLISHABLE = (
    "note: files differ from the last commit, or git knows none here: nobody could repeat what the "
    f"run measures, and `publish` will refuse it; commit first, or set {COMMIT_VARIABLE}"
)
# Rules that leave a verdict as it is, if they alone run after it.
AFTER_VERDICT = {"pass_verdict", "all", "check", "publish"}


def named(files: Iterable[Path]) -> list[str]:
    """Files of the project by their paths from here."""
    return [os.path.relpath(file) for file in files]


def there(files: Iterable[Path]) -> list[Path]:
    """Those of the files that exist."""
    return [file for file in files if file.exists()]


def written_sizes() -> dict[str, written.Sizes]:
    """What a run before this one wrote down; nothing if that is lost."""
    with suppress(UserError):
        return cast("dict[str, written.Sizes]", read_json(WRITTEN))
    return {}


class Run:
    """One call of Snakemake: its workflow object, its configuration, and the folder of the project.
    A user's mistake ends the process with one line."""

    def __init__(self, workflow: Any, config: dict[str, Any], root: Path) -> None:
        update_config(config, configuration.with_numbers(workflow.config_settings.config))
        self.config = cast("Configuration", config)
        self.workflow, self.root, self.begun = workflow, root, time.time()
        # Taken before the jobs are chosen, so that the choice sees what the run before this left.
        self.locked_out = lock.refusal(Path("results/.lock")) if workflow.is_main_process else None
        if workflow.is_main_process and not (self.locked_out or workflow.output_settings.dryrun):
            self.clear_what_is_cut()
        try:
            self.experiment, self.compiler = self.settled()
        except UserError as error:
            sys.exit(f"error: {error}")
        self.device = self.experiment.device
        self.machine = self.machine_identity()

    def settled(self) -> tuple[Experiment, str]:
        """The experiment and the CUDA compiler. Raises UserError."""
        files = self.workflow.configfiles
        for file in files:
            read_yaml(Path(file))  # refuses a repeated key; Snakemake's reader takes the last value
        origins = [*files, *(["--config"] if self.workflow.config_settings.config else [])]
        catalogue = configuration.check_configuration(self.config, origins)
        compiler = toolchain.version(*toolchain.cuda())
        device, architectures = self.where_to_measure()
        toolchain.check_architectures(architectures)
        experiment = Experiment(
            self.config, catalogue, device, tuple(architectures), self.sent_off()
        )
        experiment.jobs  # noqa: B018 - refuses a run that measures nothing
        return experiment, compiler

    def sent_off(self) -> bool:
        """Whether jobs run on other machines and find their GPU there.

        The scope of the resource gpu says so. Snakemake passes it on, so a job, a dry run and a
        summary see what the run sees.
        """
        return self.workflow.resource_scopes.is_local("gpu")

    def where_to_measure(self) -> tuple[str, list[str]]:
        """gpu or cpu, and the architectures to compile for. Raises UserError if CPU results would
        replace those of an earlier run on a GPU."""
        wanted = self.config["device"]
        if self.sent_off() and wanted != CPU:
            return GPU, self.config["architectures"]
        device, architectures = configuration.resolve_device(self.config)
        jobs = map(read_json, (LOCAL / "measured").glob("*/*/*/facts.json"))
        measured_on = (job["gpu"] for job in jobs if job.get("gpu"))
        if (wanted, device) == ("auto", CPU) and (gpu := next(measured_on, None)):
            raise UserError(
                f"results/local was measured on {gpu}, there is no GPU here, and a run would "
                "replace it: on a cluster use --workflow-profile profiles/slurm, else --config "
                "device=cpu"
            )
        return device, architectures

    def machine_identity(self) -> str:
        """The GPU models and the driver that this machine measures on, as text, so that jobs run
        again if they change; empty if jobs run on others."""
        if self.device != GPU or self.sent_off():
            return ""
        try:
            return f"{', '.join(sorted({gpu.name for gpu in gpus()}))} {driver_version()}"
        except NoDevice:
            return ""

    # ---- The beginning and the end ----

    def clear_what_is_cut(self) -> None:
        """Remove outputs of which a part is gone, so that Snakemake makes them again."""
        for output in written.cut(written_sizes()):
            print(f"{output}: a part of it is gone; it is made again", file=sys.stderr)
            shutil.rmtree(output) if output.is_dir() else output.unlink()

    def note_what_is_written(self) -> None:
        """Write down the sizes of what is finished, and nothing of what is still to be made."""
        dag, known = self.workflow.dag, written_sizes()
        waiting = {*dag.needrun_jobs()}
        for job in dag.jobs:
            for output in map(str, job.output):
                known.pop(output, None)
                if job not in waiting and os.path.exists(output):
                    known[output] = written.sizes(Path(output))
        write_json(known, WRITTEN)

    def begin(self, experiment_file: str) -> None:
        """Check the run, and write its experiment for the programs of its jobs."""
        if self.locked_out:
            sys.exit(f"error: {self.locked_out}")
        try:
            self.check({job.rule.name for job in self.workflow.dag.needrun_jobs()})
            self.note_what_is_written()
            self.experiment.write(Path(experiment_file))
        except UserError as error:
            sys.exit(f"error: {error}")

    def check(self, rules: set[str]) -> None:
        """Raise UserError if jobs of these rules miss their GPU, lose results or never end; say
        now what would keep a set of theirs from being published."""
        if rules & ON_GPU:
            named_commit()  # refuses what is none
        if rules & ON_GPU and self.device == GPU:
            if commit()["dirty"]:
                print(UNPUBLISHABLE, file=sys.stderr)
            if not self.sent_off():
                configuration.check_gpu()
        if self.device == CPU and "compare" in rules:
            raise UserError(
                "compare: there is no GPU here, and the published data sets were measured on GPUs; "
                "run it where there is one, or leave it out"
            )
        if self.workflow.non_local_exec and not self.sent_off():
            raise UserError(
                "jobs are sent to other machines, but GPUs are counted on this one: use "
                "--workflow-profile profiles/slurm, or --set-resource-scopes gpu=local timing=local"
            )
        if hasattr(self.workflow.executor_settings, "array_jobs"):
            cluster.check_slurm(self.workflow.executor_settings, self.workflow.workdir_init)

    def end(self) -> None:
        """Write down what was made, and tell the verdict."""
        with suppress(UserError):  # of a full disk; then nothing is known of these outputs
            self.note_what_is_written()
        self.tell_verdict()

    def tell_verdict(self) -> None:
        """Print the verdict that this run wrote as its last words; a failed one ends the run."""
        rest = {job.rule.name for job in self.workflow.dag.needrun_jobs()}
        spoken = "pass_verdict" in rest and rest <= AFTER_VERDICT
        if not VERDICT.exists() or not (spoken or VERDICT.stat().st_mtime >= self.begun):
            return
        text = VERDICT.read_text().strip()
        if text.startswith("failed"):
            sys.exit(text)
        print(text, file=sys.stderr)

    def tell_interruption(self, logs: Iterable[str]) -> None:
        """After a Ctrl-C, which Snakemake notes in its log, say what to do next."""
        if any("Terminating processes on user request" in Path(log).read_text() for log in logs):
            sys.exit("interrupted: the same command continues where this one stopped")

    # ---- Programs and binaries ----

    @cache  # noqa: B019 - there is one run
    def program(self, name: str) -> list[str]:
        """The script of a step and the modules that it imports."""
        [script] = (self.root / "scripts").rglob(f"{name}.py")
        return named(program_files(script))

    def sources(self, wildcards: Any) -> list[Path]:
        """The source of a kernel and the headers that it includes."""
        return source_files(self.experiment.catalogue[wildcards.kernel].code)

    def build_identity(self, wildcards: Any) -> str:
        """Everything that determines the binaries of a kernel, except its sources."""
        return f"{self.compiler} {self.experiment.build_identity(wildcards.arch, wildcards.kernel)}"

    def built(self, variants: Iterable[Variant]) -> list[Path]:
        """The folders of the binaries that variants need."""
        return sorted(
            {
                BUILD / folder / part.kernel.name
                for variant in variants
                for folder in self.experiment.folders(variant)
                for part in self.experiment.parts(variant, folder)
            }
        )

    def tools(self, *names: str) -> list[Path]:
        """The binaries of the tools that measure on a GPU; none where there is no GPU."""
        folders = self.experiment.architectures if self.device == GPU else ()
        return [BUILD / arch / f"{name}.cubin" for arch in folders for name in names]

    def runnable(self, variants: Sequence[Variant]) -> list[Path]:
        """What variants need to run: their binaries, and on a GPU the instruments."""
        on_gpu = any(variant.kernel.on_gpu for variant in variants)
        return [*self.built(variants), *(self.tools("instruments") if on_gpu else [])]

    def verifiable(self, wildcards: Any) -> list[Any]:
        """What the verification of an operation reads: binaries, or sources that run on the CPU."""
        variants = self.experiment.operations[wildcards.operation]
        if self.device == GPU:
            return list(self.runnable(variants))
        written = [variant for variant in variants if variant.kernel.hand_written]
        parts = [part for variant in written for part in self.experiment.parts(variant, None)]
        files = dict.fromkeys(file for part in parts for file in source_files(part.kernel.code))
        own = [variant for variant in variants if not variant.kernel.on_gpu]
        return [*files, *(named(emulation.runtime()) if parts else []), *self.built(own)]

    def counted(self) -> list[Any]:
        """What counting loads reads."""
        files = (f for v in self.experiment.counted for f in source_files(v.kernel.code))
        return [*files, *named(emulation.runtime())]

    # ---- Measuring ----

    def to_measure(self, wildcards: Any) -> list[Path]:
        """What a measuring job needs to run."""
        return self.runnable(self.experiment.measured[wildcards.sweep, wildcards.part])

    def gpus(self, wildcards: Any) -> int:
        """The number of GPUs that a job takes: of a timing job, or one that measures the card."""
        own = self.experiment.measured.get((wildcards.get("sweep"), wildcards.get("part")))
        return int(self.device == GPU and (own is None or own[0].kernel.on_gpu))

    def undisturbed_cores(self, wildcards: Any) -> int:
        """All cores of this run, so that nothing runs beside a timing job.

        With several GPUs, a GPU job takes its share of the cores. On a cluster the profile decides.
        """
        cores = 1 if self.sent_off() else self.workflow.resource_settings.cores or 1
        taken = self.gpus(wildcards)
        beside = self.workflow.global_resources.get("gpu").value if taken else 1
        return max(1, cores // (beside or 1))

    def measured(self) -> list[Path]:
        """What measuring jobs write: a folder each, and on a GPU the ceilings."""
        folders = [LOCAL / "measured" / sweep / part for sweep, part in self.experiment.measured]
        return [*folders, *([LOCAL / "measured" / CEILINGS] if self.device == GPU else [])]

    # ---- Data sets ----

    def collected(self) -> list[Path]:
        """The tables of this run's data set."""
        return [LOCAL / name for name in [*DATA_SET, *([CEILINGS] if self.device == GPU else [])]]

    def local_set(self) -> list[Path]:
        """What the site reads of this run's data set; nothing as long as there is none."""
        if not (LOCAL / "device.json").exists():
            return []
        counted = "counters.csv" if self.device == GPU else "loads.csv"
        return [*self.collected(), LOCAL / "instructions.csv", LOCAL / counted]

    @cached_property
    def mistakes_shown(self) -> str:
        """The folder of the gallery of mistakes: the repository's, if it is of today's sources."""
        [committed] = named([mistakes.COMMITTED])
        return committed if mistakes.current() else "results/mistakes/gallery"

    def published(self) -> list[Path]:
        """The folders of the published data sets; of a whole one device.json is there."""
        files = (self.root / "reports" / "published").glob("*/device.json")
        return sorted(file.parent for file in files)

    def published_tables(self) -> list[Path]:
        return [folder / name for folder in self.published() for name in DATA_SET]

    def reported(self) -> list[str]:
        """The data sets that a run reports: its own and, if asked for, the published ones."""
        rebuilt = self.published() if self.config["published"] == "rebuild" else []
        return ["local", *(f"published/{folder.name}" for folder in rebuilt)]

    def folder(self, wildcards: Any) -> Path:
        """The folder of a data set: this run's, or a published one in the repository."""
        dataset = wildcards.dataset
        return LOCAL if dataset == "local" else self.root / "reports" / dataset

    def beside(self, wildcards: Any) -> list[Path]:
        """The folders of the published data sets, but for this one: their cards may be others."""
        own = self.folder(wildcards)
        return [folder for folder in self.published() if folder != own]

    def tables_beside(self, wildcards: Any) -> list[Path]:
        """The tables of those data sets."""
        names = [*DATA_SET, CEILINGS]
        return there(folder / name for folder in self.beside(wildcards) for name in names)

    def data(self, wildcards: Any) -> list[Path]:
        """The tables of a data set; one without a GPU has no ceilings."""
        if wildcards.dataset == "local":
            return self.collected()
        return there(self.folder(wildcards) / name for name in [*DATA_SET, CEILINGS])

    def evidence(self, wildcards: Any) -> list[Path]:
        """The tables of what holds kernels back: this run's, or published ones if there are any."""
        if wildcards.dataset == "local":
            counted = "counters" if self.device == GPU else "loads"
            return [LOCAL / f"{name}.csv" for name in ("instructions", counted)]
        return there(self.folder(wildcards) / name for name in ("instructions.csv", "counters.csv"))

    def checks(self, wildcards: Any) -> list[Path]:
        """The checks of the timing of a data set, if there are any."""
        return there(self.folder(wildcards) / name for name in CHECKS)
