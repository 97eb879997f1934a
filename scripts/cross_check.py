"""Hold cublas_sgemm's times against Triton's do_bench, which shares no code with this project.

Needs PyTorch and Triton, which the project does not install: run it where they are, with the
data set of the same card at hand. do_bench clears the L2 before each launch and takes the median,
so it is held against our cold figures. PyTorch runs its own copy of cuBLAS.
"""

from pathlib import Path

import pandas as pd

from matmul import arguments
from matmul.dataset import read_table
from matmul.errors import UserError, command_line

BUDGET_MS = {"warmup": 100, "rep": 400}


def do_bench_ms(n: int) -> float:
    """Median milliseconds of a float32 product of size n by PyTorch, TF32 off, by do_bench."""
    import torch
    from triton.testing import do_bench

    torch.backends.cuda.matmul.allow_tf32 = False
    a, b = (torch.rand(n, n, device="cuda") * 2 - 1 for _ in range(2))
    c = torch.empty_like(a)
    return do_bench(lambda: torch.mm(a, b, out=c), **BUDGET_MS, return_mode="median")


def compare(summary: pd.DataFrame) -> pd.DataFrame:
    """n, our median, do_bench's, and the difference as a share, for the squares of the data set."""
    ours = summary.query(
        "variant == 'cublas_sgemm' and phase == 'kernel' and cache == 'cold' and status == 'ok'"
        " and m == n and n == k"
    )
    table = ours[["n", "time_ms"]].copy()
    table["do_bench_ms"] = [do_bench_ms(n) for n in table.n]
    table["difference"] = table.time_ms / table.do_bench_ms - 1
    return table


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, default=Path("results/local"))
    parser.add_argument("--output", type=Path, default=Path("results/local/cross_check.csv"))
    options = parser.parse_args()
    try:
        import triton  # noqa: F401
    except ImportError:
        raise UserError("PyTorch and Triton are not installed here") from None
    table = compare(read_table("summary.csv", options.data / "summary.csv"))
    table.to_csv(options.output, index=False)
    print(table.to_string(index=False, float_format="{:.4g}".format))


if __name__ == "__main__":
    main()
