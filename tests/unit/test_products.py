"""What a job finds compiled for its card."""

from types import SimpleNamespace

import pytest

from matmul_sweep.build.binaries import compile_into
from matmul_sweep.experiment.verify.instruments import Instruments
from matmul_sweep.launch.products import compile_record
from matmul_sweep.process.errors import UserError


def test_a_card_that_nothing_is_compiled_for_is_named_with_the_remedy(tmp_path):
    card = SimpleNamespace(
        drv=SimpleNamespace(Stream=object), errors=(), architecture="sm_80", name="NVIDIA A100",
    )  # fmt: skip
    (tmp_path / "sm_90").mkdir()
    with pytest.raises(UserError, match="NVIDIA A100: add sm_80 to `architectures`"):
        Instruments(card, tmp_path)


def test_what_other_sources_or_another_configuration_left_is_not_run(mine, tmp_path):
    """As for a job on a cluster that waited, or was given a card of another architecture."""
    variant, remedy = mine(), "command again, with sm_80 in `architectures`"
    (tmp_path / "sm_80").mkdir()
    with pytest.raises(UserError, match=remedy):
        compile_record(variant, tmp_path / "sm_80")
    assert compile_into(variant, "sm_80", tmp_path) == compile_record(variant, tmp_path / "sm_80")
    source = variant.kernel.source
    source.write_text(source.read_text() + "int changed;\n")
    with pytest.raises(UserError, match=remedy):
        compile_record(variant, tmp_path / "sm_80")
