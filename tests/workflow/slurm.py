"""A Slurm of one node in a folder of its own, with a stand-in for a GPU and without accounting.

Every daemon, client and job finds it by SLURM_CONF: nothing in /etc, /var or /run is touched.
"""

import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scontrol", "sinfo")
PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"

# More cores and memory than there may be, so that the profile's requests fit (config_overrides).
CONFIGURATION = """
ClusterName=onenode
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
MinJobAge=86400
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=16 RealMemory=64000 Gres=gpu:1 State=UNKNOWN
PartitionName=gpu Nodes={host} Default=YES MaxTime=12:00:00 State=UP
"""
# /dev/null is a device like a GPU's to Slurm, which counts it and never opens it.
GPUS = "NodeName={host} Name=gpu File=/dev/null\n"
CGROUPS = """
CgroupAutomount=no
ConstrainCores=no
ConstrainDevices=no
ConstrainRAMSpace=no
ConstrainSwapSpace=no
"""
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
COLUMNS = {"JobID": 10, "Comment": 100, "tres-per-job": 20}


class Job(NamedTuple):
    """A job as squeue shows it: its number, comment (the rule and wildcards), and GPUs."""

    number: int
    comment: str
    gpus: str


class Run(NamedTuple):
    """A step's program: its Slurm job and GPU (or none), and seconds of its begin and end."""

    job: str
    gpu: str
    begun: float
    ended: float
    script: str


@dataclass(frozen=True)
class Slurm:
    """A running Slurm, and the environment in which its clients and jobs find it."""

    folder: Path
    environment: dict[str, str]

    def ask(self, *command: str) -> str:
        """What a client answers."""
        environment = os.environ | self.environment
        return subprocess.run(
            command, env=environment, check=True, capture_output=True, text=True
        ).stdout

    def jobs(self) -> list[Job]:
        """All jobs that there were, in the order of their submission."""
        fields = ",".join(f"{name}:{width}" for name, width in COLUMNS.items())
        lines = self.ask("squeue", "--states=all", "--noheader", "--Format", fields).splitlines()
        return sorted(map(job_of, lines))

    def runs(self, script: str) -> list[Run]:
        """The runs of a script that came to an end."""
        lines = map(str.split, (self.folder / "runs").read_text().splitlines())
        found = [Run(job, gpu, float(begun), float(ended), name)
                 for job, gpu, begun, ended, name in lines]  # fmt: skip
        return [run for run in found if run.script == f"scripts/steps/{script}.py"]


def job_of(line: str) -> Job:
    values, start = [], 0
    for width in COLUMNS.values():
        values.append(line[start : start + width].strip())
        start += width
    number, comment, gpus = values
    return Job(int(number), comment, "" if gpus == "N/A" else gpus)


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
    host = socket.gethostname().split(".")[0]
    ports = {"controller_port": free_port(), "node_port": free_port()}
    write_files(folder, host, ports)
    environment = {
        "SLURM_CONF": f"{folder}/slurm.conf",
        "PATH": f"{folder}/bin:{PATH}",
    }
    slurm = Slurm(folder, environment)
    munge = [f"--{name}={folder}/munge.{suffix}" for name, suffix in
             (("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"),
              ("log-file", "log"), ("seed-file", "seed"))]  # fmt: skip
    with ExitStack() as daemons:
        start(daemons, slurm, "munged", "--foreground", "--force", *munge)
        wait_for(lambda: (folder / "munge.socket").exists(), slurm, "munged")
        for name in ("slurmctld", "slurmd"):
            start(daemons, slurm, name, "-D", "-f", f"{folder}/slurm.conf")
        daemons.callback(end_jobs, slurm)
        wait_for(lambda: state_of_node(slurm) == "idle", slurm, "slurmctld")
        yield slurm


def write_files(folder: Path, host: str, ports: dict[str, int]) -> None:
    """Configuration, key, folders and stand-ins of a Slurm."""
    for name in ("state", "spool", "bin"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(CONFIGURATION.format(folder=folder, host=host, **ports))
    (folder / "gres.conf").write_text(GPUS.format(host=host))
    (folder / "cgroup.conf").write_text(CGROUPS)
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    (folder / "runs").touch()
    stand_ins = {
        "srun": SRUN.format(folder=folder, srun=shutil.which("srun")),
        "python": PYTHON.format(folder=folder, python=sys.executable),
    }
    for name, text in stand_ins.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)


def start(daemons: ExitStack, slurm: Slurm, *command: str) -> None:
    """Start a daemon that ends with the stack."""
    program = shutil.which(command[0], path=PATH)
    with (slurm.folder / f"{command[0]}.out").open("w") as out:
        daemon = subprocess.Popen(
            [program, *command[1:]], env=os.environ | slurm.environment,
            stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
    daemons.callback(daemon.wait, 20)
    daemons.callback(daemon.terminate)


def end_jobs(slurm: Slurm) -> None:
    """Cancel what is left in the queue, and wait until it is gone."""
    slurm.ask("scancel", "--user=root")
    wait_for(lambda: not slurm.ask("squeue", "--noheader"), slurm, "slurmd")


def state_of_node(slurm: Slurm) -> str:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"],
        env=os.environ | slurm.environment, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout.strip()


def wait_for(ready: Callable[[], bool], slurm: Slurm, daemon: str) -> None:
    """Wait until a daemon has done its part. Raises RuntimeError with what it logged."""
    deadline = time.monotonic() + 30
    while not ready():
        if time.monotonic() > deadline:
            logs = [slurm.folder / f"{daemon}.{kind}" for kind in ("out", "log")]
            said = "".join(file.read_text() for file in logs if file.exists())
            raise RuntimeError(f"{daemon} is not ready:\n{said}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
