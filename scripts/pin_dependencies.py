"""For maintainers: pin every package that the project needs exactly, in pyproject.toml.

This resolves the dependencies again, without the earlier pins, and writes uv's choice as [tool.uv]
constraint-dependencies. uv.lock itself stays out of the repository, because it records the
addresses that packages came from.
"""

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
EXPORT = [
    "export", "--all-groups", "--no-emit-project", "--no-hashes", "--no-header", "--no-annotate"
]  # fmt: skip
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


def pin(path: Path) -> int:
    """Resolve again and write the pins into `path`; restore its old text if uv fails."""
    before = path.read_text()
    try:
        path.write_text(with_pins(before, []))
        uv("lock", "--upgrade")
        exported = [uv(*EXPORT, "--no-group", group) for group in EXCLUSIVE]
        lines = {line for text in exported for line in text.splitlines() if PYPY not in line}
        pins = sorted((EVERYWHERE.sub("", line) for line in lines), key=lambda pin: pin.split("=="))
        path.write_text(with_pins(before, pins))
    except UserError:
        path.write_text(before)
        raise
    return len(pins)


@command_line
def main() -> None:
    arguments.parser(__doc__).parse_args()
    print(f"pinned {pin(ROOT / 'pyproject.toml')} packages; `uv sync` installs them")


if __name__ == "__main__":
    main()
