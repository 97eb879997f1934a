"""All figures by name, with the function that draws each; these modules register theirs."""

from matmul.report.figures import (
    cards,
    figure_base,
    phases,
    random_shapes,
    ranking,
    roofline,
    sizes,
)
from matmul.report.figures.names import captions

MODULES = (cards, phases, random_shapes, ranking, roofline, sizes)
FIGURES = {name: figure_base.FIGURES[name] for name in captions()}
