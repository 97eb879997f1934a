"""The sets of other cards beside a data set."""

import logging

from made_up_data import DEVICE, made_up

from matmul_sweep.experiment.dataset.selection import load_results, with_others

CARD = DEVICE | {"gpu": "My GPU"}
OTHER = DEVICE | {"gpu": "Other GPU"}


def test_what_is_no_other_card_is_left_out(tmp_path, caplog):
    results = made_up(tmp_path, kernels=["naive"], device=CARD)
    places = [tmp_path / name for name in ("same", "broken", "none", "other-gpu")]
    for place, gpu in zip(places, (CARD["gpu"], "Third", None, OTHER["gpu"]), strict=True):
        if gpu:
            made_up(place, kernels=["naive"], device=CARD | {"gpu": gpu})
    (places[1] / "summary.csv").write_text("kernel,variant\n")
    with caplog.at_level(logging.WARNING):
        found = with_others(results, places)
    assert [other.device["gpu"] for other in found.others] == ["Other GPU"]
    assert "summary.csv: no column" in caplog.text and "none/device.json" in caplog.text
    processor = load_results(tmp_path, results.catalogue)
    processor.device["gpu"] = None
    assert len(with_others(processor, places).others) == 2


def test_the_programs_take_the_other_sets(command, tmp_path):
    for place, device in ((tmp_path, CARD), (tmp_path / "other-gpu", OTHER)):
        made_up(place, kernels=["naive", "cublas_sgemm"], device=device)
    options = ["--data", tmp_path, "--beside", tmp_path / "other-gpu"]
    assert command("tables", *options, "--output", tmp_path / "tables.json").code == 0
    assert '"card": "Other GPU"' in (tmp_path / "tables.json").read_text()
