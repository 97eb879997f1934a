"""What the run came to: one line when all is well, else a line per failure and exit code 1.

The report is written before this speaks, and shows the failures too.
"""

from pathlib import Path

from matmul import arguments
from matmul.dataset import read_json, read_table, whole_file
from matmul.errors import UserError, command_line
from matmul.reporting.results import thermally_throttled


def failures(data: Path) -> list[str]:
    """A line per failed kernel, verification or point of a data set, without repetition."""
    kernels = read_table("kernels.csv", data / "kernels.csv")
    lines = [f"{row.variant}: {row.reason}" for row in kernels.itertuples() if row.status != "ok"]
    for name in ("verification.csv", "summary.csv"):
        table = read_table(name, data / name)
        failed = table[table.status == "failed"]
        lines += [f"{row.variant}: {row.reason}" for row in failed.itertuples()]
    return list(dict.fromkeys(lines))


def outcome(data: Path) -> str:
    """What was measured where, in one line."""
    device = read_json(data / "device.json")
    points = read_table("summary.csv", data / "summary.csv").query("phase == 'kernel'")
    shapes = points.drop_duplicates(["variant", "m", "n", "k"]).status.value_counts()
    where = device["gpu"] or "no GPU here: CPU variants measured, kernels verified on the CPU"
    thermal = thermally_throttled(points.throttled).any()
    state = "; the card throttled thermally, its times are not to be quoted" if thermal else ""
    return (
        f"{shapes.get('ok', 0)} points measured, {shapes.get('skipped', 0)} skipped, "
        f"none failed ({where}){state}"
    )


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the data set")
    parser.add_argument("--report", type=Path, help="named to the reader")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()

    found = failures(options.data)
    if found:
        raise UserError("; ".join([*found, f"the rest is in {options.report}"]))
    line = f"{outcome(options.data)}: {options.report}"
    print(line)
    with whole_file(options.output) as temporary:
        temporary.write_text(line + "\n")


if __name__ == "__main__":
    main()
