"""What device.json has to say, and its configuration; whoever checks imports it, because pydantic
takes its time."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from matmul_sweep.catalogue.architectures import ARCHITECTURES
from matmul_sweep.experiment.check.data_set import DataSet
from matmul_sweep.experiment.dataset.intervals import Rule
from matmul_sweep.experiment.dataset.sweeps import sweep_of
from matmul_sweep.experiment.dataset.tables import DIGEST
from matmul_sweep.experiment.plan.configuration import shapes_of
from matmul_sweep.experiment.plan.keys import Above0, Configuration, Count
from matmul_sweep.process.errors import UserError, naming
from matmul_sweep.process.files import remedy
from matmul_sweep.process.models import checked

OPEN = with_config(ConfigDict(extra="allow", strict=True, allow_inf_nan=False))
MOST_SHAPES = 100_000  # of a sweep: who hands in a set may ask for more than memory holds
if TYPE_CHECKING:
    Capability = str
else:
    Capability = Literal[tuple(ARCHITECTURES)]


@OPEN
class Facts(TypedDict):
    """What device.json says, and may say more.

    gpu: The model of the GPU, or null.
    cpu: The model of the processor.
    date: A day, such as 2026-11-25.
    commit: The commit of the programs; several are joined by +.
    dirty: Whether files differed from the commit.
    code: SHA-256 of the program that measured; several are joined by +.
    configuration: What the run was given, with the keys of config/config.yaml.
    uuid: The UUIDs of the cards, joined by +.
    compute_capability: Such as 9.0, of src/matmul_sweep/catalogue/architectures.py.
    multiprocessors: Their number.
    clock_mhz: The highest clock of the multiprocessors.
    memory_bytes: The size of the memory.
    l2_bytes: The size of the L2.
    power_limit_w: The power limit in W, or null.
    """

    gpu: str | None
    cpu: str
    date: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\d$")]
    commit: str
    dirty: bool
    code: Annotated[str, Field(pattern=rf"^{DIGEST}(\+{DIGEST})*$")]
    configuration: Configuration
    uuid: NotRequired[str | None]
    compute_capability: NotRequired[Capability | None]
    multiprocessors: NotRequired[Count]
    clock_mhz: NotRequired[Count]
    memory_bytes: NotRequired[Count]
    l2_bytes: NotRequired[Count]
    power_limit_w: NotRequired[Above0 | None]


OF_A_CARD = [key for key in Facts.__annotations__ if key in Facts.__optional_keys__]
OF_A_CARD.remove("power_limit_w")  # which a card may keep to itself


def unlike_facts(data: DataSet) -> Iterator[str]:
    """Facts of device.json that are missing, or of another kind; a configuration that is none."""
    device, file = data.device, data.folder / "device.json"
    given = isinstance(device.get("configuration"), dict)
    filled = device | {"configuration": data.configuration} if given else device
    try:
        with naming(file):
            run = checked(Facts, filled, "")["configuration"]
            for name, sweep in run["sweeps"].items():
                check_sweep(name, sweep, run)
    except UserError as error:
        yield f"{error}; {remedy(file)}"


def lacking_facts(data: DataSet) -> Iterator[str]:
    """Facts of the card that device.json has not, though there is a GPU."""
    for key in OF_A_CARD if data.device["gpu"] else ():
        if data.device.get(key) is None:
            yield data.said("device.json", f"'{key}' is missing, and there is a GPU")


def check_sweep(name: str, own: Mapping[str, Any], configuration: Any) -> None:
    """Raise UserError for shapes that are none or too many, and for a rule of sampling that lacks
    a part."""
    with naming(f"configuration.sweeps.{name}"):
        shapes = own["shapes"]
        count = shapes["random"] if isinstance(shapes, Mapping) else len(shapes)
        if count > MOST_SHAPES:
            raise UserError(f"shapes: {count}, more than {MOST_SHAPES}")
        sweep = sweep_of(configuration, name)
        for key in ("shapes", "cpu_without", "verify_shapes"):
            shapes_of(sweep, key)
        if missing := {field.name for field in fields(Rule)} - sweep["sampling"].keys():
            raise UserError(f"sampling: '{min(missing)}' is missing")
