"""The rooms of scripts/matmul stand one above the other."""

from pathlib import Path

from support import ROOT

from matmul.process.programs import imported_directly

PACKAGE = ROOT / "scripts" / "matmul"
# From the bottom up: each uses only those before it.
ROOMS = ["process", "operations", "dataset", "catalogue", "build", "gpu", "cpu", "measure",
         "trial", "settings", "report"]  # fmt: skip
MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(file: Path) -> str:
    return file.relative_to(PACKAGE).parts[0]


def test_every_folder_is_a_room() -> None:
    assert {room_of(file) for file in MODULES} - {"__init__.py"} == set(ROOMS)


def test_a_module_imports_from_its_own_room_and_those_below() -> None:
    upward = [
        (file.name, other.name)
        for file in MODULES
        if file.parent != PACKAGE
        for other in imported_directly(file, PACKAGE.parent)
        if other.parent != PACKAGE and ROOMS.index(room_of(other)) > ROOMS.index(room_of(file))
    ]
    assert upward == []
