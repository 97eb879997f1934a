"""The scripts as a user types them: what they print, and one clear line for a mistake."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from made_up_data import publishable
from support import ROOT, Command

from matmul_sweep.experiment.dataset.crate import CRATE
from matmul_sweep.process import progress

PROGRAMS = {file.stem: file for file in sorted((ROOT / "scripts").rglob("*.py"))}
del PROGRAMS["environment"]  # which the others import


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_says_what_a_script_does(command, name):
    shown = command(name, "--help")
    docstring = PROGRAMS[name].read_text().split('"""')[1]
    assert shown.code == 0
    assert "usage: " in shown.out
    assert " ".join(docstring.split()[:5]) in " ".join(shown.out.split())


@pytest.mark.parametrize("name", [n for n, at in PROGRAMS.items() if at.parent.name == "scripts"])
def test_without_the_packages_a_script_says_so(name):
    """Python's own modules are all that it finds."""
    command = [sys.executable, "-S", PROGRAMS[name]]
    done = subprocess.run(command, env={}, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "run this with `uv run python`" in done.stderr


@pytest.mark.usefixtures("no_gpu")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("shared 33", "CUDA kernel launch with 4 blocks of 1024 threads"),
        ("shared/16 33", "CUDA kernel launch with 9 blocks of 256 threads"),
        ("naive_rect 96x64x3", "CUDA kernel launch with 6 blocks of 1024 threads"),
        ("naive_rect 96x64x3", "\nDuration: not timed"),
        # Of a table only what its shape needs is run, and named.
        ("sgemm 33", r"\n(?!sgemm)\w+\S*: CUDA kernel launch with \d+ blocks"),
        ("cpu_loop 40x33x17 --fill digits", r"\nDuration: 0\.\d{6} s\n"),
        ("cpu_blas 40x33x17 --fill digits", r"\nDuration: 0\.\d{6} s\n"),
    ],
)
def test_a_product_on_the_cpu_is_checked_and_timed_if_its_kernel_is_for_it(command, line, said):
    told = command("multiply", *line.split())
    assert told.code == 0
    assert re.search(said, "\n" + told.out)
    assert "Result is Correct" in told.out
    assert "A =" not in told.out


@pytest.mark.usefixtures("no_gpu")
def test_print_shows_every_element_of_the_matrices(command):
    """A row of 3000, and A[i] = B[i] = i as in document 003; C by hand."""
    long = command("multiply", "cpu_blas", "50x60x1", "--print", "--fill", "constant").out
    assert long.split("C =")[1].split("cpu_blas")[0].count("2.") == 3000
    told = command("multiply", "shared", "4x4x4", "--print", "--fill", "index")
    parts = re.split(r"^[ABC] =$", told.out.split("shared: ")[0], flags=re.MULTILINE)
    a, b, c = ([float(x) for x in re.findall(r"\d+\.", text)] for text in parts[1:])
    assert a == b == [float(i) for i in range(16)]
    assert (c[:4], c[-1]) == ([56, 62, 68, 74], 506)


