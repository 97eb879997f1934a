"""The configuration: each mistake is one line that names the files, the key and the value."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from snakemake.utils import update_config
from support import ROOT, Entry, WriteCatalogue, the_catalogue

from matmul_sweep.experiment.dataset.sweeps import sweep_of
from matmul_sweep.experiment.plan import configuration
from matmul_sweep.experiment.plan.configuration import (
    check_configuration,
    chosen_jobs,
    resolve_device,
    spared,
)
from matmul_sweep.launch.driver import NoDevice
from matmul_sweep.operations import parse_shape
from matmul_sweep.process.errors import UserError

DEFAULT = yaml.safe_load((ROOT / "config" / "config.yaml").read_text())
DEFAULT["catalogue"] = str(ROOT / DEFAULT["catalogue"])

RANDOM = {"random": 5, "seed": 1, "from": 64, "to": 4096}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The default configuration with some keys set; `a.b` is key b of section a."""
    config = copy.deepcopy(DEFAULT)
    for key, value in changes.items():
        *sections, last = key.split(".")
        place = config
        for section in sections:
            place = place[section]
        place[last] = value
    return config


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"colour": "red"}, ["colour"]),
        ({"sweeps.mine": {}}, ["sweeps.mine", "operation"]),
        ({"sweeps.a b": {}}, ["sweeps", "a b"]),
        ({"sweeps.gemm.operation": "spmv"}, ["sweeps.gemm.operation", "spmv"]),
        ({"sweeps.gram.kernels": ["naive"]}, ["sweeps.gram.kernels", "'naive'", "gram_naive"]),
        ({"kernels": ["naive/17"]}, ["kernels", "naive/17", "naive/32, naive/16"]),
        ({"kernels": ["naive-16"]}, ["kernels", "naive-16", "write naive/16"]),
        ({"sweeps.gram.fills": ["ones"]}, ["sweeps.gram.fills.0", "ones"]),
        ({"sweeps.gram.shapes": ["64x64x64"]}, ["sweeps.gram.shapes[0]", "'64x64x64'", "MxN"]),
        ({"sweeps.gram.verify_shapes": [0]}, ["sweeps.gram.verify_shapes[0]", "'0'"]),
        ({"sweeps.gram.cpu_without": ["7x7x7"]}, ["sweeps.gram.cpu_without[0]", "'7x7x7'"]),
        ({"sweeps.gram.without_gpu": "yes"}, ["sweeps.gram.without_gpu", "yes"]),
        ({"sweeps.gram.copies": ["naive"]}, ["sweeps.gram.copies", "'naive'", "gram_naive"]),
        ({"sweeps.gram.cold": ["naive"]}, ["sweeps.gram.cold", "'naive'", "gram_naive"]),
        (
            {"sweeps.gemm.caches": ["cold"], "sweeps.gemm.cold": ["naive"]},
            ["sweeps.gemm", "cold", "add hot to caches"],
        ),
        ({"sweeps.gram.sampling": {"maximum": 5}}, ["gram", "maximum", "minimum"]),
        ({"sweeps.gram.limits": {"cpu_seconds": 0}}, ["sweeps.gram.limits.cpu_seconds", "0"]),
        ({"sweeps.gemm.shapes": [640.5]}, ["shapes.0", "640.5"]),
        ({"sweeps.gemm.shapes": RANDOM | {"colour": 1}}, ["gemm.shapes", "'colour'", "operations"]),
        ({"sweeps.gemm.shapes": {"random": 4}}, ["gemm.shapes", "'seed' is missing"]),
        ({"sweeps.gemm.shapes": RANDOM | {"to": "9x9"}}, ["gemm.shapes", "to: ", "'9x9'", "MxNxK"]),
        (
            {"sweeps.gemm.shapes": RANDOM | {"to": "99x32x99"}},
            ["sweeps.gemm.shapes: from", "n is 64, above 32 in to", "exchange"],
        ),
        (
            {"sweeps.gemm.shapes": RANDOM | {"operations": 7}},
            ["sweeps.gemm.shapes: random: 5 shapes", "at most 7", "found only 0", "ask for fewer"],
        ),
        ({"sweeps.gemm.kernels": ["sgemm/*"]}, ["gemm.kernels", "'sgemm/*'", "has sgemm"]),
        ({"kernels": "naive"}, ["kernels", "naive"]),
        ({"device": "tpu"}, ["device", "tpu", "cpu"]),
        ({"architectures": ["90"]}, ["architectures.0", "90"]),
        ({"fills": ["ones"]}, ["fills.0", "ones", "constant"]),
        ({"seed": -1}, ["seed", "-1"]),
        ({"seed": 7.0}, ["seed", "7.0"]),
        ({"sampling.minimum": 0}, ["sampling.minimum", "0"]),
        ({"sampling.copy_seconds": "1s"}, ["sampling.copy_seconds", "1s"]),
        ({"limits.memory_share": 1.5}, ["limits.memory_share", "1.5"]),
        (
            {"limits.hang_seconds": 1, "limits.gpu_seconds": 2},
            ["hang_seconds: 1 is below the gpu_seconds of this sweep, 2; raise it"],
        ),
    ],
    ids=str,
)
def test_a_mistake_is_one_line_naming_files_key_and_value(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], named: list[str]
) -> None:
    monkeypatch.setattr(configuration, "load_catalogue", lambda path: the_catalogue())
    with pytest.raises(UserError) as caught:
        check_configuration(changed(changes), ["config/config.yaml", "mine.yaml"])
    message = str(caught.value)
    assert message.startswith("config/config.yaml + mine.yaml")
    assert "\n" not in message
    for fragment in named:
        assert fragment in message


