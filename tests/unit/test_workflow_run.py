"""What a run decides for the rules of the workflow, without a run of Snakemake."""

import copy
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import DEFAULT

from matmul_sweep.experiment.dataset import provenance
from matmul_sweep.experiment.dataset.provenance import COMMIT_VARIABLE, commit
from matmul_sweep.experiment.dataset.tables import DATA_SET
from matmul_sweep.experiment.plan import configuration
from matmul_sweep.experiment.plan.workflow import CEILINGS, LOCAL, Run
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import write_json
from matmul_sweep.process.project import DEFAULT_CATALOGUE

CONFIGURED = {
    "catalogue": str(DEFAULT_CATALOGUE),
    "kernels": ["naive", "cpu_blas"],
    "sweeps": {"mine": {"operation": "gemm", "shapes": [8]}},
}
MINE = "0123456789" * 4  # a commit


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_gpu: None) -> Callable[..., Run]:
    """Starts a run of naive and cpu_blas on 8 cores and for 2 GPUs in an empty folder; with what
    --config gives, and where `away`, on other machines."""
    monkeypatch.chdir(tmp_path)

    def begun(away: bool = False, elsewhere: bool = False, **given: Any) -> Run:
        config = copy.deepcopy(DEFAULT | CONFIGURED)
        workflow = SimpleNamespace(
            is_main_process=False,
            configfiles=[],
            config_settings=SimpleNamespace(config=given),
            resource_scopes=SimpleNamespace(is_local=lambda resource: away),
            resource_settings=SimpleNamespace(cores=8),
            global_resources={"gpu": SimpleNamespace(value=2)},
            non_local_exec=away or elsewhere,
            executor_settings=None,
        )
        return Run(workflow, config, tmp_path)

    return begun


def job(**wildcards: str) -> Any:
    """The wildcards of a job."""
    return SimpleNamespace(**wildcards, get=wildcards.get)


ON_GPU, ON_CPU = job(sweep="mine", part="gpu"), job(sweep="mine", part="cpu_blas")


def test_a_run_without_a_gpu_measures_what_runs_on_the_cpu(begin):
    run = begin()
    assert run.measured() == [LOCAL / "measured" / "mine" / "cpu_blas"]
    assert run.collected() == [LOCAL / name for name in DATA_SET]
    assert run.tools("ceilings") == run.to_measure(ON_CPU) == []
    assert (run.gpus(ON_CPU), run.undisturbed_cores(ON_CPU)) == (0, 8)
    assert LOCAL / "loads.csv" in run.evidence(job(dataset="local"))


def test_a_run_with_gpus_gives_each_of_its_jobs_a_share_of_the_cores(begin):
    run = begin(device="gpu", architectures=["sm_80"])
    parts = [LOCAL / "measured" / "mine" / part for part in ("cpu_blas", "gpu")]
    assert run.measured() == [*parts, LOCAL / "measured" / CEILINGS]
    assert run.collected()[-1] == LOCAL / CEILINGS
    build = LOCAL / "build" / "sm_80"
    assert run.to_measure(ON_GPU) == [build / "naive", build / "instruments.cubin"]
    assert (run.gpus(ON_GPU), run.gpus(ON_CPU), run.gpus(job())) == (1, 0, 1)
    assert (run.undisturbed_cores(ON_GPU), run.undisturbed_cores(ON_CPU)) == (4, 8)
    assert LOCAL / "counters.csv" in run.evidence(job(dataset="local"))


def test_on_a_cluster_each_kernel_is_a_job_for_a_gpu_that_nobody_looks_for_here(begin, monkeypatch):
    monkeypatch.setattr(configuration, "gpus", lambda: pytest.fail("this machine was asked"))
    run = begin(away=True)
    run.check({"measure_part"})
    assert (run.device, run.machine) == ("gpu", "")
    assert [file.name for file in run.measured()] == ["cpu_blas", "naive", CEILINGS]
    assert run.undisturbed_cores(job(sweep="mine", part="naive")) == 1
    assert begin(away=True, device="cpu").device == "cpu"


def test_published_sets_that_are_whole_stand_beside_and_are_reported_if_asked_for(begin, tmp_path):
    whole, other, cut = (tmp_path / "reports" / "published" / name for name in "abc")
    for folder, name in ((whole, "device.json"), (other, "device.json"), (cut, "summary.csv")):
        folder.mkdir(parents=True)
        (folder / name).touch()
    run = begin()
    assert run.published() == [whole, other]
    assert run.reported() == ["local"]
    assert begin(published="rebuild").reported() == ["local", "published/a", "published/b"]
    assert run.beside(job(dataset="local")) == [whole, other]
    assert run.beside(job(dataset="published/a")) == [other]
    assert run.checks(job(dataset="published/a")) == []


