"""Run a command and hold its processor time against a budget, in multiples of a reference compile.

    python .ci/budget.py MULTIPLES COMMAND...

Machines differ by more than two, and so do the hours of one, so seconds would say little. The
reference compiles one kernel for a GPU and for the CPU, and is timed before and after the command.
Above 1.5 times the budget the exit code is 1.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from matmul_sweep.build import cache, toolchain  # noqa: E402
from matmul_sweep.build.binaries import flags  # noqa: E402
from matmul_sweep.classroom.cuda_on_cpu import emulation  # noqa: E402
from matmul_sweep.dispatch.catalogue import load_catalogue  # noqa: E402

SOURCE = ROOT / "kernels" / "gemm" / "pipelined.cu"
MARGIN = 1.5


def processor_seconds() -> float:
    """User and system time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reference() -> float:
    """Processor seconds of the reference compile."""
    os.environ[cache.PLACE] = ""  # nothing is kept
    variant = load_catalogue().variant("pipelined")
    kernel, begun = variant.kernel, processor_seconds()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = toolchain.cubin_command(
            SOURCE, flags(variant, "sm_90"), "sm_90", folder / "cubin"
        )
        subprocess.run(command, check=True, capture_output=True)
        emulation.build(
            SOURCE, kernel.functions, kernel.product, variant.constants(None), folder / "program"
        )
    return processor_seconds() - begun


def main() -> None:
    budget, command = float(sys.argv[1]), sys.argv[2:]
    environment = {**os.environ}
    before = reference()
    began, used = time.monotonic(), processor_seconds()
    code = subprocess.run(command, env=environment).returncode
    spent, taken = processor_seconds() - used, time.monotonic() - began
    unit = (before + reference()) / 2
    print(
        f"budget: {spent:.0f} processor seconds in {taken:.0f} s, {spent / unit:.0f} times the "
        f"reference compile of {unit:.2f} s; the budget is {budget:g} times",
        flush=True,
    )
    if code == 0 and spent > MARGIN * budget * unit:
        print(f"budget: above {MARGIN:g} times the budget of `{' '.join(command)}`", flush=True)
        code = 1
    sys.exit(code)


if __name__ == "__main__":
    main()
