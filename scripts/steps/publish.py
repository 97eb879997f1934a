"""Copy a measured data set and its report to reports/published/<device>/.

This is refused if nobody could repeat the figures: there was no GPU, files differed from the
commit, programs or kernels differed from those of this checkout, points failed, or the card
throttled thermally. One point of a thousand may be without a time because the host was too busy to
keep the card at work; the report names it.
"""

import shutil
from pathlib import Path
from typing import Any

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.check.check_set import other_sources
from matmul_sweep.experiment.dataset.crate import CRATE, crate
from matmul_sweep.experiment.dataset.selection import pictures, published_name, thermally_throttled
from matmul_sweep.experiment.dataset.tables import EXTRA, NEEDED, TABLES, read_folder
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import whole_file, write_json
from matmul_sweep.process.project import ROOT

DEVICE = "device.json"
BUSY_HOST = "the host "  # how the reasons of a point begin that the timer gave up


def publishable(data: Path) -> dict[str, Any]:
    """device.json of a data set. Raises UserError with the reason if it cannot be published."""
    device, tables = read_folder(data, ["kernels.csv", "summary.csv", "ceilings.csv"])
    kernels, summary, ceilings = tables.values()
    if not device["gpu"]:
        raise UserError(f"{data}: measured without a GPU; publish from a machine that has one")
    if device["dirty"]:
        raise UserError(
            f"{data}: measured from commit {device['commit']} with modified files; "
            "commit, then delete results/local and run again"
        )
    if other := other_sources(device, kernels, ceilings, load_catalogue()):
        raise UserError(
            f"{data}: measured with another {', '.join(other)} than this checkout's; "
            "check out the version that measured it, or measure again"
        )
    failed = summary.status == "failed"
    untimed = failed & summary.reason.str.startswith(BUSY_HOST, na=False)
    if (failed & ~untimed).any() or untimed.mean() > 1e-3 or (ceilings.status == "failed").any():
        raise UserError(f"{data}: has failed points; see results/local/report.pdf")
    if any(thermally_throttled(table.throttled).any() for table in (summary, ceilings)):
        raise UserError(f"{data}: the card throttled thermally; let it cool and measure again")
    return device


def copy(source: Path, target: Path) -> None:
    with whole_file(target) as temporary:
        shutil.copyfile(source, temporary)


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("results/local"))
    parser.add_argument("--report", type=Path, default=Path("results/local/report.pdf"))
    parser.add_argument("--published", type=Path, default=ROOT / "reports" / "published")
    options = parser.parse_args()

    device = publishable(options.data)
    folder = options.published / published_name(device)
    extra = [name for name, table in TABLES.items() if table.place == EXTRA]
    optional = {name: options.data / name for name in extra}
    optional |= {name: options.report.parent / "figures" / name for name in pictures().values()}
    files = {"report.pdf": options.report} | {name: options.data / name for name in NEEDED}
    for name in (*optional, CRATE, DEVICE):  # removed with an older data set
        (folder / name).unlink(missing_ok=True)
    files |= {name: source for name, source in optional.items() if source.exists()}
    for name, source in files.items():
        copy(source, folder / name)
    write_json(crate(device, [*files, DEVICE]), folder / CRATE)
    copy(options.data / DEVICE, folder / DEVICE)  # last: without it there is no data set
    print(f"published in {folder}")


if __name__ == "__main__":
    main()
