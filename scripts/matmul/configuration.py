"""The workflow's configuration: checked, and turned into what the rules need."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matmul.catalogue import Catalogue, Variant, load_catalogue
from matmul.device import NoDevice, architecture, driver
from matmul.errors import UserError
from matmul.schema import check
from matmul.shapes import parse_shape


def check_configuration(config: Mapping[str, Any], origins: Sequence[str]) -> Catalogue:
    """Check the merged configuration and load its catalogue.

    Raises UserError naming what was merged (`origins`), the key and the mistake.
    """
    origin = " + ".join(map(str, origins)) or "configuration"
    check(dict(config), "config", origin)
    for key in ("shapes", "verify_shapes"):
        for position, text in enumerate(config[key]):
            try:
                parse_shape(text)
            except UserError as error:
                raise UserError(f"{origin}: {key}[{position}]: {error}") from None
    if config["sampling"]["maximum"] < config["sampling"]["minimum"]:
        raise UserError(f"{origin}: sampling: maximum is below minimum; raise it or lower minimum")
    catalogue = load_catalogue(Path(config["catalogue"]))
    for name in config["kernels"] if config["kernels"] != "all" else ():
        if name not in catalogue:
            raise UserError(
                f"{origin}: kernels: '{name}' is not in {config['catalogue']}; "
                f"it has {', '.join(catalogue)}"
            )
    return catalogue


def chosen_variants(config: Mapping[str, Any], catalogue: Catalogue) -> dict[str, Variant]:
    """The variants of the chosen kernels, by slug."""
    wanted = catalogue if config["kernels"] == "all" else config["kernels"]
    return {slug: v for slug, v in catalogue.variants.items() if v.kernel.name in wanted}


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
