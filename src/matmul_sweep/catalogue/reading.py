"""Read a catalogue and check it."""

from dataclasses import replace
from pathlib import Path

from matmul_sweep.catalogue.checks import check_kernel
from matmul_sweep.catalogue.entries import Catalogue, Kernel
from matmul_sweep.catalogue.keys import Entry, Name
from matmul_sweep.catalogue.tables import Searched, add_tilings
from matmul_sweep.process.errors import naming
from matmul_sweep.process.models import checked
from matmul_sweep.process.yaml_files import read_yaml


def read_catalogue(path: Path) -> Catalogue:
    """Read a catalogue and check it. Its dispatches do not choose yet:
    dispatch.catalogue.load_catalogue makes them.

    Raises UserError naming the file, the entry and the mistake.
    """
    entries = checked(dict[Name, Entry], read_yaml(path), path)
    catalogue = Catalogue(
        {name: kernel_of(name, own, path.parent) for name, own in entries.items()}
    )
    searched: Searched = {}
    for name, kernel in catalogue.items():
        with naming(path, name):
            add_tilings(searched, kernel, catalogue)
    for name, tilings in searched.items():
        catalogue[name] = replace(catalogue[name], searched=tilings)
    for name, kernel in catalogue.items():
        with naming(path, name):
            check_kernel(kernel)
    return catalogue


def kernel_of(name: str, entry: Entry, folder: Path) -> Kernel:
    """An entry, with the paths of its files relative to the catalogue's folder."""
    own = vars(entry) | {key: getattr(entry, key) or name for key in ("title", "function")}
    own |= {key: folder / own[key] for key in ("source", "dispatch") if own[key]}
    # YAML takes 32 for a number.
    own["tilings"] = {str(tiling): values for tiling, values in entry.tilings.items()}
    return Kernel(name=name, **own)
