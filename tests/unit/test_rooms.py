"""The floors of src/matmul_sweep, and the rooms of the library and of the experiment, stand one
above the other."""

from pathlib import Path

from support import ROOT

from matmul_sweep.process.programs import imported_directly, imported_names

PACKAGE = ROOT / "src" / "matmul_sweep"
# From the bottom up: each uses only those before it.
LIBRARY = ["process", "operations", "catalogue", "build", "launch", "dispatch", "api"]
EXPERIMENT = ["dataset", "plan", "verify", "check", "measure", "report"]
ROOMS = [*LIBRARY, "classroom", *(f"experiment.{room}" for room in EXPERIMENT)]
MODULES = sorted(file for file in PACKAGE.rglob("*.py") if file.parent != PACKAGE)


def room_of(file: Path) -> str:
    parts = file.relative_to(PACKAGE).parts
    return ".".join(parts[: 2 if parts[0] == "experiment" else 1])


def test_a_module_imports_from_its_own_room_and_those_below():
    upward = [
        (room_of(file), file.name, room_of(other), other.name)
        for file in MODULES
        for other in imported_directly(file, PACKAGE.parent)
        if other in MODULES
        and other.name != "__init__.py"
        and ROOMS.index(room_of(other)) > ROOMS.index(room_of(file))
    ]
    assert upward == []


def test_the_library_needs_none_of_the_experiments_packages():
    files = [file for file in MODULES if room_of(file) in LIBRARY]
    needed = {name.partition(".")[0] for file in files for name in imported_names(file)}
    assert needed.isdisjoint({"matplotlib", "pandas", "pycuda", "snakemake"})
