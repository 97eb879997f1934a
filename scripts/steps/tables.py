"""Compute everything that the report prints from a data set and the documents' numbers."""

from pathlib import Path

from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import load_results, with_others
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.facts.documents import documents
from matmul_sweep.experiment.report.facts.report import tables_of
from matmul_sweep.process.errors import command_line
from matmul_sweep.process.files import write_json


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    arguments.add_data_set(parser)
    parser.add_argument("--output", type=Path, required=True, help="tables.json")
    options = arguments.parsed(parser)

    results = load_results(options.data, load_catalogue(options.catalogue))
    results = with_others(results, options.beside)
    write_json(tables_of(results, documents()), options.output)


if __name__ == "__main__":
    main()
