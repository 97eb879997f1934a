"""What the report quotes of the worklog is there, with the numbers that it prints."""

from matmul_sweep.process.project import ROOT
from matmul_sweep.process.yaml_files import read_yaml

QUOTED = read_yaml(ROOT / "reports" / "worklog.yaml")


def test_what_the_report_quotes_of_the_worklog_is_there() -> None:
    log = " ".join((ROOT / QUOTED["source"]).read_text().split())
    quotes = [*QUOTED["evidence"], *QUOTED["ablation"]]
    for change in QUOTED["changes"]:
        assert f"{change['after']}" in change["quote"]
        quotes.append(change["quote"])
    assert [quote for quote in quotes if quote not in log] == []
