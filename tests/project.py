"""A copy of the project, and Snakemake in it."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from forked import forked
from support import CUDA_ENTRY, ROOT

TINY = {
    "device": "cpu",
    "architectures": ["sm_90"],
    "catalogue": "kernels/test.yaml",
    "sampling": {"minimum": 6, "maximum": 6, "interval": 0.5, "seconds": 2, "copy_seconds": 0.01},
}

SNAKEMAKE = (sys.executable, "-m", "snakemake")  # a new process, as a user starts it
HERE = ("--cores", "2")  # run the jobs on this machine

GEMM, GRAM = (32, "24x20x17"), (20, "12x9")


def wait_until(condition: Callable[[], object], running: subprocess.Popen[str]) -> None:
    """Until the condition holds or the process has ended; fails after a minute."""
    deadline = time.monotonic() + 60
    while not condition() and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@dataclass
class Project:
    """A copy of the project, and Snakemake in it."""

    folder: Path
    environment: dict[str, str]

    def write_catalogue(self, *kept: str, added: str = "") -> None:
        """kernels/test.yaml: entries of the real catalogue with one variant each; then `added`."""
        whole = yaml.safe_load((ROOT / "kernels" / "catalogue.yaml").read_text())
        entries = {name: whole[name] for name in kept}
        for entry in entries.values():
            if "tilings" in entry:
                entry["tilings"] = dict([*entry["tilings"].items()][:1])
        text = yaml.safe_dump(entries, sort_keys=False, allow_unicode=True) if entries else ""
        (self.folder / "kernels" / "test.yaml").write_text(text + added)

    def add_kernel(self, name: str, source: str) -> str:
        """Write the source of a kernel, there called `mine`, under its name; the text of its
        entry."""
        self.path(f"kernels/{name}.cu").write_text(source.replace("void mine", f"void {name}"))
        entry = CUDA_ENTRY | {"title": name, "source": f"{name}.cu", "function": name}
        return yaml.safe_dump({name: entry}, sort_keys=False)

    def add_documented_kernel(self, source: str) -> dict[str, Any]:
        """Follow docs/kernels.md: a source of the name that it gives, and its entry, appended to
        the catalogue. The entry, with its name as `name`."""
        page = (ROOT / "docs" / "kernels.md").read_text()
        [text] = re.findall(r"^```yaml\n(my_kernel:.*?)^```$", page, re.MULTILINE | re.DOTALL)
        [(name, entry)] = yaml.safe_load(text).items()
        self.path("kernels/" + entry["source"]).write_text(source.replace("naive_rect", name))
        self.edit("kernels/catalogue.yaml", "\n" + text)
        return entry | {"name": name}

    def configure(
        self, gemm: Sequence[Any] = GEMM, gram: Sequence[Any] = GRAM, **changes: Any
    ) -> None:
        """config/test.yaml: a run of seconds on the CPU at these shapes, with some keys changed."""
        whole = {"copies": "all", "cold": "all", "cpu_without": []}
        sweeps = {"gemm": whole | {"shapes": [*gemm]}, "gram": whole | {"shapes": [*gram]}}
        # The catalogue may lack the kernels that these sweeps name.
        none = {"shapes": [], "kernels": "all"}
        sweeps |= dict.fromkeys(("gemm_alone", "gram_alone", "random_gemm", "random_gram"), none)
        sweeps["processor"] = none | {"limits": {"cpu_seconds": 1}}  # less than any hang_seconds
        text = yaml.safe_dump(TINY | {"sweeps": sweeps} | changes)
        (self.folder / "config" / "test.yaml").write_text(text)

    def show_one_mistake(self) -> None:
        """Shorten the gallery of mistakes, whose results in the repository are then of other
        sources."""
        path = self.path("kernels/mistakes/gallery.yaml")
        [(name, entry), *_] = yaml.safe_load(path.read_text()).items()
        path.write_text(yaml.safe_dump({name: entry}, allow_unicode=True))

    def command(
        self, *arguments: str, configfile: str = "config/test.yaml",
        where: Sequence[str] = HERE, program: Sequence[str] = (),
    ) -> list[str]:  # fmt: skip
        return [*program, *arguments, *where, "--configfile", configfile, "--nocolor"]

    def snakemake(
        self, *arguments: str, environment: dict[str, str] | None = None,
        program: Sequence[str] = (), **options: Any,
    ) -> subprocess.CompletedProcess[str]:  # fmt: skip
        """Run it; standard output and error come together in `stdout`.

        Without a `program` it is a fork, which has no environment of its own while it imports."""
        program = program or (SNAKEMAKE if environment else ())
        command = self.command(*arguments, program=program, **options)
        if program:
            return subprocess.run(
                command, cwd=self.folder, text=True, env=self.environment | (environment or {}),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        return forked(command, self.folder, self.environment)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start it, in a session of its own; what it says goes to the file `said`. Ctrl-C counts,
        which a shell lets its jobs in the background ignore."""
        command = "env", "--default-signal=INT", *self.command(*arguments, program=SNAKEMAKE)
        with self.path("said").open("w") as said:
            return subprocess.Popen(
                command, cwd=self.folder, env=self.environment, text=True, stdout=said,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def done(self, *arguments: str, **options: Any) -> str:
        """Run it to success; what it said."""
        run = self.snakemake(*arguments, **options)
        assert run.returncode == 0, run.stdout
        return run.stdout

    def pending(self, target: str = "all") -> dict[str, set[str]]:
        """The outputs that the next run would remake, by rule."""
        table = self.done(target, "--detailed-summary").partition("output_file\t")[2]
        found: dict[str, set[str]] = {}
        for line in table.splitlines()[1:]:
            columns = line.split("\t")
            if columns[-1] != "no update":
                found.setdefault(columns[2], set()).add(columns[0])
        return found

    def job_counts(self, *arguments: str, **options: Any) -> dict[str, int]:
        """How many jobs of each rule a dry run lists."""
        said = self.done(*arguments, "--dry-run", **options)
        table = said.partition("Job stats:")[2].partition("total")[0]
        return {rule: int(count) for rule, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}

    def path(self, name: str) -> Path:
        return self.folder / name

    def edit(self, name: str, addition: str) -> None:
        """Append to a file of the project."""
        path = self.path(name)
        path.write_text(path.read_text() + addition)


Fresh = Callable[[], Project]
Copy = Callable[[Project], Project]
