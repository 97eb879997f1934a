"""What a run compiles, measures and shows follows from its configuration and its device."""

from typing import Any

import pytest
from support import experiment, the_catalogue

from matmul_sweep.experiment.plan.experiment import Experiment, read_experiment
from matmul_sweep.operations.gemm import Gemm
from matmul_sweep.operations.shapes import Shape

GIVEN = {"operation": "gemm", "shapes": [4096, 64]}
DRAWN = {"operation": "gemm", "shapes": {"random": 4, "seed": 1, "from": 64, "to": 4096}}
BOTH = {"given": GIVEN, "drawn": DRAWN}


def names(variants: Any) -> set[str]:
    return {variant.name for variant in variants}


def compiled(run: Experiment) -> set[str]:
    return names(variant for own in run.binaries.values() for variant in own)


def chosen(shapes: list[Shape]) -> set[str]:
    """What sgemm chooses on sm_90."""
    return names(the_catalogue().variant("sgemm").part(shape, "sm_90") for shape in shapes)


def test_what_only_a_dispatch_names_is_compiled_with_a_gpu_or_if_everything_is_verified():
    run = experiment("sgemm", sweeps=BOTH)
    given, drawn = ([case.shape for case in run.cases(name)] for name in BOTH)
    assert chosen(given) < chosen(given + drawn)
    assert compiled(run) == set()
    assert compiled(experiment("sgemm", sweeps=BOTH, verify="all")) == chosen(given)
    assert compiled(experiment("sgemm", sweeps=BOTH, device="gpu")) == chosen(given + drawn)


def test_a_changed_tiling_changes_the_binaries_of_its_kernel_alone(entry, write_catalogue):
    identities = []
    for width in (8, 16):
        mine = entry(threads=["W", "W"], tile=["W", "W"], tilings={"t": {"W": width}})
        run = experiment(catalogue=write_catalogue({"mine": mine, "yours": entry()}))
        identities.append([run.build_identity("sm_90", name) for name in ("mine", "yours")])
    (mine, yours), (other, same) = identities
    assert mine != other and yours == same


def test_what_is_timed_alone_runs_on_the_gpu_in_one_job_also_where_jobs_are_spread():
    kernels = ("cpu_blas", "naive/32", "shared/32", "cublas_tuned")
    sweeps = {"given": GIVEN, "apart": GIVEN | {"caches": ["alone"]}}
    run = experiment(*kernels, sweeps=sweeps, device="gpu", spread=True)
    jobs = {key: [v.name for v in own] for key, own in run.measured.items()}
    assert jobs["apart", "gpu"] == ["naive/32", "shared/32", "cublas_tuned"]
    assert {part for sweep, part in jobs if sweep == "given"} == {"cpu_blas", "naive", "shared"}


def test_a_sweep_says_how_its_points_are_measured_small_shapes_first():
    own = GIVEN | {"copies": ["naive/16"], "cold": ["cpu_blas"], "cpu_without": ["4096x4096x4096"],
                   "sampling": {"minimum": 7}}  # fmt: skip
    run = experiment(sweeps={"given": own}, limits__gpu_seconds=3, limits__cpu_seconds=4)
    variants = map(the_catalogue().variant, ("naive/32", "naive/16", "cpu_blas"))
    plain, copied, host = (run.settings("given", variant) for variant in variants)
    assert plain.sampling.copies is host.sampling.copies is None is not copied.sampling.copies
    assert (plain.caches, host.caches) == (("hot",), ("hot", "cold"))
    assert (plain.limits.launch_seconds, host.limits.launch_seconds) == (3, 4)
    common = run.configuration["sampling"]
    assert (plain.sampling.minimum, plain.sampling.maximum) == (7, common["maximum"])
    assert (plain.sampling.seconds, host.sampling.seconds) == (
        common["seconds"], common["cpu_seconds"]
    )  # fmt: skip
    assert [case.shape.m for case in run.cases("given")] == [64, 4096]
    assert run.spared("given", the_catalogue().variant("cpu_blas")) == {Gemm(4096, 4096, 4096)}
    assert run.spared("given", the_catalogue().variant("naive/32")) == set()


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"verify": "all"}, True),
        ({"seed": 1}, False),
        ({"sampling__seconds": 9}, True),  # cpu_seconds counts
        ({"sampling__cpu_seconds": 9}, False),
        ({"fills": ["digits"]}, False),
        ({"sweeps": {"gemm": {"operation": "gemm", "shapes": [8]}}}, False),
    ],
    ids=str,
)
def test_a_job_measures_again_after_a_change_of_how_or_where(tmp_path, changes, same):
    """The identity is that of the experiment in the file, which jobs read."""
    experiment("cpu_blas", **changes).write(tmp_path / "e.json")
    identity = read_experiment(tmp_path / "e.json").measuring_identity("gemm", "cpu_blas")
    assert (identity == experiment("cpu_blas").measuring_identity("gemm", "cpu_blas")) == same


def test_the_machine_code_that_is_read_is_of_what_the_pages_show():
    kernels = ["naive", "naive_rect", "vectors", "sgemm", "cublas_sgemm"]
    run = experiment(*kernels, sweeps=BOTH)
    assert names(variant for _, variant in run.taken_apart) == {"naive/32", "vectors/128"}
    shown = experiment(*kernels, sweeps=BOTH, device="gpu")
    parts = names(variant for _, variant in shown.taken_apart)
    taken = chosen([case.shape for case in run.cases("given")])
    assert parts == {"naive/32", "naive/16", "vectors/128"} | taken
    assert len(shown.taken_apart) == len(set(shown.taken_apart))
    assert parts <= compiled(shown)
