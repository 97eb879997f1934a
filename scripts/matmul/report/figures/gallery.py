"""All figures by name, in the order of these modules, which register theirs when imported."""

from matmul.report.figures import figure_base, phases, ranking, roofline, sizes

MODULES = [module.__name__ for module in (sizes, roofline, phases, ranking)]
FIGURES = dict(
    sorted(figure_base.FIGURES.items(), key=lambda item: MODULES.index(item[1].__module__))
)
