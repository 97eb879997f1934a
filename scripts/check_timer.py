"""Check the timing on the card of a data set, by itself or against another program.

    python scripts/check_timer.py itself --data results/local
    python scripts/check_timer.py do_bench --data results/local

`itself` times an empty kernel. `do_bench` compares the data set's times of cuBLAS and of the
dispatches with those of Triton's do_bench: run it with a Python that has this project, PyTorch and
Triton. Each writes a table into the folder of the data set.
"""

import environment  # noqa: F401

from pathlib import Path

from matmul_sweep.experiment.dataset.tables import CHECKS, write_table
from matmul_sweep.experiment.measure.check_timer import against_do_bench, against_itself
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.process.errors import command_line

CROSS, TIMER = CHECKS


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("against", choices=["itself", "do_bench"])
    parser.add_argument("--data", type=Path, default=Path("results/local"), help="a data set")
    options = parser.parse_args()
    if options.against == "do_bench":
        table = against_do_bench(options.data)
        write_table(table, CROSS, options.data / CROSS)
        table["difference"] = table.time_ms / table.do_bench_ms - 1
        table = table[["variant", "n", "cache", "time_ms", "do_bench_ms", "difference"]]
    else:
        table = against_itself(options.data)
        write_table(table, TIMER, options.data / TIMER)
        table = table.dropna(axis="columns").drop(columns="uuid")
    print(table.to_string(index=False, float_format="{:.5g}".format))


if __name__ == "__main__":
    main()
