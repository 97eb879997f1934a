"""The search: which candidates it tries, and which few variants it picks."""

from pathlib import Path

import pandas as pd
import pytest
import yaml
from support import ROOT

import search
from matmul.catalogue.entries import kernel_name, load_catalogue
from matmul.catalogue.schema import read_yaml
from matmul.measure.verification import Accuracy
from matmul.operations import parse_shape
from matmul.process.errors import UserError

SPACES = sorted((ROOT / "config" / "search").glob("*.yaml"))


def found(**rates: dict[str, float]) -> pd.DataFrame:
    rows = [(shape, variant, 1 / r) for variant, own in rates.items() for shape, r in own.items()]
    return pd.DataFrame(rows, columns=["shape", "variant", "time_ms"])


def test_one_variant_does_where_it_loses_little_everywhere() -> None:
    table = found(x={"a": 1.0, "b": 0.5}, y={"a": 0.995, "b": 1.0, "c": 1.99}, z={"c": 2.0})
    assert search.few(table).to_dict() == {"a": "y", "b": "y", "c": "y"}


def test_a_shape_that_would_lose_more_has_a_variant_of_its_own() -> None:
    table = found(x={"a": 1.0, "b": 0.5}, y={"a": 0.98, "b": 1.0})
    assert search.few(table).to_dict() == {"a": "x", "b": "y"}


def test_what_errs_much_more_than_the_library_is_refused() -> None:
    library = Accuracy(share=0.1, largest=1e-7, mean=1e-8)
    assert search.mistake(Accuracy(0.15, 1.49e-7, 1.49e-8), library) is None
    for own in (Accuracy(0.3, 3e-7, 1e-8), Accuracy(0.1, 1e-7, 1.6e-8)):
        assert "the library 1e-08 and 1e-07" in (search.mistake(own, library) or "")
    for share in (1.01, float("inf"), float("nan")):
        assert search.mistake(Accuracy(share, 1e-7, 1e-8), library) == "wrong result"


def test_the_rows_of_other_architectures_stay(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("architecture,shape,variant\nsm_90,64,old\nany,8,kept/1x2\n")
    search.write_table(table, "sm_90", pd.Series({"128": "new/1"}))
    assert table.read_text() == ("architecture,shape,variant\nsm_90,128,new/1\nany,8,kept/1x2\n")


def test_of_some_shapes_only_their_rows_are_new(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("architecture,shape,variant\nsm_90,64,old\nsm_90,128,older\nany,64,kept\n")
    search.write_table(table, "sm_90", pd.Series({"64": "new"}), whole=False)
    assert table.read_text() == (
        "architecture,shape,variant\nsm_90,128,older\nsm_90,64,new\nany,64,kept\n"
    )


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_a_search_can_find_each_row_of_its_table_again(path: Path) -> None:
    """A whole search replaces all rows of its architecture: what it does not try would be lost."""
    catalogue, space = load_catalogue(), read_yaml(path)
    table = catalogue[path.stem]
    shapes = {parse_shape(str(text), table.operation) for text in space["shapes"]}
    rows = pd.read_csv(table.dispatch).query("architecture == 'sm_90'")
    assert {parse_shape(text, table.operation) for text in rows["shape"]} == shapes
    for row in rows.itertuples():
        shape, name = parse_shape(row.shape, table.operation), kernel_name(row.variant)
        tried = search.candidates(catalogue[name], space["kernels"][name], shape)
        assert row.variant in {variant.name for variant in tried}, shape


@pytest.mark.parametrize("path", SPACES, ids=lambda path: path.stem)
def test_every_space_has_candidates_and_shapes_of_its_kernels(path: Path) -> None:
    catalogue, space = load_catalogue(), read_yaml(path)
    for name, boxes in space["kernels"].items():
        kernel = catalogue[name]
        assert all(list(search.candidates(kernel, [box])) for box in boxes), "a box that never fits"
        tried = list(search.candidates(kernel, boxes))
        assert len({variant.slug for variant in tried}) == len(tried)
        for text in space["shapes"]:
            parse_shape(str(text), kernel.operation)


def test_a_box_names_the_kernels_parameters_and_leaves_out_what_stays() -> None:
    vectors = load_catalogue()["vectors"]
    with pytest.raises(UserError, match="vectors has no parameter STAGES; it has TILE_K, TILE"):
        list(search.candidates(vectors, [{"STAGES": [2]}]))
    (variant,) = search.candidates(vectors, [{"TILE": [64]}])
    assert variant.parameters == {"TILE": 64, "TILE_K": vectors.parameters["TILE_K"]}


def test_a_candidate_has_its_tilings_name_or_says_in_what_it_differs() -> None:
    streamed = load_catalogue()["streamed"]
    known = streamed.every_variant[-1]
    assert search.named(streamed, known.parameters) == known
    deeper = search.named(streamed, dict(known.parameters) | {"STAGES": 9, "XOR_N": 2})
    assert deeper.name == f"{known.name}-stages9-xorn2"
    other = search.named(streamed, dict(known.parameters) | {"TILE_M": 1024, "CHAINS": 2})
    assert other.tiling.startswith("1024x256-") and "chains2" in other.tiling
    entry = yaml.safe_load(search.entry(deeper))
    assert streamed.tiled("again", entry[deeper.tiling]).parameters == deeper.parameters


def test_a_box_may_be_for_some_shapes_only() -> None:
    kernel = load_catalogue()["vectors"]
    boxes = [
        {"TILE": [64], "shapes": [256, "1x64x64"]},
        {"TILE": [128], "TILE_K": [8]},
    ]
    tried = {
        text: [
            v.parameters["TILE"]
            for v in search.candidates(kernel, boxes, parse_shape(text, "gemm"))
        ]
        for text in ("256", "1x64x64", "512")
    }
    assert tried == {"256": [64, 128], "1x64x64": [64, 128], "512": [128]}
