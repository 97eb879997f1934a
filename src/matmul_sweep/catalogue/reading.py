"""Read a catalogue and check it."""

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from matmul_sweep.catalogue.checks import check_kernel
from matmul_sweep.catalogue.entries import Catalogue, Kernel
from matmul_sweep.catalogue.keys import Entry, Name, OwnLaunch, OwnLayout, OwnMap
from matmul_sweep.catalogue.tables import read_table, searched
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.models import checked
from matmul_sweep.process.project import DEFAULT_CATALOGUE
from matmul_sweep.process.yaml_files import read_yaml

CHECKED = "MATMUL_SWEEP_CHECKED"  # variable: the digest of the catalogue that the workflow checked


def read_catalogue(path: Path = DEFAULT_CATALOGUE) -> Catalogue:
    """Read a catalogue and, unless the process that started this one has done so, check it. Its
    dispatches do not choose yet: dispatch.catalogue.load_catalogue makes them.

    Raises UserError naming the file, the entry and the mistake.
    """
    entries = read_yaml(path)
    if not was_checked(path):
        checked(dict[Name, Entry], entries, path)
    catalogue = Catalogue(
        {name: kernel_of(name, entry, path.parent) for name, entry in entries.items()}
    )
    for name, kernel in catalogue.items():
        if kernel.dispatch:
            with naming(path, name):
                catalogue.tables[name] = read_table(kernel.dispatch)
    with naming(path):
        found = searched(catalogue.tables, catalogue)
    for name, tilings in found.items():
        catalogue[name] = replace(catalogue[name], searched=tilings)
    if not was_checked(path):
        for name, kernel in catalogue.items():
            with naming(path, name):
                check_kernel(kernel)
    return catalogue


@contextlib.contextmanager
def naming(*where: Path | str) -> Iterator[None]:
    """Names the file and the entry in a mistake."""
    try:
        yield
    except UserError as error:
        raise UserError(": ".join([*map(str, where), str(error)])) from None


def was_checked(path: Path) -> bool:
    """Whether the process that started this one has checked the catalogue as it is now."""
    return os.environ.get(CHECKED) == catalogue_digest(path)


def catalogue_digest(path: Path) -> str:
    """SHA-256 of a catalogue and of the tables below its folder; of none if they cannot be read."""
    try:
        files = [path, *sorted(path.parent.rglob("*.csv"))]
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()
    except OSError:
        return "unreadable"


def kernel_of(name: str, entry: Mapping[str, Any], folder: Path) -> Kernel:
    """An entry, with the paths of its files relative to the catalogue's folder."""
    keys = {key: as_tuple(value) for key, value in entry.items()}
    own: dict[str, Any] = {"title": name, "function": name} | keys
    own |= {key: folder / keys[key] for key in ("source", "dispatch") if key in keys}
    # YAML takes 32 for a number.
    own["tilings"] = {str(tiling): values for tiling, values in own.get("tilings", {}).items()}
    for key in ("before", "after"):
        own[key] = tuple(OwnLaunch(**each) for each in own.get(key, ()))
    maps = own.get("tensor_maps", {})
    own["tensor_maps"] = {key: OwnMap(**each) for key, each in maps.items()}
    own["layout"] = OwnLayout(**own["layout"]) if "layout" in own else None
    return Kernel(name=name, **own)


def as_tuple(value: Any) -> Any:
    """A value of YAML with tuples in place of lists, so that a kernel can be hashed."""
    if isinstance(value, list):
        return tuple(map(as_tuple, value))
    return {k: as_tuple(v) for k, v in value.items()} if isinstance(value, dict) else value
