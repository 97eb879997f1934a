"""The workflow's configuration: checked, and turned into what the rules need."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matmul.catalogue import Catalogue, Variant, load_catalogue
from matmul.device import NoDevice, architecture, driver
from matmul.errors import UserError
from matmul.schema import check
from matmul.shapes import OPERATIONS, parse_shape


def check_configuration(config: Mapping[str, Any], origins: Sequence[str]) -> Catalogue:
    """Check the merged configuration and load its catalogue.

    Raises UserError naming what was merged (`origins`), the key and the mistake.
    """
    origin = " + ".join(map(str, origins)) or "configuration"
    check(dict(config), "config", origin)
    for operation in OPERATIONS:
        check_sweep(config, operation, origin)
    catalogue = load_catalogue(Path(config["catalogue"]))
    for name in config["kernels"] if config["kernels"] != "all" else ():
        if name not in catalogue:
            raise UserError(
                f"{origin}: kernels: '{name}' is not in {config['catalogue']}; "
                f"it has {', '.join(catalogue)}"
            )
    return catalogue


def check_sweep(config: Mapping[str, Any], operation: str, origin: str) -> None:
    """The shapes of one operation are such, and its sampling can be. Raises UserError."""
    sweep = sweep_of(config, operation)
    for key in ("shapes", "verify_shapes"):
        for position, text in enumerate(sweep[key]):
            try:
                parse_shape(text, operation)
            except UserError as error:
                raise UserError(
                    f"{origin}: sweeps.{operation}.{key}[{position}]: {error}"
                ) from None
    if sweep["sampling"]["maximum"] < sweep["sampling"]["minimum"]:
        raise UserError(
            f"{origin}: sampling of {operation}: maximum is below minimum; "
            "raise it or lower minimum"
        )


def sweep_of(config: Mapping[str, Any], operation: str) -> dict[str, Any]:
    """Everything that decides how an operation is measured: its own keys over the common ones."""
    own = config["sweeps"][operation]
    merged = {key: config[key] | own.get(key, {}) for key in ("sampling", "limits")}
    return {"caches": config["caches"]} | own | merged


def chosen_variants(config: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Variant]:
    """The variants, by slug, of the chosen kernels whose operation has shapes to measure.

    Raises UserError where that leaves none.
    """
    wanted = catalogue if config["kernels"] == "all" else config["kernels"]
    chosen = {
        slug: variant
        for slug, variant in catalogue.variants.items()
        if variant.kernel.name in wanted and config["sweeps"][variant.kernel.operation]["shapes"]
    }
    if not chosen:
        raise UserError("nothing to measure: sweeps has no shapes for the operation of any kernel")
    return chosen


def resolve_device(config: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Where to measure (gpu or cpu), and the architectures to compile for.

    Raises UserError where the driver is older than the toolkit.

    With `device: gpu` and no GPU on this machine (a cluster's login node), the configured
    architectures are compiled for, and the jobs find their GPU where they run.
    """
    if config["device"] == "cpu":
        return "cpu", config["architectures"]
    try:
        return "gpu", [architecture()]
    except NoDevice:
        return ("gpu" if config["device"] == "gpu" else "cpu"), config["architectures"]


def gpu_identity() -> str:
    """The first GPU and its driver, as text: another one measures anew. Raises NoDevice."""
    drv = driver()
    device = drv.Device(0)
    return f"{device.name()} {device.pci_bus_id()} {drv.get_driver_version()}"
