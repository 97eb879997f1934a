"""All figures by name, with the function that draws each: every module here registers its own."""

from matmul_sweep.experiment.report.figures import (
    energy,
    phases,
    processor,
    random_shapes,
    ranking,
    sizes,
    times,
)
from matmul_sweep.experiment.report.figures.figure_base import FIGURES as REGISTERED
from matmul_sweep.experiment.report.figures.names import captions

MODULES = (energy, phases, processor, random_shapes, ranking, sizes, times)
FIGURES = {name: REGISTERED[name] for name in captions()}
