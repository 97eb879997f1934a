"""The configuration of the workflow: checked, and prepared for the rules."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matmul_sweep.catalogue.entries import Catalogue, Variant
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.sweeps import sweep_of, takes_place
from matmul_sweep.launch.device import gpus
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.operations import parse_shape
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError, naming
from matmul_sweep.process.models import checked, one_of
from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

if TYPE_CHECKING:
    from matmul_sweep.experiment.plan.keys import Configuration


def check_configuration(config: Mapping[str, Any], origins: Sequence[str]) -> Catalogue:
    """Check the merged configuration and load its catalogue.

    Raises UserError that names the sources (`origins`), the key and the mistake.
    """
    origin = " + ".join(map(str, origins)) or "configuration"
    from matmul_sweep.experiment.plan import keys  # here, because jobs check nothing again

    checked(keys.Configuration, dict(config), origin)
    for section, known in {"sampling": keys.Sampling, "limits": keys.Limits}.items():
        if missing := known.__annotations__.keys() - config[section].keys() - {"cpu_seconds"}:
            raise UserError(f"{origin}: {section}: '{min(missing)}' is missing")
    catalogue = load_catalogue(Path(config["catalogue"]))
    documents = read_yaml(ROOT / "reports" / "documents.yaml")
    for kernel in catalogue.values():
        for name in kernel.documents:
            one_of(f"{config['catalogue']}: {kernel.name}: documents", name, documents)
    check_kernels(config["kernels"], catalogue, f"{origin}: kernels", None)
    for name in config["sweeps"]:
        where = f"{origin}: sweeps.{name}"
        with naming(f"{where}.shapes"):
            sweep = sweep_of(config, name)
        check_sweep(sweep, catalogue, where)
    return catalogue


def with_numbers(given: Any) -> Any:
    """What --config gives, with its numbers and truth values: inside mappings and lists Snakemake
    leaves them as texts."""
    if isinstance(given, Mapping):
        return {key: with_numbers(value) for key, value in given.items()}
    if isinstance(given, list):
        return [with_numbers(value) for value in given]
    for read in (int, float, {"true": True, "false": False}.__getitem__):
        with suppress(ValueError, KeyError):
            return read(given) if isinstance(given, str) else given
    return given


def check_kernels(
    kernels: str | Sequence[str], catalogue: Catalogue, where: str, operation: str | None
) -> None:
    """Check that names are kernels or variants in the catalogue, and of `operation` if given.

    Raises UserError.
    """
    possible = [k.name for k in catalogue.values() if operation in (None, k.operation)]
    for name in kernels if kernels != "all" else ():
        with naming(where):
            variant = catalogue.variant(name)
        if variant.kernel.name not in possible:
            raise UserError(
                f"{where}: '{name}' does not compute {operation}; {', '.join(possible)} do"
            )
        if name not in (variant.name, variant.kernel.name):
            raise UserError(f"{where}: '{name}' is how files are named; write {variant.name}")


def check_sweep(sweep: Mapping[str, Any], catalogue: Catalogue, where: str) -> None:
    """Check shapes, kernels, sampling and limits of a sweep. Raises UserError."""
    operation = sweep["operation"]
    for key in ("shapes", "cpu_without", "verify_shapes"):
        for position, text in enumerate(sweep[key]):
            with naming(f"{where}.{key}[{position}]"):
                parse_shape(text, operation)
    for key in ("kernels", "copies", "cold"):
        check_kernels(sweep[key], catalogue, f"{where}.{key}", operation)
    if sweep["sampling"]["maximum"] < sweep["sampling"]["minimum"]:
        raise UserError(f"{where}: sampling: maximum is below minimum; raise it or lower minimum")
    if "rotated" in sweep["caches"]:
        raise UserError(f"{where}: caches: 'rotated' is of earlier versions; take it out")
    if sweep["caches"] == ["cold"] and sweep["cold"] != "all":
        said = "other kernels would have no cache; add hot to caches"
        raise UserError(f"{where}: cold: {said}")
    if "alone" in sweep["caches"] and len(sweep["caches"]) > 1:
        said = "what is timed alone has a sweep of its own; take alone out, or the others"
        raise UserError(f"{where}: caches: {said}")
    limits = sweep["limits"]
    for key in ("gpu_seconds", "cpu_seconds"):
        if limits["hang_seconds"] < limits[key]:
            raise UserError(
                f"{where}: limits: hang_seconds: {limits['hang_seconds']} is below the {key} of "
                f"this sweep, {limits[key]}; raise it, or lower {key} there"
            )


def named(variant: Variant, kernels: str | Sequence[str]) -> bool:
    """Whether `kernels` ("all", or names of kernels and variants) includes the variant."""
    return kernels == "all" or bool({variant.kernel.name, variant.name} & {*kernels})


def caches_of(variant: Variant, sweep: Mapping[str, Any]) -> list[str]:
    """The cache states in which a sweep times a variant."""
    if sweep["caches"] == ["alone"]:
        return ["alone"] if variant.kernel.on_gpu else []
    cold = named(variant, sweep["cold"])
    return [c for c in sweep["caches"] if cold or c != "cold"] if not variant.kernel.tuned else []


def shapes_of(sweep: Mapping[str, Any], key: str = "shapes") -> set[Shape]:
    """The shapes that a key of a sweep lists."""
    return {parse_shape(text, sweep["operation"]) for text in sweep[key]}


def spared(sweep: Mapping[str, Any], on_gpu: bool) -> set[Shape]:
    """The shapes of a sweep at which a kernel is not measured: on the CPU, `cpu_without`."""
    return set() if on_gpu else shapes_of(sweep) & shapes_of(sweep, "cpu_without")


def chosen_jobs(
    config: "Configuration", catalogue: Catalogue, device: str
) -> dict[str, dict[str, Variant]]:
    """The variants that each sweep measures on a device (gpu or cpu), by slug. Sweeps that measure
    nothing there are left out.

    Raises UserError if there is nothing to measure.
    """

    def wanted(variant: Variant, lists: Sequence[str | Sequence[str]]) -> bool:
        asked_for = any(variant.name in names for names in lists if names != "all")
        return (variant.measured or asked_for) and all(named(variant, names) for names in lists)

    chosen = {}
    for name in config["sweeps"]:
        sweep = sweep_of(config, name)
        lists = [config["kernels"], sweep["kernels"]]
        if takes_place(sweep, device == "gpu"):
            some_on_cpu = shapes_of(sweep) != spared(sweep, on_gpu=False)
            chosen[name] = {
                slug: variant
                for slug, variant in catalogue.buildable.items()
                if variant.kernel.operation == sweep["operation"]
                and wanted(variant, lists)
                and caches_of(variant, sweep)
                and (some_on_cpu or variant.kernel.on_gpu)
            }
    if not any(chosen.values()):
        raise UserError("nothing to measure: no sweep has shapes for the operation of any kernel")
    return chosen


def resolve_device(config: "Configuration") -> tuple[str, list[str]]:
    """Where to measure (gpu or cpu), and the architectures to compile for.

    Raises UserError if the driver is older than the toolkit.

    With `device: gpu` and no GPU on this machine (the login node of a cluster), kernels are
    compiled for the configured architectures, and the jobs find their GPU where they run.
    """
    if config["device"] == "cpu":
        return "cpu", config["architectures"]
    try:
        return "gpu", sorted({gpu.architecture for gpu in gpus()})
    except NoDevice:
        return ("gpu" if config["device"] == "gpu" else "cpu"), config["architectures"]


def check_gpu() -> None:
    """Raise UserError if `device: gpu` is set and this machine has no GPU."""
    try:
        gpus()
    except NoDevice as error:
        raise UserError(
            f"device: gpu: {error}; set device: auto, or on a login node use --workflow-profile "
            "profiles/slurm"
        ) from None
