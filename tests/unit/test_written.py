"""An output that has lost a part since it was written is known, and no other."""

import os

import pytest

from matmul_sweep.process.written import MARK, cut, sizes


@pytest.mark.parametrize(
    ("name", "size", "lost"),
    [
        ("report.pdf", 0, 0),
        ("report.pdf", 3, 0),
        ("report.pdf", 5, None),  # somebody wrote another one
        ("figures/deeper/b.svg", 3, 1),
        ("figures/" + MARK, 0, None),
        ("figures/a.svg", None, 1),
        ("report.pdf", None, None),  # which Snakemake misses itself
    ],
)
def test_what_is_shorter_than_it_was_written_or_lacks_a_file_is_cut(tmp_path, name, size, lost):
    """Snakemake has marked the folder."""
    outputs = [file, folder] = tmp_path / "report.pdf", tmp_path / "figures"
    file.write_bytes(b"%PDF")
    for own in ("a.svg", "deeper/b.svg", MARK):
        (folder / own).parent.mkdir(parents=True, exist_ok=True)
        (folder / own).write_text("mark" if own == MARK else f"<svg>{own}")
    written = {str(output): sizes(output) for output in outputs}
    assert cut(written) == []
    if size is None:
        (tmp_path / name).unlink()
    else:
        os.truncate(tmp_path / name, size)
    assert cut(written) == ([] if lost is None else [outputs[lost]])
