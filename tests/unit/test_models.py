"""What a class that pydantic reads refuses is one line with file, key, value and remedy."""

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import AfterValidator, ConfigDict, Field, with_config
from typing_extensions import TypedDict

from matmul_sweep.process.errors import UserError
from matmul_sweep.process.models import checked

STRICT = with_config(ConfigDict(extra="forbid"))


@STRICT
class Limits(TypedDict, total=False):
    """What a job may take.

    seconds: Of a launch,
        or of several.
    """

    seconds: Annotated[float, Field(gt=0)]


def few(sizes: list[Any]) -> list[Any]:
    """Raises ValueError for more than two."""
    if len(sizes) > 2:
        raise ValueError("more than two; leave some out")
    return sizes


@STRICT
@dataclass(frozen=True)
class Settings:
    """A run.

    device: Where it runs.
    tile: Rows and columns.
    """

    device: Literal["auto", "gpu", "cpu"]
    tile: tuple[int, int] = (1, 1)
    limits: dict[str, Limits] = field(default_factory=dict)
    sizes: Annotated[list[int | Literal["all"]], AfterValidator(few)] = field(default_factory=list)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"devise": "gpu"},
         "unknown key 'devise'; did you mean 'device'?; known are device, tile, limits, sizes"),
        ({}, "'device' is missing: Where it runs"),
        ({"device": "gpu", "tile": [16, "x"]}, "tile.1: 'x': input should be a valid integer, "
         "unable to parse string as an integer; wanted: Rows and columns"),
        ({"device": "gpuu"}, "device: 'gpuu': input should be 'auto', 'gpu' or 'cpu'; "
         "did you mean 'gpu'?; wanted: Where it runs"),
        ({"device": "gpu", "limits": {"hot": {"seconds": 0}}},
         "limits.hot.seconds: '0': input should be greater than 0; wanted: Of a launch, or of "
         "several"),
        ({"device": "gpu", "limits": {"hot": {"second": 1}}},
         "limits.hot: unknown key 'second'; did you mean 'seconds'?; known are seconds"),
        ({"device": "gpu", "sizes": [1, 2, 3]},
         "sizes: '[1, 2, 3]': more than two; leave some out"),
        ({"device": "gpu", "limits": {7: {}}}, "limits: '7': input should be a valid string"),
        ({"device": "gpu", "sizes": [1, "x"]}, "sizes.1: 'x': "),
        ([7], "'[7]': input should be keys and their values"),
    ],
)  # fmt: skip
def test_a_refusal_names_file_key_value_and_remedy(content: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        checked(Settings, content, "config.yaml")
    assert str(caught.value).startswith(f"config.yaml: {said}")
