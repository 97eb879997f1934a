"""What ncu prints becomes a row per product, and what it refuses a reason in each row."""

import itertools
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import Command, experiment, step

from matmul_sweep.experiment.dataset.tables import COUNTED, read_table
from matmul_sweep.experiment.measure import counters
from matmul_sweep.experiment.measure.counters import DURATION, METRICS, combined, products
from matmul_sweep.process.files import write_json

DENIED = (
    "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU "
    "Performance Counters on the target device 0. For instructions see"
)


def launch(number: int, kernel: str, values: dict[str, str]) -> str:
    """The lines of a launch as ncu --csv prints them, with made-up values and fewer columns."""
    return "".join(
        f'"{number}","host","{kernel}","(8, 8, 1)","{METRICS[column]}","","{value}"\n'
        for column, value in values.items()
    )


def log(*launches: str) -> str:
    names = '"ID","Host Name","Kernel Name","Grid Size","Metric Name","Metric Unit","Metric Value"'
    begun = f"==PROF== Connected to process 7 (/usr/bin/python3)\n{names}\n"
    return begun + "".join(launches) + "==PROF== Disconnected from process 7\n"


MARK = {DURATION: "1,000"}
TWO = log(
    launch(0, "empty()", MARK),
    launch(1, "naive(const float *, float *, int)", {
        DURATION: "2,000,000", "fma_percent": "20.5", "dram_bytes": "1,048,576",
        "tensor_percent": "n/a"}),
    launch(2, "empty()", MARK),
    launch(3, "part", {DURATION: "3,000", "fma_percent": "80", "dram_bytes": "10"}),
    launch(4, "fixup", {DURATION: "1,000", "fma_percent": "0", "dram_bytes": "5"}),
)  # fmt: skip


def test_the_counters_are_the_columns():
    assert list(METRICS) == [*COUNTED]


def test_the_launches_of_a_product_are_added_or_weighted_by_their_time():
    """Of those counters that the card has."""
    one, two = products(TWO)
    assert [[*own.kernel] for own in (one, two)] == [["naive"], ["part", "fixup"]]
    assert combined(one) == {DURATION: 2e6, "fma_percent": 20.5, "dram_bytes": 1048576}
    assert combined(two) == {DURATION: 4000, "fma_percent": 60, "dram_bytes": 15}
    # A counter that one launch lacks is not made up from the others.
    parts = launch(1, "a", {DURATION: "1", "fma_percent": "5"}), launch(2, "b", MARK)
    [lacking] = products(log(launch(0, "empty", MARK), *parts))
    assert combined(lacking) == {DURATION: 1001}


@pytest.mark.parametrize(
    ("text", "said", "why"),
    [
        ("", DENIED, "ERR_NVGPUCTRPERM"),
        (TWO, "==ERROR== Failed to find metric x", "ncu: Failed to find metric x"),
        ("", "", "ncu printed nothing"),
    ],
)
def test_what_ncu_refuses_is_the_reason_of_every_case_without_one(text, said, why):
    found = counters.assigned(text, ["", "squares only", "", ""], said)
    assert found[1] == "squares only"
    assert all(why in reason for reason in (found[0], *found[2:]))


def run(command: Command, folder: Path) -> pd.DataFrame:
    """The rows of four variants of steps, and none of a library."""
    run = experiment("naive", "vectors", "sgemm", "cublas_sgemm", device="gpu")
    output = step(command, "counters", run, folder, "counters.csv", "--build", folder)
    rows = read_table("counters.csv", output)
    assert rows.variant.tolist() == ["naive/32", "naive/16", "vectors/128", "sgemm"]
    assert set(rows.n) == {4096}
    return rows


def test_each_row_says_why_nothing_was_counted(command, tmp_path, monkeypatch):
    monkeypatch.setattr(counters, "ncu", lambda: None)
    rows = run(command, tmp_path)
    assert set(rows.status) == {"skipped"}
    assert rows.reason.str.startswith("there is no ncu on this machine").all()
    assert rows[[*COUNTED]].isna().all(axis=None)


def test_ncu_watches_the_same_program_and_leaves_the_clocks(command, tmp_path, monkeypatch):
    """What was not launched keeps its reason, and the others have their counters."""

    def watch(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        at = dict(itertools.pairwise(words))
        assert at["--clock-control"] == "none" and at["--profile-from-start"] == "off"
        write_json(["", "no room", "", "no room"], Path(at["--inside"]))
        Path(at["--log-file"]).write_text(TWO)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(counters, "ncu", lambda: "/usr/bin/ncu")
    monkeypatch.setattr(subprocess, "run", watch)
    rows = run(command, tmp_path)
    assert rows.status.tolist() == ["ok", "skipped"] * 2
    assert rows.duration_ns.tolist()[::2] == [2e6, 4000]
    assert set(rows.reason[1::2]) == {"no room"}
