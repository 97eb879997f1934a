"""For maintainers: pin every package that the project needs exactly, in pyproject.toml.

This resolves the dependencies again, without the earlier pins, and writes uv's choice as [tool.uv]
constraint-dependencies. uv.lock itself stays out of the repository, because it records the
addresses that packages came from; closure.sha256 stands for the hashes of all files in it. --check
says whether a registry still offers these files, and no others of these versions.
"""

import environment  # noqa: F401

import hashlib
import re
import subprocess
from pathlib import Path

from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.project import ROOT

BLOCK = re.compile(r"^constraint-dependencies = \[.*?^\]$", re.MULTILINE | re.DOTALL)
# uv repeats [tool.uv] environments in every line, and mypy's packages name PyPy, on which PyCUDA
# does not run. Given the key environments, both are redundant.
EVERYWHERE = re.compile(
    r"( ;| and) platform_machine == 'x86_64'"
    r"( and platform_python_implementation != 'PyPy')? and sys_platform == 'linux'$"
)
PYPY = "implementation_name == 'pypy'"
EXPORT = ["export", "--all-groups", "--no-emit-project", "--no-header", "--no-annotate"]
FINGERPRINT = ROOT / "closure.sha256"
EXCLUSIVE = ("cuda12", "cuda13")  # groups of which an environment has one


def uv(*command: str) -> str:
    """Run uv in the project. Raises UserError with what it said."""
    done = subprocess.run(["uv", *command], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"uv {command[0]}: {done.stderr.strip()}")
    return done.stdout


def with_pins(project: str, pins: list[str]) -> str:
    """The text of pyproject.toml with `pins` as its constraints. Raises UserError without the
    key."""
    lines = "".join(f'    "{pin}",\n' for pin in pins)
    if not BLOCK.search(project):
        raise UserError("pyproject.toml: [tool.uv] has no constraint-dependencies to replace")
    return BLOCK.sub(lambda _: f"constraint-dependencies = [\n{lines}]", project)


def closure(*options: str) -> list[str]:
    """Every package of the closure, a line each, of one group after the other."""
    exported = [uv(*EXPORT, *options, "--no-group", group) for group in EXCLUSIVE]
    return [line for text in exported for line in text.splitlines()]


def fingerprint() -> str:
    """SHA-256 of the closure with the hashes of its files."""
    return hashlib.sha256("\n".join(closure()).encode()).hexdigest()


def pin(path: Path) -> int:
    """Resolve again and write the pins into `path`; restore its old text if uv fails."""
    before = path.read_text()
    try:
        path.write_text(with_pins(before, []))
        uv("lock", "--upgrade")
        lines = {line for line in closure("--no-hashes") if PYPY not in line}
        pins = sorted((EVERYWHERE.sub("", line) for line in lines), key=lambda pin: pin.split("=="))
        path.write_text(with_pins(before, pins))
    except UserError:
        path.write_text(before)
        raise
    return len(pins)


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--check", action="store_true", help="resolve, compare, and write nothing")
    if not parser.parse_args().check:
        print(f"pinned {pin(ROOT / 'pyproject.toml')} packages; `uv sync` installs them")
        FINGERPRINT.write_text(f"{fingerprint()}\n")
    elif fingerprint() != FINGERPRINT.read_text().strip():
        raise UserError(f"{FINGERPRINT.name}: the registry offers other files of these versions")


if __name__ == "__main__":
    main()
