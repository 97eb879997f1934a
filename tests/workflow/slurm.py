"""A Slurm of one node in a folder of its own, with a stand-in for a GPU and without accounting.

Every daemon, client and job finds it by SLURM_CONF: nothing in /etc, /var or /run is touched.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from project import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "sinfo")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

# More cores and memory than there may be, so that the profile's requests fit (config_overrides).
CONFIGURATION = Path(__file__).with_name("slurm.conf").read_text()
# /dev/null is a device like a GPU's to Slurm, which counts it and never opens it.
GPUS = "NodeName={host} Name=gpu File=/dev/null\n"
# The plugin takes SLURM_CONF from srun's environment. A site's slurm.conf lies where srun looks.
SRUN = """#!/bin/sh
SLURM_CONF={folder}/slurm.conf exec {srun} "$@"
"""
# A step's program notes where it ran, which GPU it was given, and when it began and ended.
PYTHON = """#!/bin/sh
begun=$(date +%s.%N)
{python} "$@"
code=$?
where="${{SLURM_JOB_ID-none}} ${{CUDA_VISIBLE_DEVICES-none}}"
echo "$where $begun $(date +%s.%N) $1" >> {folder}/runs
exit $code
"""


class Run(NamedTuple):
    """A step's program: its Slurm job and GPU (or none), and seconds of its begin and end."""

    job: str
    gpu: str
    begun: float
    ended: float


@dataclass(frozen=True)
class Slurm:
    """A running Slurm, and what its clients and jobs find it by."""

    folder: Path
    environment: dict[str, str]

    def ask(self, *command: str) -> str:
        """What a client answers."""
        environment = os.environ | self.environment
        return subprocess.run(command, env=environment, capture_output=True, text=True).stdout

    def jobs(self, rule: str) -> set[str]:
        """The numbers of all jobs of a rule that there were."""
        said = self.ask("squeue", "--states=all", "--noheader", "--format=%k|%A")
        jobs = (line.split("|") for line in said.splitlines())
        return {number for comment, number in jobs if comment.startswith(f"rule_{rule}")}

    def runs(self, script: str) -> list[Run]:
        """The runs of a script that came to an end."""
        lines = map(str.split, (self.folder / "runs").read_text().splitlines())
        return [Run(job, gpu, float(begun), float(ended))
                for job, gpu, begun, ended, name in lines
                if name == f"scripts/steps/{script}.py"]  # fmt: skip


def missing() -> str | None:
    """Why no Slurm can be started here, with the remedy, or None."""
    absent = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
    if absent:
        return f"no {absent[0]}; on Debian: apt-get install --no-install-recommends slurm-wlm munge"
    if os.geteuid() != 0:
        return "the daemons of a Slurm of its own need root; run these tests as root"
    return None


@contextmanager
def started(folder: Path) -> Iterator[Slurm]:
    """Start a Slurm in an empty folder; with the block end its jobs and its daemons."""
    write_files(folder)
    slurm = Slurm(folder, {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": f"{folder}/bin:{PATH}"})
    munge = [f"--{name}={folder}/munge.{name.partition('-')[0]}"
             for name in ("socket", "key-file", "pid-file", "log-file", "seed-file")]  # fmt: skip
    with ExitStack() as daemons:
        start(daemons, slurm, "munged", "--foreground", "--force", *munge,
              ready=(folder / "munge.socket").exists)  # fmt: skip
        start(daemons, slurm, "slurmctld", "-D", ready=lambda: "PARTITION" in slurm.ask("sinfo"))
        start(daemons, slurm, "slurmd", "-D", ready=lambda: " idle " in slurm.ask("sinfo"))
        yield slurm
        slurm.ask("scancel", "--user=root")


def write_files(folder: Path) -> None:
    """Configuration, key, folders and stand-ins of a Slurm."""
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    texts = {"slurm.conf": CONFIGURATION, "gres.conf": GPUS, "runs": "", "bin/srun": SRUN,
             "bin/python": PYTHON}  # fmt: skip
    host, srun = socket.gethostname().split(".")[0], shutil.which("srun")
    with socket.socket() as one, socket.socket() as other:
        ports = [free.bind(("127.0.0.1", 0)) or free.getsockname()[1] for free in (one, other)]
    facts = {"folder": folder, "host": host, "python": sys.executable, "srun": srun, "ports": ports}
    for name, text in texts.items():
        (folder / name).write_text(text.format(**facts))
        (folder / name).chmod(0o755)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)


def start(daemons: ExitStack, slurm: Slurm, *command: str, ready: Callable[[], bool]) -> None:
    """Start a daemon that ends with the stack, and wait until it is ready."""
    program = shutil.which(command[0], path=PATH)
    with (slurm.folder / f"{command[0]}.out").open("w") as out:
        daemon = subprocess.Popen(
            [program, *command[1:]], env=os.environ | slurm.environment, text=True,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    daemons.callback(daemon.wait, 20)
    daemons.callback(daemon.terminate)
    wait_until(ready, daemon)
