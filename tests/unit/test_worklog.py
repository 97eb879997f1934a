"""What the report tells from the worklog is there, with the numbers that it prints."""

import re

from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

TOLD = read_yaml(ROOT / "reports" / "worklog.yaml")
QUOTES = [*TOLD["evidence"], *(change["quote"] for change in TOLD["changes"])]
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def test_what_the_report_quotes_of_the_worklog_is_there():
    log = " ".join((ROOT / TOLD["source"]).read_text().split())
    assert [quote for quote in QUOTES if quote not in log] == []


def test_the_numbers_that_it_tells_are_quoted():
    assert {*NUMBER.findall(TOLD["story"])} <= {*NUMBER.findall(" ".join(QUOTES))}
    for change in TOLD["changes"]:
        assert str(change["after"]) in NUMBER.findall(change["quote"])
