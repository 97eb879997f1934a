"""The workflow as a whole, on a small catalogue and without a GPU."""

import json
import os
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from project import SNAKEMAKE, Copy, Project
from support import RIGHT_KERNEL

from matmul_sweep.build import toolchain
from matmul_sweep.experiment.dataset.tables import TIMES, read_table, write_table
from matmul_sweep.experiment.report.figures.names import CAPTIONS, captions
from matmul_sweep.process.files import read_json

Pending = dict[str, set[str]]

VERIFIED = {"results/local/verified/gemm.csv"}
LOOP = {"results/local/measured/gemm/cpu_loop"}
MEASURED = {*LOOP, "results/local/measured/gemm/cpu_blas"}
REPORT = {"typeset", "pass_verdict"}
AFTER = {"collect", "verdict", "draw_figures", "tabulate", "write_page", *REPORT}
MACHINE_CODE = {"disassemble", *REPORT, "draw_figures", "tabulate"}


def rows(project: Project, name: str, variant: str) -> pd.DataFrame:
    whole = read_table(name, project.path(f"results/local/{name}"))
    return whole[whole.variant == variant]


def embedded(html: str, name: str) -> dict[str, Any]:
    """A table of Snakemake's report."""
    return json.JSONDecoder().raw_decode(html, re.search(rf"var {name} = (?=\{{)", html).end())[0]


def test_snakemakes_report_has_every_figure_with_caption_and_labels(finished, offline, tmp_path):
    finished.done("--report", str(tmp_path / "report.html"), program=(*offline, *SNAKEMAKE))
    html = (tmp_path / "report.html").read_text()
    drawn = read_json(finished.path("results/local/figures/drawn.json"))
    figures = {f"results/local/figures/{name}.svg" for name in drawn}
    others = {"results/local/report.pdf", "results/local/explore.html"}
    categories = embedded(html, "categories").items()
    groups = {category: {*files["Other"]} for category, files in categories}
    assert drawn
    assert groups == {"Figures": figures, "Report": others}
    for file, entry in embedded(html, "results").items():
        name = Path(file).stem
        assert entry["labels"] == {"data set": "local", "figure": name}
        caption = (CAPTIONS / captions().get(name, f"pages/{name}.rst")).read_text()
        assert re.sub("<[^>]*>", "", unescape(entry["caption"])).split() == caption.split()


def test_the_set_of_a_run_with_a_kernel_that_was_added_passes_its_check(finished):
    """Which holds the tables against the configuration and the catalogue; device.json says how it
    was run."""
    finished.done("check")
    verified = rows(finished, "verification.csv", "mine")
    assert (set(verified.status), set(verified["where"])) == ({"ok"}, {"emulation"})
    device = read_json(finished.path("results/local/device.json"))
    assert device["gpu"] is None
    assert (device["commit"], device["dirty"]) == ("0" * 40, False)
    assert device["configuration"]["sweeps"]["gemm"]["shapes"] == [32, "24x20x17"]
    assert device["flags"]["mine"].startswith("-O3")
    assert set(device["compilers"]) == {Path(toolchain.cuda()[-1]).name, "gcc"}


# What a change remakes.


def change_launch(project: Project) -> None:
    """Another launch of the same source: the binary stays as it is."""
    path = project.path("kernels/test.yaml")
    entries = yaml.safe_load(path.read_text())
    entries["mine"] |= {"threads": [32, 16]}
    path.write_text(yaml.safe_dump(entries, sort_keys=False))


def add_second_kernel(project: Project) -> None:
    source = project.path("kernels/mine.cu").read_text()
    project.edit("kernels/test.yaml", project.add_kernel("second", source))


def publish(project: Project) -> None:
    published = project.path("reports/published/test-card")
    published.mkdir(parents=True)
    for file in project.path("results/local").iterdir():
        if file.is_file():
            shutil.copyfile(file, published / file.name)


def rebuild(project: Project) -> None:
    publish(project)
    project.configure(published="rebuild")


def edit(name: str, addition: str = "\n") -> Callable[[Project], None]:
    return lambda project: project.edit(name, addition)


