"""The configuration: each mistake is one line that names the files, the key and the value."""

import copy
import re
from typing import Any

import pytest
import yaml
from snakemake.utils import update_config
from support import DEFAULT as CONFIGURATION
from support import ROOT, changed, the_catalogue

from matmul_sweep.experiment.plan.configuration import check_configuration, chosen_jobs
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.project import DEFAULT_CATALOGUE

DEFAULT = CONFIGURATION | {"catalogue": str(DEFAULT_CATALOGUE)}

RANDOM = {"random": 5, "seed": 1, "from": 64, "to": 4096}


# A key and its value, and the line after the names of the files.
REFUSED = [
    ("colour", "red", "unknown key 'colour'; known are catalogue, kernels, device, "),
    ("device", "tpu", "device: 'tpu': input should be 'auto', 'gpu' or 'cpu'"),
    ("architectures", ["90"], "architectures.0: '90': "),
    ("modes", ["burst", "burst"], "modes: '['burst', 'burst']': a value is there twice"),
    ("kernels", ["naive/17"], "kernels: variant 'naive/17': the catalogue has naive/32, naive/16"),
    ("kernels", ["naive-16"], "kernels: 'naive-16' is how files are named; write naive/16"),
    ("limits.hang_seconds", 1, "sweeps.gemm: limits: hang_seconds: 1 is below the gpu_"),
    ("sweeps.mine", {}, "sweeps.mine: 'operation' is missing"),
    ("sweeps.a b", {"operation": "gemm", "shapes": []}, "sweeps: 'a b': "),
    ("sweeps.gram.kernels", ["naive"], "sweeps.gram.kernels: 'naive' does not compute gram; gram"),
    ("sweeps.gemm.caches", ["hot", "rotated"], "sweeps.gemm: caches: 'rotated' is of earlier"),
    ("sweeps.gemm.caches", ["cold"], "sweeps.gemm: cold: other kernels would have no ca"),
    ("sweeps.gram.sampling", {"maximum": 5}, "sweeps.gram: sampling: maximum is below minimum"),
    ("sweeps.gram.shapes", ["7x7x7"], "sweeps.gram.shapes[0]: gram shape '7x7x7': write a whole "),
    ("sweeps.gram.verify_shapes", [0], "sweeps.gram.verify_shapes[0]: shape '0': every dimension "),
    ("sweeps.gram.cpu_without", ["7x7x7"], "sweeps.gram.cpu_without[0]: gram shape '7x7x7': "),
    ("sweeps.gemm.shapes", RANDOM | {"colour": 1}, "sweeps.gemm.shapes: unknown key 'colour'; "
     "known are random, seed, from, to, operations"),
    ("sweeps.gemm.shapes", RANDOM | {"to": "9x9"}, "sweeps.gemm.shapes: to: gemm shape '9x9': "),
    ("sweeps.gemm.shapes", RANDOM | {"to": "99x32x99"}, "sweeps.gemm.shapes: from: n is 64, above "
     "32 in to; exchange them"),
    ("sweeps.gemm.shapes", RANDOM | {"operations": 7}, "sweeps.gemm.shapes: random: 5 shapes from "
     "64x64x64 to 4096x4096x4096 of at most 7 operations: found only 0; ask for fewer"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "said"), REFUSED)
def test_a_mistake_is_one_line_naming_files_key_and_value(key, value, said):
    line = re.escape(f"config/config.yaml + mine.yaml: {said}")
    with pytest.raises(UserError, match=f"^{line}"):
        check_configuration(changed(DEFAULT, {key: value}), ["config/config.yaml", "mine.yaml"])


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.yaml")), ids=lambda f: f.name)
def test_the_projects_own_configurations_pass(file):
    config = copy.deepcopy(DEFAULT)
    update_config(config, yaml.safe_load(file.read_text()))  # as --configfile does
    check_configuration(config | {"catalogue": DEFAULT["catalogue"]}, [str(file)])


def chosen(device: str, changes: dict[str, Any]) -> dict[str, set[str]]:
    """The variants of each sweep."""
    jobs = chosen_jobs(changed(DEFAULT, changes), the_catalogue(), device)
    return {name: {variant.name for variant in own.values()} for name, own in jobs.items()}


def test_a_sweep_takes_the_kernels_of_its_operation_that_it_may_measure():
    on_cpu, on_gpu = chosen("cpu", {"sweeps.gram.shapes": []}), chosen("gpu", {})
    assert "gram" not in on_cpu and "gram" in on_gpu
    assert {"naive/32", "cpu_loop", "cublas_sgemm"} < on_cpu["gemm"] == on_gpu["gemm"]
    assert not on_gpu["gemm"] & on_gpu["gram"]
    spared = chosen("cpu", {"sweeps.gemm.shapes": [64], "sweeps.gemm.cpu_without": [64]})
    assert on_cpu["gemm"] - spared["gemm"] == {"cpu_loop", "cpu_blas"}
    with pytest.raises(UserError, match="nothing to measure"):
        chosen("cpu", {"sweeps.gram.shapes": [], "kernels": ["gram_naive"]})


DOCUMENTS = {
    "gemm": {"cpu_loop", "cpu_blas", "naive", "shared", "naive_rect", "shared_rect",
             "shared_rect_split", "cublas_sgemm"},
    "gram": {"gram_naive", "gram_register_tile", "cublas_dgemm", "cublas_dsyrk",
             "cublas_dsyrk_triangle"},
}  # fmt: skip


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_the_default_run_has_the_systems_of_the_documents(device):
    for operation, systems in DOCUMENTS.items():
        assert systems <= {name.partition("/")[0] for name in chosen(device, {})[operation]}


def test_the_configured_documents_have_every_size_of_the_documents():
    sweeps = yaml.safe_load((ROOT / "config" / "documents.yaml").read_text())["sweeps"]
    assert {*sweeps["gemm"]["shapes"]} >= {32 * 2**i for i in range(10)} | {
        320, 640, 6400, 14400, "3200x2400x1600",
    }  # fmt: skip
    halves = [(n // 2, n) for n in range(500, 20501, 1000)]
    both = {f"{rows}x{columns}" for m, n in halves for rows, columns in ((m, n), (n, m))}
    assert {*sweeps["gram"]["shapes"]} >= {*range(500, 18501, 1000)} | both


def test_a_document_that_nobody_knows_is_named(entry, write_catalogue):
    path = write_catalogue({"mine": entry(documents=["009"])})
    with pytest.raises(UserError, match="mine: documents: '009' is not one of 000, 001, 002"):
        check_configuration(changed(DEFAULT, {"catalogue": str(path)}), [])
