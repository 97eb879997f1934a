"""The GPU is found, or what is missing is said."""

import pytest

from matmul.device import NoDevice, check_driver, driver
from matmul.errors import UserError


@pytest.mark.parametrize(
    ("driver_version", "toolkit"),
    [(13000, (13, 0)), (13010, (13, 0)), (14000, (13, 0)), (13000, (12, 9)), (12020, (12, 9))],
)
def test_a_driver_of_the_toolkits_generation_will_do(
    driver_version: int, toolkit: tuple[int, int]
) -> None:
    check_driver(driver_version, toolkit)


@pytest.mark.parametrize(
    ("driver_version", "toolkit", "speaks"),
    [(12090, (13, 0), "12.9"), (12080, (13, 1), "12.8"), (11040, (12, 9), "11.4")],
)
def test_an_older_driver_is_refused_with_both_versions_and_the_remedy(
    driver_version: int, toolkit: tuple[int, int], speaks: str
) -> None:
    with pytest.raises(UserError) as caught:
        check_driver(driver_version, toolkit)
    message = str(caught.value)
    assert f"CUDA {speaks}," in message
    assert "CUDA {}.{}".format(*toolkit) in message
    assert "update the driver" in message
    assert "\n" not in message


def test_without_a_gpu_it_is_said() -> None:
    try:
        driver()
    except NoDevice as missing:
        assert "NVIDIA driver" in str(missing)
    else:
        pytest.skip("this machine has a GPU")
