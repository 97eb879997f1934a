"""All figures by name, with the function that draws each: the modules of this folder register
theirs."""

import importlib
import pkgutil

from matmul_sweep.experiment.report import figures
from matmul_sweep.experiment.report.figures import figure_base
from matmul_sweep.experiment.report.figures.names import captions

for module in pkgutil.iter_modules(figures.__path__):
    importlib.import_module(f"{figures.__name__}.{module.name}")
FIGURES = {name: figure_base.FIGURES[name] for name in captions()}
