"""All figures by name, each with the function that draws it; these modules register theirs."""

from matmul.report.figures import figure_base, phases, ranking, roofline, sizes
from matmul.report.figures.names import captions

MODULES = (phases, ranking, roofline, sizes)
FIGURES = {name: figure_base.FIGURES[name] for name in captions()}
