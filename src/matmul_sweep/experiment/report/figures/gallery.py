"""All figures by name, with the function that draws each; these modules register theirs."""

from matmul_sweep.experiment.report.figures import (
    cards,
    clocks,
    durations,
    figure_base,
    phases,
    processor,
    random_shapes,
    ranking,
    sizes,
    studies,
    times,
)
from matmul_sweep.experiment.report.figures.names import captions

MODULES = (
    times, cards, clocks, durations, phases, processor, random_shapes, ranking, sizes, studies,
)  # fmt: skip
FIGURES = {name: figure_base.FIGURES[name] for name in captions()}
