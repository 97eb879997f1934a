"""The scripts as a user types them: what they print, and one clear line for a mistake."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import (
    RIGHT_KERNEL,
    ROOT,
    Command,
    DataSet,
    Entry,
    WriteCatalogue,
    experiment,
    the_catalogue,
)

from matmul_sweep.build.binaries import tool_source
from matmul_sweep.experiment.dataset.tables import read_table, write_rows
from matmul_sweep.process import progress
from matmul_sweep.process.programs import program_digest

SCRIPTS = sorted(file.stem for file in (ROOT / "scripts").rglob("*.py"))


@pytest.mark.parametrize("name", SCRIPTS)
def test_help_says_what_a_script_does(command: Command, name: str) -> None:
    shown = command(name, "--help")
    [script] = (ROOT / "scripts").rglob(f"{name}.py")
    docstring = script.read_text().split('"""')[1]
    assert shown.code == 0
    assert "usage: " in shown.out
    assert " ".join(docstring.split()[:5]) in " ".join(shown.out.split())


def test_help_lists_the_kernels(command: Command) -> None:
    shown = " ".join(command("multiply", "--help").out.split())
    assert f"kernels/catalogue.yaml: {', '.join(the_catalogue())}." in shown


@pytest.mark.usefixtures("no_gpu")
class TestMultiplyOnTheCpu:
    @pytest.mark.parametrize(
        ("kernel", "shape", "launch"),
        [
            ("shared", "33", "4 blocks of 1024 threads"),
            ("shared/16", "33", "9 blocks of 256 threads"),
            ("naive_rect", "96x64x3", "6 blocks of 1024 threads"),
        ],
    )
    def test_a_cuda_kernel_is_launched_checked_and_not_timed(
        self, command: Command, kernel: str, shape: str, launch: str
    ) -> None:
        told = command("multiply", kernel, shape)
        assert told.code == 0
        assert f"CUDA kernel launch with {launch}" in told.out
        assert "Result is Correct" in told.out
        assert re.search(r"^Duration: not timed", told.out, re.MULTILINE)
        assert "A =" not in told.out

    @pytest.mark.parametrize("kernel", ["cpu_loop", "cpu_blas"])
    def test_a_cpu_variant_is_checked_and_timed(self, command: Command, kernel: str) -> None:
        told = command("multiply", kernel, "40x33x17", "--fill", "digits")
        assert "Result is Correct" in told.out
        assert re.search(r"^Duration: 0\.\d{6} s$", told.out, re.MULTILINE)
        assert "blocks" not in told.out

    def test_print_shows_the_matrices_of_document_003(self, command: Command) -> None:
        """4×4 with A[i] = B[i] = i; C by hand."""
        told = command("multiply", "shared", "4x4x4", "--print", "--fill", "index")
        parts = re.split(r"^([ABC]) =$", told.out, flags=re.MULTILINE)
        found = {
            name: [float(x) for x in re.findall(r"\d+\.?", text.split("shared")[0])]
            for name, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        assert found["A"] == found["B"] == [float(i) for i in range(16)]
        assert found["C"][:4] == [56, 62, 68, 74]
        assert found["C"][-1] == 506

    def test_print_shows_every_element(self, command: Command) -> None:
        told = command("multiply", "cpu_blas", "50x60x1", "--print", "--fill", "constant")
        assert "..." not in told.out
        assert told.out.split("C =")[1].split("cpu_blas")[0].count("2.") == 3000

    def test_what_takes_long_is_said_while_it_does(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(progress, "PATIENCE", 0.0)
        said = command("multiply", "cpu_loop", "200", "--hang-seconds", "60").err.splitlines()
        assert said == [
            "cpu_loop: compiling ...",
            "cpu_loop: multiplying 200x200x200, for 60 s at most ...",
            "cpu_loop: checking 200x200x200 against NumPy ...",
            "cpu_loop: timing 200x200x200 ...",
        ]

    def test_of_a_table_only_what_its_shape_needs_is_run(self, command: Command) -> None:
        """And named: its threads, and its name, are those of the variant that the table has."""
        told = command("multiply", "sgemm", "33")
        assert re.search(r"^(?!sgemm)\w+\S*: CUDA kernel launch with \d+ blocks", told.out, re.M)
        assert "Result is Correct" in told.out

    def test_a_tile_smaller_than_what_a_block_computes_is_named(
        self, command: Command, entry: Entry, write_catalogue: WriteCatalogue, tmp_path: Path
    ) -> None:
        """The result is right, but each element is computed four times."""
        source = RIGHT_KERNEL.replace("blockIdx.y * 16", "blockIdx.y * 8")
        source = source.replace("blockIdx.x * 16", "blockIdx.x * 8")
        path = write_catalogue({"mine": entry(tile=[8, 8])}, mine=source)
        said = "a block writes 256 elements of C, and its tile of 8×8 has 64"
        assert said in command("multiply", "mine", "33", "--catalogue", path).error()
        experiment(catalogue=path).write(tmp_path / "experiment.json")
        output = tmp_path / "v.csv"
        command("verify", "gemm", "--experiment", tmp_path / "experiment.json", "--build", tmp_path,
                "--records", tmp_path, "--output", output, "--log", tmp_path / "log")  # fmt: skip
        rows = read_table("verification.csv", output)
        assert "tile of 8×8 has 64" in rows.reason[rows.status == "failed"].iloc[0]


def test_a_mistake_leaves_the_process_with_exit_code_1() -> None:
    script = ROOT / "scripts" / "multiply.py"
    done = subprocess.run(
        [sys.executable, script, "naive", "4x4"], capture_output=True, text=True, cwd="/"
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: gemm shape '4x4'")
    assert "Traceback" not in done.stderr


def verdict(command: Command, folder: Path) -> str:
    report, output = folder / "report.pdf", folder / "verdict.txt"
    told = command("verdict", "--data", folder, "--report", report, "--output", output)
    assert (told.code, told.out) == (0, "")
    return output.read_text()


def test_the_verdict_on_a_good_run_is_one_line_and_one_on_the_card(
    command: Command, data_set: DataSet
) -> None:
    data_set.summary[1]["status"] = "skipped"
    folder = data_set.write()
    told = verdict(command, folder)
    assert "1 points measured, 1 skipped, none failed (NVIDIA H100" in told
    assert told.splitlines()[1:] == ["card's state unknown: no reading is on record"]


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("kernels", "does not compile: mine.cu(3): error"),
        ("verification", "wrong result at 3x4x5"),
        ("summary", "the launch failed: illegal address"),
    ],
)
def test_the_verdict_names_what_failed(
    command: Command, data_set: DataSet, table: str, reason: str
) -> None:
    getattr(data_set, table)[0].update(status="failed", reason=reason)
    heading, line = verdict(command, data_set.write()).splitlines()
    assert heading.startswith("failed: 1,")
    assert "report.pdf" in heading
    assert line == f"naive/32: {reason}"


def test_the_verdict_counts_the_further_reasons_of_a_variant(
    command: Command, data_set: DataSet
) -> None:
    for table in (data_set.verification, data_set.summary):
        table[0].update(status="failed", reason="wrong result at 3x4x5")
    line = verdict(command, data_set.write()).splitlines()[1]
    assert line == "naive/32: wrong result at 3x4x5 (and 1 more)"


def test_the_verdict_says_that_a_hot_card_was_not_to_be_quoted(
    command: Command, data_set: DataSet
) -> None:
    data_set.summary[0]["throttled"] = "power_cap+hw_thermal"
    assert "throttled thermally" in verdict(command, data_set.write())


CEILING = {"name": "copy", "unit": "GB/s", "value": 2e3, "status": "ok", "throttled": ""}
STATE = {"sm_clock_mhz": 1980.0, "power_w": 640.0, "temperature_c": 56.0, "throttled": "power_cap"}


@pytest.mark.parametrize(
    ("device", "state", "line"),
    [
        ({}, {}, "card: 34 to 56 °C, SM clock 1695 MHz (lowest 1410), at its power cap in 1 of 2 "
         "series, no thermal throttle"),
        ({}, {"throttled": "power_cap+sw_thermal+hw_slowdown"},
         "card: 34 to 56 °C, SM clock 1695 MHz (lowest 1410), at its power cap in 1 of 2 "
         "series, thermal throttle in 1 (hw_slowdown, sw_thermal)"),
        ({"nvml": "unavailable: no permission"}, None,
         "card's state unknown: NVML unavailable: no permission"),
        ({"gpu": None}, None, None),
    ],
    ids=["cool", "hot", "no NVML", "no GPU"],
)  # fmt: skip
def test_the_verdict_ends_with_the_state_of_the_card(
    command: Command, data_set: DataSet, device: dict[str, Any], state: dict[str, Any] | None,
    line: str | None,
) -> None:  # fmt: skip
    data_set.device.update(device)
    if state is not None:
        data_set.summary[0].update(STATE | state)
        cool = {"sm_clock_mhz": 1410.0, "temperature_c": 34.0, "throttled": ""}
        data_set.summary[1].update(STATE | cool)
    assert verdict(command, data_set.write()).splitlines()[1:] == ([line] if line else [])


def test_the_verdict_names_a_ceiling_that_failed(command: Command, data_set: DataSet) -> None:
    folder = data_set.write()
    write_rows([CEILING | {"status": "failed", "reason": "lost"}], "ceilings.csv",
               folder / "ceilings.csv")  # fmt: skip
    assert "ceiling copy: lost" in verdict(command, folder)


def publish(command: Command, folder: Path) -> Any:
    return command("publish", "--data", folder, "--report", folder / "report.pdf",
                   "--published", folder.parent / "published")  # fmt: skip


def test_a_data_set_is_published_whole_under_its_devices_name(
    command: Command, data_set: DataSet
) -> None:
    data_set.summary[0]["throttled"] = "power_cap"
    folder = data_set.write()
    (folder / "loads.csv").write_text("counted anywhere\n")
    assert publish(command, folder).code == 0
    published = folder.parent / "published" / "nvidia-h100-80gb-hbm3"
    files = {file.name: file for file in folder.rglob("*") if file.is_file()}
    del files["loads.csv"]  # which is the same on every machine
    assert {file.name for file in published.iterdir()} == set(files)
    for name, file in files.items():
        assert (published / name).read_bytes() == file.read_bytes()


def test_what_an_older_kernel_measured_is_not_published(
    command: Command, data_set: DataSet
) -> None:
    data_set.kernels[0]["sha256"] = "01d"
    assert "another naive/32" in publish(command, data_set.write()).error()


def test_checks_of_the_timing_are_published_and_leave_with_their_data_set(
    command: Command, data_set: DataSet
) -> None:
    folder = data_set.write()
    published = folder.parent / "published" / "nvidia-h100-80gb-hbm3"
    (folder / "timer_check.csv").write_text("of the first\n")
    assert publish(command, folder).code == 0
    assert (published / "timer_check.csv").read_text() == "of the first\n"
    assert not (published / "cross_check.csv").exists()
    (folder / "timer_check.csv").rename(folder / "cross_check.csv")
    assert publish(command, folder).code == 0
    assert not (published / "timer_check.csv").exists()
    assert (published / "cross_check.csv").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"sha256": "01d"}, "another scripts/steps/ceilings.py"),
        ({"status": "failed", "reason": "the launch failed"}, "failed"),
        ({"throttled": "hw_thermal"}, "throttled"),
    ],
    ids=["as it should be", "of another program", "failed", "hot"],
)
def test_ceilings_are_published_if_they_can_be_repeated(
    command: Command, data_set: DataSet, change: dict[str, Any], said: str | None
) -> None:
    folder = data_set.write()
    today = program_digest(ROOT / "scripts" / "steps" / "ceilings.py", tool_source("ceilings"))
    row = CEILING | {"sha256": today} | change
    write_rows([row], "ceilings.csv", folder / "ceilings.csv")
    told = publish(command, folder)
    if said:
        assert said in told.error()
        return
    published = folder.parent / "published" / "nvidia-h100-80gb-hbm3"
    assert (published / "ceilings.csv").read_text() == (folder / "ceilings.csv").read_text()


def test_cut_ceilings_are_refused_by_name(command: Command, data_set: DataSet) -> None:
    folder = data_set.write()
    (folder / "ceilings.csv").write_text("name,unit\ncopy")
    assert "ceilings.csv: cut short" in publish(command, folder).error()


@pytest.mark.parametrize(
    ("device", "row", "said"),
    [
        ({"gpu": None}, {}, "GPU"),
        ({"dirty": True}, {}, "modified"),
        ({"commit": "abc+def"}, {}, "several commits"),
        ({"code": "0ther"}, {}, "scripts/steps/measure.py"),
        ({}, {"status": "failed", "reason": "wrong"}, "failed"),
        ({}, {"throttled": "sw_thermal"}, "throttled"),
        ({}, {"throttled": "power_cap+hw_slowdown"}, "throttled"),
    ],
)
def test_what_could_not_be_repeated_is_not_published(
    command: Command, data_set: DataSet, device: dict[str, Any], row: dict[str, Any], said: str
) -> None:
    data_set.device.update(device)
    data_set.summary[0].update(row)
    folder = data_set.write()
    assert said in publish(command, folder).error()
    assert not (folder.parent / "published").exists()
