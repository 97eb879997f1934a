"""All figures by name, in the order of these modules, which register theirs when imported."""

from matmul.reporting import charts, frame, limits, spans, standings

MODULES = [module.__name__ for module in (charts, limits, spans, standings)]
FIGURES = dict(sorted(frame.FIGURES.items(), key=lambda item: MODULES.index(item[1].__module__)))
