"""Write the site of a data set: the steps as a story, Explore, the cards, the gallery of mistakes.

Without --data it is of the published set that the README quotes. It needs no network. The published
data sets lie beside the pages, which link to their files. The same data give the same bytes.
"""

import shutil
from pathlib import Path

from matmul_sweep.classroom.results import COMMITTED
from matmul_sweep.dispatch.catalogue import load_catalogue
from matmul_sweep.experiment.dataset.selection import load_results, with_others
from matmul_sweep.experiment.plan import arguments
from matmul_sweep.experiment.report.facts.published import in_order
from matmul_sweep.experiment.report.site.pages import SETS, site
from matmul_sweep.process.errors import UserError, command_line
from matmul_sweep.process.files import whole_file, write_text


@command_line
def main() -> None:
    parser = arguments.parser(__doc__)
    parser.add_argument("--data", type=Path, help="folder of a data set")
    arguments.add_catalogue(parser)
    parser.add_argument("--published", type=Path, nargs="*", default=[], help="folders of the sets")
    parser.add_argument("--mistakes", type=Path, default=COMMITTED, help="mistakes.py's folder")
    parser.add_argument("--output", type=Path, required=True, help="folder of the pages")
    options = arguments.parsed(parser)

    catalogue = load_catalogue(options.catalogue)
    sets = [load_results(folder, catalogue) for folder in options.published]
    if not (sets or options.data):
        raise UserError("there is no data set: name one with --data, or publish one")
    shown = load_results(options.data, catalogue) if options.data else in_order(sets)[0]
    for name, text in site(with_others(shown, options.published), sets, options.mistakes).items():
        write_text(text, options.output / name)
    for file in (file for folder in options.published for file in folder.iterdir()):
        with whole_file(options.output / SETS / file.parent.name / file.name) as temporary:
            shutil.copyfile(file, temporary)


if __name__ == "__main__":
    main()