def test_a_number_inside_a_mapping_of_the_command_line_is_a_number(begin):
    """Snakemake leaves it as text."""
    mine = {"shapes": ["9"], "without_gpu": "true"}
    given = {"sampling": {"maximum": "20", "seconds": "0.5"}, "sweeps": {"mine": mine}}
    run = begin(**given, seed=7)
    assert run.config["sampling"] == DEFAULT["sampling"] | {"maximum": 20, "seconds": 0.5}
    assert run.config["sweeps"]["mine"] == {"operation": "gemm", "shapes": [9], "without_gpu": True}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"architectures": ["sm_90a", "sm_90x"]}, "error: architectures: 'sm_90x' is not one that"),
        ({"sampling": {"seconds": "nan"}}, "error: --config: sampling.seconds: 'nan': input should "
         "be a finite number"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_ends_the_run(begin, given, said):
    with pytest.raises(SystemExit, match=said):
        begin(**given)


def test_results_of_a_gpu_are_not_replaced_by_those_of_a_cpu_unasked(begin):
    write_json({"gpu": "NVIDIA H100"}, LOCAL / "measured" / "mine" / "gpu" / "j" / "facts.json")
    with pytest.raises(SystemExit, match="results/local was measured on NVIDIA H100"):
        begin()
    assert begin(device="cpu").device == "cpu"
    assert begin(device="gpu").device == "gpu"


@pytest.mark.parametrize(
    ("given", "rule", "said"),
    [
        ({"device": "gpu"}, "measure_part", "device: gpu: there is no NVIDIA driver"),
        ({}, "compare", "compare: there is no GPU here"),
        ({"elsewhere": True}, "measure_part", "jobs are sent to other machines, but GPUs are"),
        ({"device": "gpu"}, "compile_kernel", None),
        ({"away": True}, "measure_part", None),
        ({}, "measure_part", None),
    ],
)
def test_what_cannot_succeed_is_refused_before_the_first_job(begin, given, rule, said):
    run = begin(**given)
    if said is None:
        run.check({rule})
        return
    with pytest.raises(UserError, match=said):
        run.check({rule})


@pytest.mark.parametrize(("given", "told"), [(MINE, False), (f"{MINE}-dirty", True), ("", True)])
def test_what_cannot_be_published_is_said_at_first(begin, monkeypatch, capsys, given, told):
    monkeypatch.setenv("PATH", "")  # no git
    monkeypatch.setenv(COMMIT_VARIABLE, given)
    run = begin(away=True)
    run.check({"measure_part"})
    assert ("`publish` will refuse it" in capsys.readouterr().err) == told
    run.check({"draw_figures"})
    assert not capsys.readouterr().err


def test_git_tells_the_commit_and_whether_files_differ_from_it(monkeypatch, tmp_path):
    """Nothing in a folder that only lies in a clone."""
    monkeypatch.delenv(COMMIT_VARIABLE, raising=False)
    git = ["git", "-C", tmp_path, "-c", "user.name=me", "-c", "user.email=me@here"]
    unknown, folder = {"commit": "unknown", "dirty": True}, tmp_path / "folder"
    folder.mkdir()
    for command in (["init"], ["commit", "--allow-empty", "-m", "the first"]):
        monkeypatch.setattr(provenance, "ROOT", tmp_path)
        assert commit() == unknown
        subprocess.run([*git, *command], check=True, capture_output=True)
        monkeypatch.setattr(provenance, "ROOT", folder)
        assert commit() == unknown
    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True).stdout
    assert commit() == {"commit": head.strip(), "dirty": False}
    (tmp_path / "new").touch()
    assert commit() == {"commit": head.strip(), "dirty": True}


def test_the_variable_of_the_commit_leads_and_is_refused_if_it_is_no_whole_one(begin, monkeypatch):
    monkeypatch.setenv(COMMIT_VARIABLE, MINE)
    assert commit() == {"commit": MINE, "dirty": False}
    monkeypatch.setenv(COMMIT_VARIABLE, MINE[:12])
    run = begin()
    with pytest.raises(UserError, match="MATMUL_SWEEP_COMMIT is '012345678901', no whole commit: "):
        run.check({"measure_part"})
