"""Copy a measured data set and its report to reports/published/<device>/.

This is refused if nobody could repeat the figures: there was no GPU, files differed from the
commit, programs or kernels differed from those of this checkout, points failed, or the card
throttled thermally.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.checks import other_sources
from matmul_sweep.experiment.dataset.selection import pictures, published_name, thermally_throttled
from matmul_sweep.experiment.dataset.tables import (
    DATA_SET,
    EXTRA,
    TABLES,
    read_optional,
    read_table,
)
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import read_json, whole_file
from matmul_sweep.process.project import ROOT


def check_publishable(device: Mapping[str, Any], data: Path) -> None:
    """Raise UserError with the reason if a data set cannot be published."""
    if not device["gpu"]:
        raise UserError(f"{data}: measured without a GPU; publish from a machine that has one")
    if device["dirty"] or "+" in device["commit"]:
        raise UserError(
            f"{data}: measured from commit {device['commit']} with modified files or from several "
            "commits; commit, then delete results/local and run again"
        )
    kernels = read_table("kernels.csv", data / "kernels.csv")
    ceilings = read_optional("ceilings.csv", data / "ceilings.csv")
    other = other_sources(device, kernels, ceilings, load_catalogue())
    if other:
        raise UserError(
            f"{data}: measured with another {', '.join(other)} than this checkout's; "
            "check out the version that measured it, or measure again"
        )
    summary = read_table("summary.csv", data / "summary.csv")
    if any((table.status == "failed").any() for table in (summary, ceilings)):
        raise UserError(f"{data}: has failed points; see results/local/report.pdf")
    if any(thermally_throttled(table.throttled).any() for table in (summary, ceilings)):
        raise UserError(f"{data}: the card throttled thermally; let it cool and measure again")


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("results/local"))
    parser.add_argument("--report", type=Path, default=Path("results/local/report.pdf"))
    parser.add_argument("--published", type=Path, default=ROOT / "reports" / "published")
    options = parser.parse_args()

    device = read_json(options.data / "device.json")
    check_publishable(device, options.data)
    folder = options.published / published_name(device)
    optional = [name for name, table in TABLES.items() if table.place == EXTRA]
    files = {name: options.data / name for name in (*DATA_SET, *optional)}
    files |= {"report.pdf": options.report}
    drawn = pictures().values()
    files |= {name: options.report.parent / "figures" / name for name in drawn}
    files["device.json"] = files.pop("device.json")  # last, because without it there is no data set
    optional += drawn
    for name in (*optional, "device.json"):  # removed with an older data set
        (folder / name).unlink(missing_ok=True)
    for name, source in files.items():
        if name not in optional or source.exists():
            with whole_file(folder / name) as temporary:
                shutil.copyfile(source, temporary)
    print(f"published in {folder}")


if __name__ == "__main__":
    main()
