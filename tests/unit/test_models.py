"""What a class that pydantic reads refuses is one line with file, key, value and remedy."""

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from matmul_sweep.process.errors import UserError
from matmul_sweep.process.models import checked


class Limits(BaseModel):
    """What a job may take.

    seconds: Of a launch,
        or of several.
    """

    model_config = ConfigDict(extra="forbid")
    seconds: float = Field(default=1, gt=0)


class Settings(BaseModel):
    """A run.

    device: Where it runs.
    """

    model_config = ConfigDict(extra="forbid")
    device: Literal["auto", "gpu", "cpu"]
    limits: dict[str, Limits] = {}
    jobs: int = Field(default=1, description="At a time")
    sizes: list[int | Literal["all"]] = []

    @field_validator("sizes")
    @classmethod
    def few(cls, sizes: list[Any]) -> list[Any]:
        if len(sizes) > 2:
            raise ValueError("more than two; leave some out")
        return sizes


@dataclass(frozen=True)
class Plain:
    """Without pydantic.

    tile: Rows and columns.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")
    tile: tuple[int, int]
    limits: Limits | None = None


@pytest.mark.parametrize(
    ("model", "content", "said"),
    [
        (Settings, {"devise": "gpu"},
         "unknown key 'devise'; did you mean 'device'?; known are device, limits, jobs, sizes"),
        (Settings, {}, "'device' is missing: Where it runs"),
        (Settings, {"device": "gpu", "jobs": "x"}, "jobs: 'x': input should be a valid integer, "
         "unable to parse string as an integer; wanted: At a time"),
        (Settings, {"device": "gpuu"}, "device: 'gpuu': input should be 'auto', 'gpu' or 'cpu'; "
         "did you mean 'gpu'?; wanted: Where it runs"),
        (Settings, {"device": "gpu", "limits": {"hot": {"seconds": 0}}},
         "limits.hot.seconds: '0': input should be greater than 0; wanted: Of a launch, or of "
         "several"),
        (Settings, {"device": "gpu", "limits": {"hot": {"second": 1}}},
         "limits.hot: unknown key 'second'; did you mean 'seconds'?; known are seconds"),
        (Settings, {"device": "gpu", "sizes": [1, 2, 3]},
         "sizes: '[1, 2, 3]': more than two; leave some out"),
        (Settings, {"device": "gpu", "limits": {7: {}}},
         "limits: '7': input should be a valid string"),
        (Settings, {"device": "gpu", "sizes": [1, "x"]}, "sizes.1: 'x': "),
        (Plain, {"tile": [16, "x"]}, "tile.1: 'x': input should be a valid integer"),
        (Plain, {"tyle": [1, 1]}, "unknown key 'tyle'; did you mean 'tile'?"),
        (Plain, {}, "'tile' is missing: Rows and columns"),
        (Plain, {"tile": [1, 1], "limits": {"secs": 1}}, "limits: unknown key 'secs'"),
        (Plain, [7], "'[7]': "),
    ],
)  # fmt: skip
def test_a_refusal_names_file_key_value_and_remedy(model: Any, content: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        checked(model, content, "config.yaml")
    assert str(caught.value).startswith(f"config.yaml: {said}")


def test_the_key_that_holds_the_content_is_named_first() -> None:
    with pytest.raises(UserError, match=r"^a\.yaml: mine\.tile\.0: 'x'"):
        checked(Plain, {"tile": ["x", 1]}, "a.yaml", "mine")


def test_what_is_allowed_becomes_the_class() -> None:
    assert checked(Plain, {"tile": [1, 2]}, "a.yaml") == Plain((1, 2))
    assert checked(Settings, {"device": "gpu"}, "a.yaml").device == "gpu"
