"""What the checks of the timing share: their tables, and the card that they may run on."""

from pathlib import Path

from matmul_sweep.experiment.dataset.tables import CHECKS
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.files import read_json

CROSS, TIMER = CHECKS
EMPTY = "empty kernel"  # in timer_check.csv's column `variant`


def check_card(data: Path, gpu: str) -> None:
    """Raise UserError if the data set in `data` is of another GPU model than `gpu`."""
    measured = read_json(data / "device.json")["gpu"]
    if measured != gpu:
        raise UserError(f"{data} was measured on {measured or 'no GPU'}, but here is {gpu}")
