"""The keys of the configuration, config/config.yaml and what --configfile and --config add: what
each means, and what it may be. Whoever checks imports it, because pydantic takes its time."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, Required, TypeAlias, TypeVar

from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from matmul_sweep.experiment.dataset import words
from matmul_sweep.operations import OPERATIONS, fills

STRICT = with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))


def unique(values: list[Any]) -> list[Any]:
    """Raises ValueError for a repeated value."""
    if len({*values}) < len(values):
        raise ValueError("a value is there twice")
    return values


if TYPE_CHECKING:
    Cache: TypeAlias = str
    Fill: TypeAlias = str
    Mode: TypeAlias = str
    Operation: TypeAlias = str
else:
    Cache, Fill = Literal[words.CACHES], Literal[fills.FILLS]
    Mode, Operation = Literal[words.MODES], Literal[tuple(OPERATIONS)]

Kind = TypeVar("Kind")
Some = Annotated[list[Kind], Field(min_length=1), AfterValidator(unique)]
Kernels = Literal["all"] | Some[str]
Shapes = list[int | str]
Count = Annotated[int, Field(ge=1)]
Above0 = Annotated[float, Field(gt=0)]
From0 = Annotated[float, Field(ge=0)]
Architecture = Annotated[str, Field(pattern=r"^sm_[0-9]+[a-z]?$")]
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
Place = Annotated[str, Field(pattern=r"^[^{}\n]+$")]


@STRICT
class Sampling(TypedDict, total=False):
    """How many samples a point has.

    minimum: Fewest samples per point, 1 or more.
    maximum: Most samples per point, 1 or more.
    interval: Wanted half-width of the median's 95% interval, as a share of it.
    seconds: Seconds of sampling per point and cache.
    cpu_seconds: The same for CPU variants, if it is another.
    sample_seconds: Seconds of launches in a row that are timed as one sample; 0 times each launch.
    copy_seconds: Seconds of sampling per copy phase.
    warm_seconds: Seconds of launches before the samples of a burst point.
    load_seconds: Seconds of launches before the samples of a sustained point.
    """

    minimum: Count
    maximum: Count
    interval: Above0
    seconds: Above0
    cpu_seconds: Above0
    sample_seconds: From0
    copy_seconds: Above0
    warm_seconds: From0
    load_seconds: From0


@STRICT
class Limits(TypedDict, total=False):
    """What a job waits for, skips and gives up.

    gpu_seconds: Longest launch on the GPU, in seconds.
    cpu_seconds: Longest product on the CPU, in seconds.
    hang_seconds: Seconds after which an unfinished launch, and its job, is given up.
    memory_share: Share of the free memory that a point may take.
    cool_celsius: A card above it is left to cool before a point, in °C.
    cool_seconds: Most seconds that a job waits for cooling.
    """

    gpu_seconds: Above0
    cpu_seconds: Above0
    hang_seconds: Above0
    memory_share: Annotated[float, Field(gt=0, le=1)]
    cool_celsius: Above0
    cool_seconds: From0


Drawn = TypedDict(
    "Drawn",
    {
        "random": Count,
        "seed": Annotated[int, Field(ge=0)],
        "from": int | str,
        "to": int | str,
        "operations": NotRequired[Above0],
    },
)
Drawn.__doc__ = """Shapes that are drawn at random.

    random: How many shapes to draw, 1 or more.
    seed: A whole number from 0 on; another one draws other shapes.
    from: The smallest dimensions, as a shape.
    to: The largest dimensions, as a shape.
    operations: The most floating-point operations of a shape.
"""
STRICT(Drawn)


@STRICT
class Sweep(TypedDict, total=False):
    """Shapes of an operation, and keys that override those of the same name outside.

    operation: One of src/matmul_sweep/operations.
    shapes: Square sizes such as 640, or MxNxK (gemm) and MxN (gram), an empty list measures
        nothing; or {random: 200, seed: 1, from: 64, to: 4096} for shapes drawn at random.
    kernels: all, or a list of kernels of the catalogue and of variants such as shared/16.
    cpu_without: Shapes that take too long on the CPU and are not measured there; the data set lists
        each as skipped.
    without_gpu: Whether it is measured only in a run without a GPU.
    verify_shapes: Shapes to verify in addition to the built-in ones.
    copies: Kernels for which copies, end to end and unified memory are timed too: all, or a list,
        which may be empty.
    cold: Kernels that are also timed cold, if caches contains cold: all, or a list.
    fills: Contents of the inputs, in place of the common ones.
    modes: burst, sustained or both, in place of the common ones.
    caches: hot and cold, or alone by itself, in place of the common ones.
    sampling: How many samples a point has, where it differs.
    limits: What a job waits for, skips and gives up, where it differs.
    """

    operation: Required[Operation]
    shapes: Required[Shapes | Drawn]
    kernels: Kernels
    cpu_without: Shapes
    without_gpu: bool
    verify_shapes: Shapes
    copies: Literal["all"] | Annotated[list[str], AfterValidator(unique)]
    cold: Kernels
    fills: Some[Fill]
    modes: Some[Mode]
    caches: Some[Cache]
    sampling: Sampling
    limits: Limits


@STRICT
class Configuration(TypedDict):
    """The whole configuration.

    catalogue: The catalogue of kernels, relative to the working directory; a path without { and }.
    kernels: all, or a list of kernels of the catalogue and of variants such as shared/16.
    device: auto, gpu or cpu.
    architectures: Compute architectures such as sm_90, the targets to compile for where there is no
        GPU.
    verify: measured, or all: without a GPU also the variants that only a dispatch names.
    published: linked, or rebuild: without a GPU also the reports of the published data sets.
    sweeps: What to measure, by name; the figures over sizes draw the sweeps gemm and gram.
    fills: Contents of the inputs: uniform, normal, constant, digits or index; each is measured.
    modes: burst (samples after warm_seconds of launches), sustained (after load_seconds), or both.
    seed: A whole number from 0 to 4294967295.
    caches: hot (launches in a row), cold (the L2 cleared before each), or by itself alone (blocks
        of launches of one kernel).
    sampling: How many samples a point has.
    limits: What a job waits for, skips and gives up.
    """

    catalogue: Place
    kernels: Kernels
    device: Literal["auto", "gpu", "cpu"]
    architectures: Some[Architecture]
    verify: Literal["measured", "all"]
    published: Literal["linked", "rebuild"]
    sweeps: Annotated[dict[Name, Sweep], Field(min_length=1)]
    fills: Some[Fill]
    modes: Some[Mode]
    seed: Annotated[int, Field(ge=0, le=2**32 - 1)]
    caches: Some[Cache]
    sampling: Sampling
    limits: Limits