# A change, the rules that run again, and the outputs of those that have several.
CHANGES: dict[str, tuple[Callable[[Project], None], set[str], Pending]] = {
    "nothing": (lambda project: None, set(), {}),
    "a header": (
        edit("kernels/tile.h", "// changed\n"), {*MACHINE_CODE, *AFTER},
        {"compile_kernel": {"results/local/build/sm_90/mine"}, "verify_operation": VERIFIED},
    ),
    "a kernel that is measured": (
        edit("kernels/cpu/triple_loop.c"), {*MACHINE_CODE, *AFTER},
        {"compile_kernel": {"results/local/build/host/cpu_loop"}, "verify_operation": VERIFIED,
         "measure_part": LOOP},
    ),
    "another catalogue's kernel": (edit("kernels/gemm/direct.cu"), {"tabulate", *REPORT}, {}),
    "a block": (change_launch, AFTER, {"verify_operation": VERIFIED}),
    "another kernel": (
        add_second_kernel, {*MACHINE_CODE, *AFTER},
        {"compile_kernel": {"results/local/build/sm_90/second"}, "verify_operation": VERIFIED},
    ),
    "another shape": (
        lambda project: project.configure(gemm=[32, "24x20x17", 40]), AFTER,
        {"measure_part": MEASURED},
    ),
    "a caption": (
        edit("reports/captions/each/rate.rst", " Indeed.\n"), {"draw_figures", *REPORT}, {},
    ),
    "the report's text": (edit("reports/report.typ"), REPORT, {}),
    "a chapter": (edit("reports/chapters/gram.typ"), REPORT, {}),
    "the page": (edit("site/explore.html"), {"write_page", "pass_verdict"}, {}),
    "the collecting": (edit("scripts/steps/collect.py"), AFTER, {}),
    "the sampling": (
        edit("src/matmul_sweep/experiment/measure/sweep.py"), AFTER,
        {"measure_part": {*MEASURED, "results/local/measured/gram/gram_cpu_loop"}},
    ),
    "the gallery of mistakes": (
        edit("kernels/mistakes/gallery.yaml"), REPORT,
        {"run_mistakes": {"results/mistakes/gallery"}},
    ),
    "a published data set": (publish, {"draw_figures", "tabulate", "write_page", *REPORT}, {}),
    "a published data set, to be reported": (
        rebuild, AFTER,  # `collect` too: device.json has the configuration
        {"typeset": {"results/local/report.pdf", "results/published/test-card/report.pdf"}},
    ),
    "a check of the timing": (
        lambda project: project.path("results/local/timer_check.csv").touch(),
        {"tabulate", *REPORT}, {},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def pending(finished: Project, copy_of: Copy) -> dict[str, Pending]:
    """The outputs that would be remade after each of the changes, by rule."""

    def after(change: Callable[[Project], None]) -> Pending:
        project = copy_of(finished)
        change(project)
        return project.pending()

    changes = [change for change, _, _ in CHANGES.values()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(CHANGES, pool.map(after, changes), strict=True))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_reruns_what_depends_on_it_and_nothing_else(pending, change):
    _, rules, outputs = CHANGES[change]
    assert set(pending[change]) == rules | set(outputs)
    assert {rule: pending[change][rule] for rule in outputs} == outputs


def test_what_is_cut_emptied_or_gone_is_made_again_by_the_same_command(finished, copy_of):
    """Files by a power cut; an output in the middle by a forced run that was killed."""
    project = copy_of(finished)
    local = project.path("results/local")
    lost = {"report.pdf": 0, "explore.html": 100, "verdict.txt": 0, "tables.json": 100,
            "figures/drawn.json": 0}  # fmt: skip
    before = {name: (local / name).read_bytes() for name in [*lost, "instructions.csv"]}
    for name, size in lost.items():
        os.truncate(local / name, size)
    (local / "instructions.csv").unlink()
    assert "results/local/report.pdf: a part of it is gone; it is made again" in project.done("all")
    assert {name: (local / name).read_bytes() for name in before} == before
    assert not project.pending()


def test_the_other_entry_file_gives_the_same_jobs(finished, copy_of):
    project = copy_of(finished)
    project.edit("scripts/steps/compile.py", "\n")
    root, other = project.job_counts(), project.job_counts("-s", "workflow/Snakefile")
    assert root.pop("all") == 1
    assert other.pop("default") == 1
    assert root == other
    assert root["compile_kernel"] == 4


# Kernels with mistakes, and the first reason of each.

MISTAKES = {
    "broken": '"col" is undefined',
    "wrong": "wrong result at ",
    "unwritten": "wrong result at ",
    "unbarred": "wrong result at ",
}


def test_kernels_with_mistakes_are_named_in_a_line_each_at_the_end(faulty):
    said = faulty.path("said").read_text()
    verdict = faulty.path("results/local/verdict.txt").read_text()
    assert said.endswith(verdict)
    heading, *lines = verdict.splitlines()
    assert heading.startswith("failed: 4,")
    assert [line.partition(":")[0] for line in lines] == list(MISTAKES)
    for line, reason in zip(lines, MISTAKES.values(), strict=True):
        assert reason in line
        assert line.endswith(" more)")
    assert "Traceback" not in said


def test_a_second_run_says_the_verdict_again(faulty, copy_of):
    project = copy_of(faulty)
    again = project.snakemake("all")
    assert again.returncode == 1
    assert again.stdout.endswith(project.path("results/local/verdict.txt").read_text())
    assert set(project.pending()) == {"pass_verdict"}


def test_kernels_with_mistakes_have_no_times_and_the_others_and_the_report_are_there(faulty):
    assert faulty.path("results/local/report.pdf").read_bytes()[:5] == b"%PDF-"
    assert (rows(faulty, "summary.csv", "cpu_blas").time_ms > 0).all()
    for kernel in MISTAKES:
        points = rows(faulty, "summary.csv", kernel)
        assert set(points.status) == {"failed"} and points.time_ms.isna().all()


def test_the_verdict_is_there_although_there_is_no_report(faulty, copy_of):
    project = copy_of(faulty)
    project.edit("reports/report.typ", "\n#panic()\n")
    for name in ("verdict.txt", "tables.json"):
        project.path(f"results/local/{name}").unlink()
    run = project.snakemake("all")
    assert run.returncode == 1
    assert "report.typ" in run.stdout
    assert run.stdout.endswith(project.path("results/local/verdict.txt").read_text())


# Beside a published data set.


def test_a_slower_kernel_fails_the_comparison_and_leaves_its_files(finished, copy_of):
    project = copy_of(finished)
    publish(project)
    path = project.path("results/local/summary.csv")
    summary = read_table("summary.csv", path)
    write_table(summary.assign(**(summary[TIMES] * 1000)), "summary.csv", path)
    project.path("results/.written.json").unlink()  # or the table would count as cut
    # Of what needs a GPU nothing is made anew.
    run = project.snakemake("compare", "--allowed-rules", "compare", "--config", "device=gpu")
    assert run.returncode == 1
    text = project.path("results/local/compare.txt").read_text()
    assert re.search(r"^cpu_loop +slower ", text, re.MULTILINE)
    assert text in run.stdout
    assert "slower" in set(pd.read_csv(project.path("results/local/compare.csv")).verdict)


# The jobs of a run.


@pytest.mark.parametrize(
    ("most", "arguments"),
    [(70, ("--config", "device=cpu")), (150, ("--config", "device=gpu")),
     (60, ("--config", "device=cpu", "--configfile", "config/quick.yaml"))],
    ids=["without a GPU", "with a GPU", "quick"],
)  # fmt: skip
def test_a_run_has_few_jobs(fresh, most, arguments):
    """Each costs a second; a plan for a GPU needs none."""
    jobs = fresh().job_counts("all", *arguments, configfile="config/config.yaml")
    assert {"measure_part", "verify_operation", "typeset"} <= set(jobs)
    assert sum(jobs.values()) <= most


@pytest.mark.parametrize(
    ("arguments", "cores"),
    [((), {"gpu": 2, "cpu_loop": 2}),
     (("--resources", "gpu=2"), {"gpu": 1, "cpu_loop": 2})],
    ids=["one GPU", "two GPUs"],
)  # fmt: skip
def test_nothing_runs_beside_a_timing_job_but_those_on_other_gpus(fresh, arguments, cores):
    project = fresh()
    mine = project.add_kernel("mine", RIGHT_KERNEL)
    project.write_catalogue("cpu_loop", "cublas_sgemm", added=mine)
    rule = project.path("workflow/rules/measure.smk")
    text, messages = re.subn(r"    message:\n        \"measure \{.*\n", "", rule.read_text())
    assert messages == 1
    rule.write_text(text)  # a job without a message is shown with its threads
    said = project.done("measure", "--dry-run", "--config", "device=gpu", *arguments)
    jobs = re.findall(r"wildcards: sweep=gemm, part=(\w+)\n(?: +threads: (\d+))?", said)
    assert {part: int(threads or 1) for part, threads in jobs} == cores


def test_folders_may_have_spaces_and_quotes_in_their_names(fresh, tmp_path):
    project = fresh()
    project.write_catalogue("cpu_loop")
    project.configure(catalogue="my 'kernels'/test.yaml")
    folder = shutil.move(project.folder, tmp_path / "a student's folder")
    moved = Project(folder, project.environment)
    shutil.copytree(moved.path("kernels"), moved.path("my 'kernels'"))
    moved.done("results/local/summary.csv")