def test_a_missing_key_is_named() -> None:
    config = {key: value for key, value in DEFAULT.items() if key != "seed"}
    with pytest.raises(UserError, match="'seed'"):
        check_configuration(config, ["mine.yaml"])


@pytest.mark.parametrize("file", sorted((ROOT / "config").glob("*.yaml")), ids=lambda f: f.name)
def test_the_projects_own_configurations_pass(file: Path) -> None:
    config = copy.deepcopy(DEFAULT)
    update_config(config, yaml.safe_load(file.read_text()))  # as --configfile does
    check_configuration(config | {"catalogue": DEFAULT["catalogue"]}, [str(file)])


def test_documents_sweep_has_every_size_of_the_documents() -> None:
    sweeps = yaml.safe_load((ROOT / "config" / "documents.yaml").read_text())["sweeps"]
    shapes = set(sweeps["gemm"]["shapes"])
    doubling = {32 * 2**i for i in range(10)}
    assert shapes >= doubling | {320, 640, 6400, 14400, "3200x2400x1600", "1000x1001x999"}
    assert max(doubling) == 16384
    squares = {str(n) for n in range(500, 18501, 1000)}
    halves = [(n // 2, n) for n in range(500, 20501, 1000)]
    others = {f"{rows}x{columns}" for m, n in halves for rows, columns in ((m, n), (n, m))}
    ladder = {"1024", "2048", "4096", "8192", "12288", "16384"}
    ladder |= {
        "100000x512",
        "512x16384",
        "33333x777",
    }  # rivals are compared there too
    assert {str(shape) for shape in sweeps["gram"]["shapes"]} == squares | others | ladder


def test_a_sweeps_own_keys_stand_over_the_common_ones() -> None:
    own = {
        "caches": ["hot"],
        "modes": ["sustained"],
        "sampling": {"seconds": 7},
        "limits": {"cpu_seconds": 8},
    }
    config = changed({f"sweeps.gram.{key}": value for key, value in own.items()})
    gemm, gram = sweep_of(config, "gemm"), sweep_of(config, "gram")
    assert (gram["caches"], gram["modes"], gram["fills"]) == (["hot"], ["sustained"], ["uniform"])
    assert gram["sampling"] == config["sampling"] | {"seconds": 7}
    assert gram["limits"] == config["limits"] | {"cpu_seconds": 8}
    assert (gemm["caches"], gemm["sampling"]) == (config["caches"], config["sampling"])


def test_random_shapes_are_a_list_to_all_that_follows() -> None:
    config = changed({"sweeps.gram.shapes": RANDOM | {"to": "20000x9000", "operations": 1e9}})
    sweep, listed = sweep_of(config, "gram"), sweep_of(config, "gemm")
    assert sweep["random"] == config["sweeps"]["gram"]["shapes"]
    assert sweep["shapes"] == sweep_of(config, "gram")["shapes"]
    shapes = [parse_shape(text, "gram") for text in sweep["shapes"]]
    assert len(set(shapes)) == 5
    assert max(shape.operations for shape in shapes) <= 1e9
    assert (listed["random"], listed["shapes"]) == (None, config["sweeps"]["gemm"]["shapes"])


def test_the_cpu_is_spared_some_shapes_of_a_sweep_however_they_are_written() -> None:
    config = changed({"sweeps.gemm.shapes": [64, "8192x8192x8192", "7x8x9"]})
    config["sweeps"]["gemm"]["cpu_without"] = ["64x64x64", 8192, 16384]
    sweep = sweep_of(config, "gemm")
    assert spared(sweep, on_gpu=False) == [64, "8192x8192x8192"]
    assert spared(sweep, on_gpu=True) == []
    config["sweeps"]["gram"]["cpu_without"] = []
    assert spared(sweep_of(config, "gram"), on_gpu=False) == []


def test_a_kernel_of_the_cpu_that_is_spared_every_shape_has_no_job() -> None:
    config = changed({"sweeps.gemm.shapes": [64], "sweeps.gemm.cpu_without": [64]})
    jobs = chosen_jobs(config, the_catalogue(), "cpu")["gemm"]
    assert jobs
    assert all(variant.kernel.on_gpu for variant in jobs.values())


def test_copies_are_timed_for_the_kernels_named_or_for_none() -> None:
    variants = the_catalogue().variants.values()
    for copies, expected in ((["shared", "naive/16"], 3), ([], 0)):
        config = changed({"sweeps.gemm.copies": copies})
        check_configuration(config, [])
        timed = sweep_of(config, "gemm")["copies"]
        assert sum(configuration.named(variant, timed) for variant in variants) == expected


def test_only_the_kernels_named_are_timed_cold() -> None:
    catalogue = the_catalogue()
    sweep = sweep_of(
        changed({"sweeps.gemm.caches": ["hot", "cold"], "sweeps.gemm.cold": ["shared"]}), "gemm"
    )
    assert configuration.caches_of(catalogue.variant("shared"), sweep) == ["hot", "cold"]
    assert configuration.caches_of(catalogue.variant("naive"), sweep) == ["hot"]


def test_a_sweep_without_shapes_is_left_out() -> None:
    catalogue = the_catalogue()
    jobs = chosen_jobs(changed({"sweeps.gram.shapes": []}), catalogue, "cpu")
    assert {variant.kernel.operation for variant in jobs["gemm"].values()} == {"gemm"}
    assert "gram" not in jobs
    with pytest.raises(UserError, match="nothing to measure"):
        chosen_jobs(
            changed({"sweeps.gram.shapes": [], "kernels": ["gram_naive"]}), catalogue, "cpu"
        )


def test_what_is_measured_only_where_it_is_named_is_in_no_sweep_of_all_kernels() -> None:
    catalogue = the_catalogue()
    jobs = chosen_jobs(DEFAULT, catalogue, "cpu")
    assert "cpu_loop_rows" in jobs["processor"]
    assert "cpu_loop_rows" not in jobs["gemm"]
    asked = chosen_jobs(changed({"kernels": ["cpu_loop_rows"]}), catalogue, "gpu")
    assert [*asked["gemm"]] == ["cpu_loop_rows"]


def test_the_lesson_of_the_processor_takes_no_time_of_a_gpu() -> None:
    catalogue = the_catalogue()
    assert set(chosen_jobs(DEFAULT, catalogue, "cpu")["processor"]) == {
        "cpu_loop", "cpu_loop_rows", "cpu_blas",
    }  # fmt: skip
    assert "processor" not in chosen_jobs(DEFAULT, catalogue, "gpu")


@pytest.mark.parametrize(("wanted", "expected"), [("auto", "cpu"), ("cpu", "cpu"), ("gpu", "gpu")])
def test_without_a_gpu_the_configured_architectures_are_compiled_for(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, wanted: str, expected: str
) -> None:
    config = changed({"device": wanted, "architectures": ["sm_80", "sm_90"]})
    assert resolve_device(config) == (expected, ["sm_80", "sm_90"])


def test_gpu_identity_needs_a_gpu(no_gpu: None) -> None:
    with pytest.raises(NoDevice):
        configuration.gpu_identity()


def test_a_document_that_nobody_knows_is_named(
    entry: Entry, write_catalogue: WriteCatalogue
) -> None:
    path = write_catalogue({"mine": entry(documents=["009"])})
    with pytest.raises(UserError, match="mine: documents: '009' is not one of 000, 001, 002"):
        check_configuration(changed({"catalogue": str(path)}), [])
