"""The figure of the phases of a product: kernel, copies, and unified memory."""

import pandas as pd
from matplotlib.figure import Figure

from matmul_sweep.experiment.dataset.selection import Results, fastest, squares
from matmul_sweep.experiment.report.figures import style
from matmul_sweep.experiment.report.figures.figure_base import figure, name_lines, need
from matmul_sweep.experiment.report.figures.style import Look
from matmul_sweep.operations.gemm import GEMM

PHASE_KERNELS = ["cublas_sgemm", "shared"]
# All but the kernel are grey, so that a colour always means one.
PHASES = {
    "kernel": ("kernel", Look(style.BLUE, "o")),
    "h2d": ("host to device", Look(style.QUIET, "^", (0, (4, 1.6)))),
    "d2h": ("device to host", Look(style.QUIET, "v", (0, (1, 1.2)))),
    "end_to_end": ("end to end", Look(style.INK, "s")),
    "unified": ("unified memory", Look(style.INK, "D", (0, (2, 1.2)))),
}


@figure("Kernel time against copies, end to end, and unified memory", GEMM)
def copies(results: Results) -> Figure:
    """Phases of one product, a panel per kernel: the library and the shared-memory kernel."""
    rows = pd.concat([squares(fastest(results.timed(phase))) for phase in PHASES])
    copied = set(rows[rows.phase == "end_to_end"].kernel)
    kernels = [kernel for kernel in PHASE_KERNELS if kernel in copied]
    need(kernels, f"No copies were timed ({results.absence(PHASE_KERNELS)}).")
    made, [axes] = style.panels(len(kernels))
    axes[0].set_ylabel("time in ms")
    for ax, kernel in zip(axes, kernels, strict=True):
        for phase, (words, line) in PHASES.items():
            own = rows[(rows.kernel == kernel) & (rows.phase == phase)]
            style.draw_line(ax, own.n, own.time_ms, line, words)
        style.size_axis(ax, rows[rows.kernel.isin(kernels)].n)
        style.log_values(ax)
        ax.set_title(results.title(kernel), loc="left")
    name_lines(axes[-1], results, context=True)
    style.claim(made, longer_copies(results, rows[rows.kernel == kernels[0]]))
    return made


def longer_copies(results: Results, rows: pd.DataFrame) -> str:
    """At which sizes the copies take longer than a kernel."""
    own = rows[rows.phase.isin(["kernel", "h2d", "d2h"])]
    times = own.pivot(index="n", columns="phase", values="time_ms").dropna()
    longer = (times.h2d + times.d2h > times.kernel).sum()
    if not longer:
        return ""
    where = "every size" if longer == len(times) else f"{longer} of {len(times)} sizes"
    return f"Copying takes longer than {results.title(rows.kernel.iloc[0])} at {where}"
