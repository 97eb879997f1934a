# The run that the rules serve. What they ask of it is in matmul_sweep.experiment.plan.workflow.
import json
import os
import shlex
import sys
from pathlib import Path

ROOT = Path(
    os.path.relpath(Path(workflow.current_basedir.get_path_or_uri(secret_free=True)))
).parents[1]
sys.path.insert(0, str(ROOT / "src"))

from matmul_sweep.build import toolchain
from matmul_sweep.build.binaries import TOOLS
from matmul_sweep.classroom import results as mistake_results
from matmul_sweep.experiment.dataset.tables import DATA_SET
from matmul_sweep.experiment.plan.workflow import LOCAL, Run, named
from matmul_sweep.experiment.report.figures.names import CAPTIONS, captions
from matmul_sweep.process.lifetime import SNAKEMAKE
from matmul_sweep.process.programs import program_files

# The program replaces the shell, so Snakemake is its parent, and it dies with its parent. Programs
# keep their bytecode, or each job would compile hundreds of modules again.
shell.prefix(
    f"set -euo pipefail; export {SNAKEMAKE}=$PPID PYTHONDONTWRITEBYTECODE= "
    f"PYTHONPATH={shlex.quote(str(ROOT / 'src'))}${{{{PYTHONPATH:+:$PYTHONPATH}}}}; exec "
)

RUN = Run(workflow, config, ROOT)
