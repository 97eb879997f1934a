"""All figures by name, with the function that draws each: every module of this folder registers its
own."""

from importlib import import_module
from pkgutil import iter_modules

from matmul_sweep.experiment.report import figures
from matmul_sweep.experiment.report.figures.figure_base import FIGURES as REGISTERED
from matmul_sweep.experiment.report.figures.names import captions

for module in iter_modules(figures.__path__, f"{figures.__name__}."):
    if module.name != __name__:
        import_module(module.name)
FIGURES = {name: REGISTERED[name] for name in captions()}
