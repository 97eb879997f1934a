"""Where the project's files lie."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]
SOURCES = PACKAGE.parent  # of the modules
ROOT = SOURCES.parent  # of the repository
# An installed package has the kernels as its data.
KERNELS = next(f for f in (PACKAGE / "kernels", ROOT / "kernels") if f.is_dir())
PUBLISHED = ROOT / "reports" / "published"
DEFAULT_CATALOGUE = KERNELS / "catalogue.yaml"
