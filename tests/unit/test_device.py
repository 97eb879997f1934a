"""The GPU is found, or an error says what is missing."""

import fcntl
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import cached_property
from pathlib import Path

import pytest

from matmul_sweep.build import toolchain
from matmul_sweep.experiment.verify import gpu
from matmul_sweep.experiment.verify.gpu import Gpu, first_free, pycuda
from matmul_sweep.launch import device
from matmul_sweep.launch.device import check_driver
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.project import ROOT


@pytest.mark.parametrize(
    ("driver_version", "toolkit", "speaks", "remedy"),
    [(12090, (13, 0), "12.9", "run `uv sync --no-group cuda13 --group cuda12; "),
     (12000, (13, 1), "12.0", "export UV_NO_SYNC=1`, then the same command again"),
     (11040, (12, 9), "11.4", "update the driver"), (11080, (13, 0), "11.8", "525")],
)  # fmt: skip
def test_an_older_driver_is_refused_with_the_remedy(driver_version, toolkit, speaks, remedy):
    for enough in (toolkit[0] * 1000, toolkit[0] * 1000 + 20, 14000):
        check_driver(enough, toolkit)
    with pytest.raises(UserError) as caught:
        check_driver(driver_version, toolkit)
    words = [f"CUDA {speaks},", "CUDA {}.{}".format(*toolkit), remedy]
    assert all(part in str(caught.value) for part in words)


def test_an_old_driver_is_one_line_although_it_lacks_what_pycuda_links(tmp_path):
    try:
        device.count()
    except NoDevice as missing:
        assert "NVIDIA driver" in str(missing)
    else:
        pytest.skip("this machine has a GPU, whose driver would be found first")
    generation = toolchain.toolkit_version()[0] - 1
    source = f"int cuDriverGetVersion(int *v) {{ *v = {generation}040; return 0; }}"
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", library],
        input=source, text=True, check=True,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "multiply.py", "shared", "4"],
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: the NVIDIA driver speaks CUDA {generation}.4")
    assert done.stderr.count("\n") == 1


def test_a_gpu_without_pycuda_is_no_device(monkeypatch):
    monkeypatch.setattr(device, "count", lambda: 1)
    monkeypatch.setitem(sys.modules, "pycuda", None)
    with pytest.raises(NoDevice, match=r"pycuda.*; `uv sync` installs what a GPU needs"):
        pycuda()


@pytest.fixture
def cards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Gpu]:
    """Two cards whose locks lie in a folder of their own; nobody waits long for one."""
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    sleep, waits = time.sleep, iter(range(100))
    monkeypatch.setattr(time, "sleep", lambda seconds: (next(waits), sleep(seconds)))
    uuids = iter(("GPU-0", "GPU-1"))
    own = {"__init__": lambda card: None, "uuid": cached_property(lambda _: next(uuids))}
    kind = type("Card", (Gpu,), own)
    return [kind(), kind()]


def test_a_card_is_held_by_one_job_at_a_time_whoever_made_the_lock(cards, tmp_path):
    for _ in range(2):  # the second time the file is there
        with first_free(cards[:1]):
            (lock,) = tmp_path.iterdir()
            with lock.open() as other, pytest.raises(BlockingIOError):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert lock.stat().st_mode & 0o222 == 0
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_jobs_that_time_nothing_share_a_card_and_a_timing_job_takes_another(cards):
    with first_free(cards, shared=True) as one, first_free(cards, shared=True) as two:
        assert one == two == cards[0]
        with first_free(cards) as timing, first_free(cards, shared=True) as three:
            assert (timing, three) == (cards[1], cards[0])
    with first_free(cards) as timing, first_free(cards, shared=True) as other:
        assert (timing, other) == (cards[0], cards[1])


def test_a_job_goes_on_with_the_card_that_it_began_on(cards, tmp_path):
    begun = tmp_path / "gpu.card"
    with first_free(cards), first_free(cards, begun=begun) as one:
        assert one == cards[1]
    with first_free(cards, begun=begun) as again, first_free(cards) as other:
        assert (again, other) == (cards[1], cards[0])
    with first_free(cards[:1], begun=begun) as elsewhere:  # on a host that has it not
        assert elsewhere == cards[0]


def test_jobs_take_a_card_each_and_a_third_waits_for_the_first_that_is_free(cards, caplog):
    order = []

    def third() -> None:
        with first_free(cards) as card:
            order.append(card)

    with first_free(cards) as one:
        with first_free(cards) as two:
            assert [one, two] == cards
            waiting = threading.Thread(target=third)
            waiting.start()
            time.sleep(3 * gpu.WAIT_S)
            assert order == []
        waiting.join(timeout=10)
        assert order == [two]
    assert caplog.messages == ["waiting: other jobs hold every GPU of this machine"]
