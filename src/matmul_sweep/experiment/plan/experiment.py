"""What a run does: which variants are compiled, verified and measured, at which shapes and how.

The workflow and the programs of its steps ask here. The workflow writes the experiment into one
file before its jobs start, and every program reads that file, so that they agree.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matmul_sweep.build.binaries import digest, flags, recipe
from matmul_sweep.build.recipes import HOST
from matmul_sweep.catalogue.entries import Catalogue, Kind, Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.sweeps import sweep_of
from matmul_sweep.experiment.plan import configuration
from matmul_sweep.experiment.plan.settings import (
    CPU,
    GPU,
    Case,
    Limits,
    Sampling,
    Settings,
    place_of,
)
from matmul_sweep.operations import OPERATIONS, parse_shape
from matmul_sweep.operations.gemm import GEMM
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.files import read_json, write_json

if TYPE_CHECKING:
    from matmul_sweep.experiment.plan.keys import Configuration


@dataclass(frozen=True)
class Experiment:
    """A checked configuration and its catalogue; the device (gpu or cpu) and the architectures of
    this run, and whether its jobs are spread over machines."""

    configuration: "Configuration"
    catalogue: Catalogue
    device: str
    architectures: tuple[str, ...]
    spread: bool = False

    @cached_property
    def jobs(self) -> dict[str, dict[str, Variant]]:
        """The variants of each sweep, by slug."""
        return configuration.chosen_jobs(self.configuration, self.catalogue, self.device)

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """All variants that a sweep names, by slug."""
        return {slug: variant for own in self.jobs.values() for slug, variant in own.items()}

    @cached_property
    def sweeps(self) -> dict[str, dict[str, Any]]:
        """The whole settings of each sweep."""
        return {name: sweep_of(self.configuration, name) for name in self.jobs}

    def own_sweeps(self, variant: Variant) -> list[dict[str, Any]]:
        """The settings of every sweep that measures a variant."""
        return [self.sweeps[name] for name, own in self.jobs.items() if variant.slug in own]

    @property
    def everything(self) -> bool:
        """Whether variants that only a dispatch names are compiled and verified."""
        return self.device == GPU or self.configuration["verify"] == "all"

    # ---- Compiling ----

    @cached_property
    def binaries(self) -> dict[tuple[str, str], list[Variant]]:
        """The variants to compile, by folder (an architecture, or host for C) and kernel."""
        found: dict[tuple[str, str], dict[str, Variant]] = {}
        for variant in self.variants.values():
            for folder in self.folders(variant):
                for part in self.parts(variant, folder):
                    found.setdefault((folder, part.kernel.name), {})[part.slug] = part
        return {key: list(own.values()) for key, own in found.items()}

    def folders(self, variant: Variant) -> Sequence[str]:
        """The folders of a variant's binaries."""
        own = {Kind.LIBRARY: (), Kind.C: (HOST,)}
        return own.get(variant.kernel.kind, self.architectures)

    def parts(self, variant: Variant, arch: str | None) -> list[Variant]:
        """The variants that run for one: itself or, of a dispatch, those that it chooses at the
        shapes of its sweeps. Without a GPU they are none, unless everything is verified."""
        if variant.kernel.kind is not Kind.DISPATCH:
            return [variant]
        return variant.parts(arch, self.dispatched_shapes(variant)) if self.everything else []

    def dispatched_shapes(self, variant: Variant) -> list[Shape]:
        """The shapes at which a dispatch is measured. Without a GPU, those drawn at random would
        add variants that take seconds each."""
        return self.shapes_of(variant, drawn=self.device == GPU)

    def shapes_of(self, variant: Variant, drawn: bool) -> list[Shape]:
        """The shapes of the sweeps that measure a variant, with or without those drawn at
        random."""
        sweeps = [own for own in self.own_sweeps(variant) if drawn or not own["random"]]
        texts = dict.fromkeys(text for own in sweeps for text in own["shapes"])
        return [parse_shape(text, variant.kernel.operation) for text in texts]

    def build_identity(self, folder: str, kernel: str) -> str:
        """What determines the binaries of a kernel, besides compiler and sources."""
        own = self.binaries[folder, kernel]
        entry = self.catalogue[kernel]
        settings = {variant.slug: flags(variant, folder) for variant in own}
        return json.dumps([entry.functions, entry.since, settings])

    # ---- What the pages of the ladders show ----

    @cached_property
    def steps(self) -> list[Variant]:
        """The first variant of each CUDA kernel that is a step of a ladder."""
        steps = [k.variants[0] for k in self.catalogue.values() if k.kind is Kind.CUDA and k.adds]
        return [variant for variant in steps if variant.slug in self.variants]

    @cached_property
    def shown(self) -> list[Variant]:
        """All variants of the steps, and the dispatches."""
        own = [v for v in self.variants.values() if v.kernel.hand_written]
        return [v for v in own if v.kernel.adds or v.kernel.kind is Kind.DISPATCH]

    @property
    def taken_apart(self) -> list[tuple[str, Variant]]:
        """The binaries whose machine code is read, by architecture: the steps' and, where there is
        a GPU, those that the dispatches choose at the largest two squares of their sweeps, of which
        one compares the kernels."""
        shown = self.shown if self.device == GPU else self.steps
        found: dict[tuple[str, Variant], None] = {}
        for variant in shown:
            squares = [s for s in self.shapes_of(variant, drawn=False) if s.square]
            largest = sorted(squares, key=lambda shape: shape.operations)[-2:]
            for arch in self.architectures:
                found |= dict.fromkeys((arch, part) for part in variant.parts(arch, largest))
        return list(found)

    @property
    def counted(self) -> list[Variant]:
        """The steps of A·B in float32 that a classroom takes, whose loads are counted without a
        GPU."""
        steps = [v for v in self.steps if v.kernel.operation == GEMM.name]
        return [variant for variant in steps if variant.kernel.classroom]

    # ---- Verifying ----

    @cached_property
    def operations(self) -> dict[str, list[Variant]]:
        """The variants to verify, by operation."""
        return {
            name: own
            for name in OPERATIONS
            if (own := [v for v in self.variants.values() if v.kernel.operation == name])
        }

    def verify_shapes(self, variant: Variant) -> list[Shape]:
        """The shapes from its sweeps at which a variant is verified, besides the built-in ones."""
        texts = (text for own in self.own_sweeps(variant) for text in own["verify_shapes"])
        return [parse_shape(text, variant.kernel.operation) for text in dict.fromkeys(texts)]

    def verifying_identity(self, operation: str) -> str:
        """What determines the verification of an operation, besides sources and machine."""
        run = self.configuration
        found = [run["fills"][0], run["seed"], run["limits"]["hang_seconds"], run["verify"]]
        for variant in self.operations[operation]:
            shapes = [str(shape) for shape in self.verify_shapes(variant)]
            if variant.kernel.kind is Kind.DISPATCH:
                shapes += map(str, self.dispatched_shapes(variant))
            found.append([variant.name, variant.parameters, variant.launch_identity, shapes])
        return json.dumps(found, default=str)

    # ---- Measuring ----

    def measurable(self, variant: Variant) -> bool:
        """Whether a variant can be timed on this run's device."""
        return place_of(variant.kernel, self.device) in (GPU, CPU)

    @cached_property
    def measured(self) -> dict[tuple[str, str], list[Variant]]:
        """The variants that a job measures, by sweep and part: a kernel, or on one machine all that
        run on its GPU, which saves a start of the driver for each. What is timed alone is compared
        with all others of its sweep, on one card."""
        found: dict[tuple[str, str], list[Variant]] = {}
        for sweep, own in self.jobs.items():
            for variant in filter(self.measurable, own.values()):
                together = variant.kernel.on_gpu and (self.is_alone(sweep) or not self.spread)
                part = GPU if together else variant.kernel.name
                found.setdefault((sweep, part), []).append(variant)
        return found

    @cached_property
    def unmeasured(self) -> list[tuple[str, Variant]]:
        """The sweeps and variants for which this run has no device."""
        return [
            (sweep, variant)
            for sweep, own in self.jobs.items()
            for variant in own.values()
            if not self.measurable(variant)
        ]

    def is_alone(self, sweep: str) -> bool:
        """Whether its variants are timed alone."""
        return self.sweeps[sweep]["caches"] == ["alone"]

    def cases(self, sweep: str) -> list[Case]:
        """Every combination of shape, fill and mode of a sweep, small shapes first."""
        own = self.sweeps[sweep]
        return [
            Case(shape, fill, mode)
            for shape in sorted(configuration.shapes_of(own), key=lambda shape: shape.operations)
            for fill in own["fills"]
            for mode in own["modes"]
        ]

    def spared(self, sweep: str, variant: Variant) -> set[Shape]:
        """The shapes of a sweep at which a variant is not measured."""
        return configuration.spared(self.sweeps[sweep], variant.kernel.on_gpu)

    def settings(self, sweep: str, variant: Variant) -> Settings:
        """How the points of a variant in a sweep are measured."""
        own, on_gpu = self.sweeps[sweep], variant.kernel.on_gpu
        copied = configuration.named(variant, own["copies"])
        return Settings(
            seed=self.configuration["seed"],
            caches=tuple(configuration.caches_of(variant, own)),
            sampling=Sampling.of(own["sampling"], on_gpu, copied),
            limits=Limits.of(own["limits"], on_gpu),
        )

    def measuring_identity(self, sweep: str, part: str) -> str:
        """What determines the points of a job, besides machine, programs and sources."""
        found = []
        for variant in self.measured[sweep, part]:
            settings = asdict(self.settings(sweep, variant))
            found.append([variant.name, digest(variant), variant.launch_identity, settings])
        cases = [str(case) for case in self.cases(sweep)]
        spared = [str(shape) for shape in sorted(self.spared(sweep, variant), key=str)]
        return json.dumps([found, cases, spared])

    # ---- The file ----

    def write(self, path: Path) -> None:
        """Write what `read_experiment` reads, and how each binary is made."""
        names = ("configuration", "device", "architectures", "spread")
        recipes: dict[str, dict[str, Any]] = {}
        for (arch, kernel), own in self.binaries.items():
            made = [asdict(recipe(variant, arch)) for variant in own]
            recipes.setdefault(arch, {})[kernel] = made
        write_json({name: getattr(self, name) for name in names} | {"recipes": recipes}, path)


def read_experiment(path: Path) -> Experiment:
    """The experiment in a file. Raises UserError for a missing or damaged file."""
    content = read_json(path)
    del content["recipes"]  # for programs that read no catalogue
    catalogue = load_catalogue(Path(content["configuration"]["catalogue"]))
    return Experiment(**content | {"catalogue": catalogue})
