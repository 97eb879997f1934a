"""The notebook as it lies in the repository; CI runs it."""

import nbformat
from support import ROOT


def test_the_notebook_is_valid_and_holds_no_outputs():
    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert cells
    assert [cell.source for cell in cells if cell.outputs or cell.execution_count] == []
