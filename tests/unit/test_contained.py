"""What a program that somebody else wrote can do to the machine: nothing, however it tries."""

import resource
import subprocess
from functools import partial
from pathlib import Path

import pytest

from matmul_sweep.classroom.cuda_on_cpu.contained import Ended, can_contain, run_contained
from matmul_sweep.process.errors import UserError

pytestmark = pytest.mark.skipif(
    not can_contain(), reason="this is no x86-64 Linux with Landlock of version 3 (Linux 6.2)"
)

# Each row is an expression of C, below 0 or null if what it tries is refused. `outside` is a file
# of the user's, `inside` one that the program was given.
REFUSED = {
    "fork": "fork()",
    "a thread": "pthread_create(&thread, 0, nothing, 0) ? -1 : 0",
    "another program": 'execl("/bin/true", "true", (char*)0)',
    "a signal to the judge": "kill(getppid(), 0)",
    "a signal to a group": "kill(0, 0)",
    "a signal to a thread of the judge": "syscall(SYS_tgkill, getppid(), getppid(), 0)",
    "a signal by rt_sigqueueinfo": "syscall(SYS_rt_sigqueueinfo, getppid(), 0, &info)",
    "a signal by a descriptor": "syscall(SYS_pidfd_open, getppid(), 0)",
    "reading": "open(outside, O_RDONLY)",
    "writing": "open(outside, O_WRONLY)",
    "reading what others may read": 'open("/etc/passwd", O_RDONLY)',
    "the environment of the judge": "open(environment, O_RDONLY)",
    "a new file": 'open("new", O_CREAT | O_WRONLY, 0600)',
    "a file without a name": 'open(".", O_TMPFILE | O_WRONLY, 0600)',
    "a file in shared memory": 'shm_open("/mine", O_CREAT | O_RDWR, 0600)',
    "a file in memory": 'memfd_create("mine", 0)',
    "a folder": 'mkdir("folder", 0700)',
    "a link": 'symlink("/etc", "link")',
    "removing": "unlink(inside)",
    "renaming": 'rename(inside, "renamed")',
    "cutting": "truncate(outside, 0)",
    "chmod": "chmod(outside, 0)",
    "fchmodat": "fchmodat(AT_FDCWD, outside, 0, 0)",
    "fchmod of its own": "fchmod(1, 0)",
    "chown": "chown(outside, 1, 1)",
    "utime": "utimensat(AT_FDCWD, outside, 0, 0)",
    "an attribute": 'setxattr(outside, "user.x", "x", 1, 0)',
    "a network": "socket(AF_INET, SOCK_STREAM, 0)",
    "a socket of the machine": "socket(AF_UNIX, SOCK_STREAM, 0)",
    "ptrace": "ptrace(PTRACE_ATTACH, getppid(), 0, 0)",
    "io_uring": "syscall(SYS_io_uring_setup, 1, 0)",
    "keys": "syscall(SYS_keyctl, 0, 0)",
    "bpf": "syscall(SYS_bpf, 0, 0, 0)",
    "a mount": 'mount("none", "/", "tmpfs", 0, 0)',
    "a namespace": "unshare(CLONE_NEWUSER)",
    "outliving the judge": "prctl(PR_SET_PDEATHSIG, 0)",
    "a session of its own": "setsid()",
    "longer limits": "setrlimit(RLIMIT_CPU, &(struct rlimit){100, 100})",
    "a call of 32 bits": "getpid_of_32_bits()",
    "the terminal": 'open("/dev/tty", O_RDWR)',
}
ALLOWED = {
    "memory": "malloc(1 << 20) ? 0 : -1",
    "what it was given": "open(inside, O_RDWR)",
    "a signal to itself": "raise(0)",
    "time": "time(0)",
}
PROGRAM = (Path(__file__).parent / "contained" / "tries.c").read_text()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the program prints of each attempt, and that of its time, which it wastes at last."""
    folder = tmp_path_factory.mktemp("contained")
    tries = "".join(
        f'printf("{name}: %ld\\n", (long)({code})); fflush(stdout);'
        for name, code in (REFUSED | ALLOWED).items()
    )
    source, program, own = folder / "tries.c", folder / "tries", folder / "own"
    source.write_text(PROGRAM.replace("TRIES", tries))
    subprocess.run(["gcc", "-w", source, "-o", program, "-pthread"], check=True)
    own.mkdir()
    for file in (own / "inside", folder / "outside"):
        file.touch()
    before = (folder / "outside").stat()
    ended = run_contained([str(program), str(folder / "outside"), "print"], own, 5, {})
    assert ended.code != 0 and (folder / "outside").stat() == before
    assert sorted(file.name for file in own.iterdir()) == ["err", "inside", "out"]
    return dict(line.rsplit(": ", 1) for line in ended.out.splitlines() if ": " in line)


@pytest.mark.parametrize("name", ["before main", *REFUSED])
def test_a_program_cannot_reach(printed, name):
    assert int(printed[name]) < 0


@pytest.mark.parametrize("name", ALLOWED)
def test_a_program_can_use(printed, name):
    assert int(printed[name]) >= 0


def run(folder: Path, code: str) -> Ended:
    source, program, own = folder / "main.c", folder / "main", folder / "own"
    source.write_text(f"#include <stdio.h>\n#include <stdlib.h>\nint main() {{ {code} }}")
    subprocess.run(["gcc", "-w", source, "-o", program], check=True)
    own.mkdir()
    return run_contained([str(program)], own, 5, {"GIVEN": "this"})


@pytest.mark.parametrize(
    ("code", "out"),
    [
        (r'printf("\033[2Jcorrect\033]0;title\007\u202e\n");', "?[2Jcorrect?]0;title??\n"),
        ('printf("%s %d", getenv("GIVEN"), getenv("PATH") == 0);', "this 1"),
        ('printf("%d", getchar());', "-1"),
    ],
)
def test_what_it_prints_and_is_given(tmp_path, code, out):
    assert run(tmp_path, code) == Ended(0, out, "")


@pytest.mark.parametrize(
    "code",
    ["for (;;) puts(\"again\");", "if (!malloc(9ul << 30)) abort();"],
    ids=["output", "memory"],
)  # fmt: skip
def test_what_it_takes_is_limited(tmp_path, code):
    assert run(tmp_path, code).code < 0


def test_what_cannot_be_started_is_no_mistake_of_the_kernel(tmp_path):
    program = tmp_path / "program"
    program.write_text("not one that can be executed")
    with pytest.raises(UserError, match="program: Permission denied; that is no mistake"):
        run_contained([str(program)], tmp_path, 5, {})


def test_a_machine_may_allow_less_memory(tmp_path, monkeypatch):
    lower = partial(resource.setrlimit, resource.RLIMIT_AS, (4 << 30, 4 << 30))
    monkeypatch.setattr(subprocess, "Popen", partial(subprocess.Popen, preexec_fn=lower))
    assert run(tmp_path, 'puts(malloc(5ul << 30) ? "all" : "less");').out == "less\n"
