"""What a script imports, so that a change of a module reruns the steps that use it."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

from matmul_sweep.process.programs import imported_files

LOADED = """
import runpy, sys
sys.path.insert(0, {folder!r})
sys.argv = ["script", "--help"]
try:
    runpy.run_path({script!r}, run_name="__main__")
except SystemExit:
    pass
print(*(m.__file__ for n, m in sys.modules.items() if n.startswith("matmul_sweep.")), sep="\\n")
"""


@pytest.mark.parametrize("step", ["measure", "collect", "figures"])
def test_every_module_that_a_step_loads_is_found(step):
    """Against Python itself: what is in sys.modules after the step's imports."""
    script = ROOT / "scripts" / "steps" / f"{step}.py"
    code = LOADED.format(script=str(script), folder=str(ROOT / "src"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {Path(line) for line in done.stdout.splitlines() if line.startswith(str(ROOT))}
    assert loaded
    assert loaded <= {*imported_files(script)}