@pytest.mark.usefixtures("no_gpu")
def test_what_takes_long_is_said_while_it_does(command, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    assert command("multiply", "cpu_loop", "200", "--hang-seconds", "60").err.splitlines() == [
        "cpu_loop: compiling ...",
        "cpu_loop: multiplying 200x200x200, for 60 s at most ...",
        "cpu_loop: checking 200x200x200 against NumPy ...",
        "cpu_loop: timing 200x200x200 ...",
    ]


WRONG = [{"status": "failed", "reason": "wrong result at 3x4x5"}]
STATE = {"sm_clock_mhz": 1980.0, "power_w": 640.0, "temperature_c": 56.0, "throttled": "power_cap"}
COOL = STATE | {"sm_clock_mhz": 1410.0, "temperature_c": 34.0, "throttled": ""}
HOT = STATE | {"throttled": "power_cap+sw_thermal+hw_slowdown"}
LOST = {"status": "failed", "reason": "lost"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"summary": [{"status": "skipped"}]},
         [r"1 points measured, 1 skipped, none failed \(NVIDIA H100.*\): \S*report.pdf",
          "card's state unknown: no reading is on record"]),
        ({"kernels": WRONG}, ["failed: 1,.*report.pdf", "naive/32: wrong result at 3x4x5"]),
        ({"verification": WRONG}, ["failed: 1,.*", "naive/32: wrong result at 3x4x5"]),
        ({"summary": WRONG}, ["failed: 1,.*", "naive/32: wrong result at 3x4x5"]),
        ({"verification": WRONG, "summary": [LOST], "ceilings": [LOST]},
         ["failed: 2,.*", r"naive/32: wrong result at 3x4x5 \(and 1 more\)",
          "ceiling multiply_add_float32: lost"]),
        ({"summary": [STATE, COOL]},
         ["2 points .*", r"card: 34 to 56 °C, SM clock 1695 MHz \(lowest 1410\), at its power cap "
          "in 1 of 2 series, no thermal throttle"]),
        ({"summary": [HOT, COOL]},
         [".*; the card throttled thermally, so .*",
          r"card: .* in 1 of 2 series, thermal throttle in 1 \(hw_slowdown, sw_thermal\)"]),
        ({"device": [{"nvml": "unavailable: no permission"}]},
         ["2 points .*", "card's state unknown: NVML unavailable: no permission"]),
        ({"device": [{"gpu": None}]}, ["2 points .*"]),
    ],
)  # fmt: skip
def test_the_verdict_names_what_failed_and_ends_with_the_card(command, tmp_path, changes, said):
    folder = publishable(tmp_path / "data", changes)
    report, output = folder / "report.pdf", folder / "verdict.txt"
    told = command("verdict", "--data", folder, "--report", report, "--output", output)
    assert (told.code, told.out) == (0, "")
    for line, wanted in zip(output.read_text().splitlines(), said, strict=True):
        assert re.fullmatch(wanted, line)


def publish(command: Command, folder: Path) -> Any:
    return command("publish", "--data", folder, "--report", folder / "report.pdf",
                   "--published", folder.parent / "published")  # fmt: skip


def test_a_data_set_is_published_whole_and_replaced_whole_under_its_devices_name(command, tmp_path):
    folder = publishable(tmp_path / "data", {"summary": [{"throttled": "power_cap"}]})
    (folder / "timer_check.csv").write_text("of the first\n")
    (folder / "loads.csv").write_text("counted anywhere\n")  # the same on every machine
    published = folder.parent / "published" / "nvidia-h100-80gb-hbm3"
    for check in ("timer_check.csv", "cross_check.csv"):
        (folder / "timer_check.csv").rename(folder / check)
        assert publish(command, folder).code == 0
        files = {file.name: file for file in folder.rglob("*") if file.is_file()}
        del files["loads.csv"]
        assert check in files
        assert {file.name for file in published.iterdir()} == {*files, CRATE}
        for name, file in files.items():
            assert (published / name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": [{"gpu": None}]}, "measured without a GPU"),
        ({"device": [{"dirty": True}]}, "modified"),
        ({"device": [{"code": "0ther"}]}, "another scripts/steps/measure.py"),
        ({"kernels": [{"sha256": "01d"}]}, "another naive/32"),
        ({"ceilings": [{"sha256": "01d"}]}, "another scripts/steps/ceilings.py"),
        ({"summary": WRONG}, "failed"),
        ({"ceilings": WRONG}, "failed"),
        ({"summary": [{"throttled": "sw_thermal"}]}, "throttled"),
        ({"summary": [{"throttled": "power_cap+hw_slowdown"}]}, "throttled"),
        ({"ceilings": [{"throttled": "hw_thermal"}]}, "throttled"),
    ],
)
def test_what_could_not_be_repeated_is_not_published(command, tmp_path, changes, said):
    folder = publishable(tmp_path / "data", changes)
    assert said in publish(command, folder).error()
    assert not (folder.parent / "published").exists()


def test_of_a_thousand_points_a_busy_host_may_leave_one_without_a_time(command, tmp_path):
    late = {"status": "failed", "reason": "the host enqueues launches more slowly than they run"}
    folder = publishable(tmp_path / "data", {"summary": [late]})
    assert "failed" in publish(command, folder).error()
    path = folder / "summary.csv"
    first, other = path.read_text().splitlines()[1:]
    path.write_text("\n".join([path.read_text().splitlines()[0], first, *[other] * 999]) + "\n")
    assert publish(command, folder).code == 0
