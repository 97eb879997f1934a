"""The catalogue of kernels: read, checked, and expanded into variants."""

import hashlib
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from matmul import toolchain
from matmul.errors import UserError
from matmul.expressions import evaluate
from matmul.schema import SCHEMAS, check, read_yaml
from matmul.shapes import Shape, grid_of

DEFAULT_CATALOGUE = SCHEMAS.parents[1] / "kernels" / "catalogue.yaml"
LIBRARY_ON_GPU = {"cublasSgemm": True, "numpy.matmul": False}  # what products.py can call
MAXIMUM_GRID_Y = 65535  # of a grid, on every compute capability
MAXIMUM_THREADS = 1024  # of a block, on every compute capability since 2.0


@dataclass(frozen=True)
class Kernel:
    """One entry of the catalogue; the schema describes each field."""

    name: str
    title: str
    operation: str
    dtype: str
    language: str
    function: str
    accepts: str
    documents: tuple[str, ...]
    teaches: str
    source: Path | None = None
    parameters: Mapping[str, list[int]] = field(default_factory=dict, hash=False)
    tile: tuple[int | str, int | str] | None = None
    threads: tuple[int | str, int | str] | None = None
    schedule: str = "full"
    dynamic_shared_bytes: int | str = 0
    baselines: tuple[str, ...] = ()

    @cached_property
    def variants(self) -> list["Variant"]:
        """Each combination of the parameters' values, in the catalogue's order."""
        values = itertools.product(*self.parameters.values())
        return [Variant(self, dict(zip(self.parameters, chosen, strict=True))) for chosen in values]

    @property
    def on_gpu(self) -> bool:
        return self.language == "cuda" or LIBRARY_ON_GPU.get(self.function, False)


@dataclass(frozen=True)
class Variant:
    """A kernel with its compile-time parameters fixed."""

    kernel: Kernel
    parameters: Mapping[str, int] = field(hash=False)

    @property
    def name(self) -> str:
        """As data and reports write it: `shared[TILE_WIDTH=32]`."""
        inside = ",".join(f"{key}={value}" for key, value in self.parameters.items())
        return f"{self.kernel.name}[{inside}]" if inside else self.kernel.name

    @property
    def slug(self) -> str:
        """As files are named: `shared-TILE_WIDTH=32`."""
        return "-".join([self.kernel.name, *(f"{k}={v}" for k, v in self.parameters.items())])

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C that one block computes."""
        rows, columns = self.kernel.tile
        return evaluate(rows, self.parameters), evaluate(columns, self.parameters)

    @property
    def block(self) -> tuple[int, int, int]:
        """blockDim in x, y, z."""
        y, x = self.kernel.threads
        return evaluate(x, self.parameters), evaluate(y, self.parameters), 1

    @property
    def dynamic_shared_bytes(self) -> int:
        return evaluate(self.kernel.dynamic_shared_bytes, self.parameters)

    def grid(self, shape: Shape) -> tuple[int, int, int]:
        """gridDim in x, y, z for a product of `shape`."""
        return grid_of(shape, self.tile)

    def refusal(self, shape: Shape) -> str | None:
        """Why this variant does not take `shape`, or None where it does."""
        accepts = self.kernel.accepts
        if accepts == "square" and not shape.square:
            return f"{self.kernel.name} multiplies square matrices only, not {shape}"
        if accepts in self.parameters:
            step = self.parameters[accepts]
            if any(extent % step for extent in (shape.m, shape.n, shape.k)):
                return f"{self.name} takes multiples of {accepts}={step} only, not {shape}"
        blocks = self.grid(shape)[1] if self.kernel.tile else 0
        if blocks > MAXIMUM_GRID_Y:
            return f"{self.name}: a grid of {blocks} blocks in y, over {MAXIMUM_GRID_Y}"
        return None

    @property
    def flags(self) -> list[str]:
        """The compiler's flags, without the architecture."""
        defines = [f"-D{key}={value}" for key, value in self.parameters.items()]
        return [*toolchain.FLAGS[self.kernel.language], *defines]

    @property
    def launch_identity(self) -> list[object]:
        """What decides how it is launched and timed, beside its sources and flags."""
        kernel = self.kernel
        geometry = [self.tile, self.block, self.dynamic_shared_bytes] if kernel.tile else []
        return [geometry, kernel.accepts, list(kernel.baselines)]

    @property
    def sha256(self) -> str:
        """Digest of the sources, headers and flags; empty for a library's routine."""
        if self.kernel.source is None:
            return ""
        digest = hashlib.sha256(" ".join(self.flags).encode())
        for file in source_files(self.kernel.source):
            digest.update(file.read_bytes())
        return digest.hexdigest()


def source_files(source: Path) -> list[Path]:
    """`source` and the headers of this project that it includes, in the order of first mention."""
    found: list[Path] = []
    waiting = [source]
    while waiting:
        file = waiting.pop(0)
        if file not in found:
            found.append(file)
            names = re.findall(r'^\s*#\s*include\s+"([^"]+)"', file.read_text(), re.MULTILINE)
            # What is not beside the source (a header of CUDA's) is the compiler's to find.
            waiting += [file.parent / name for name in names if (file.parent / name).is_file()]
    return found


class Catalogue(dict[str, Kernel]):
    """Kernels by name."""

    @property
    def variants(self) -> dict[str, Variant]:
        """All variants by slug."""
        return {v.slug: v for kernel in self.values() for v in kernel.variants}

    def variant(self, text: str) -> Variant:
        """The variant called `text`: its name, its slug, or a kernel's name for the first variant.

        Raises UserError where there is none.
        """
        if text in self:
            return self[text].variants[0]
        for variant in self.variants.values():
            if text in (variant.name, variant.slug):
                return variant
        raise UserError(f"kernel '{text}': the catalogue has {', '.join(self)}")


def load_catalogue(path: Path = DEFAULT_CATALOGUE) -> Catalogue:
    """Read and check a catalogue. Raises UserError naming the file, the entry and the mistake."""
    entries = read_yaml(path)
    check(entries, "catalogue", str(path))
    catalogue = Catalogue()
    for name, entry in entries.items():
        fields = {key: tuple(v) if isinstance(v, list) else v for key, v in entry.items()}
        if "source" in fields:
            fields["source"] = path.parent / fields["source"]
        catalogue[name] = Kernel(name=name, **fields)
    for kernel in catalogue.values():
        try:
            check_kernel(kernel, catalogue)
        except UserError as error:
            raise UserError(f"{path}: {kernel.name}: {error}") from None
    return catalogue


def check_kernel(kernel: Kernel, catalogue: Catalogue) -> None:
    """What a schema cannot say: files exist, names resolve, blocks fit. Raises UserError."""
    if kernel.source and not kernel.source.is_file():
        raise UserError(f"source: there is no file {kernel.source}")
    for baseline in kernel.baselines:
        if baseline not in catalogue or not LIBRARY_ON_GPU.get(catalogue[baseline].function):
            raise UserError(f"baselines: '{baseline}' is no library of the GPU in this catalogue")
    if kernel.language == "library" and kernel.function not in LIBRARY_ON_GPU:
        raise UserError(f"function: '{kernel.function}' is none of {', '.join(LIBRARY_ON_GPU)}")
    if kernel.accepts not in ("any", "square", *kernel.parameters):
        raise UserError(f"accepts: '{kernel.accepts}' is none of its parameters")
    if kernel.language != "cuda":
        return
    for variant in kernel.variants:
        threads = math.prod(variant.block)
        if threads > MAXIMUM_THREADS or min(*variant.block, *variant.tile) < 1:
            raise UserError(
                f"{variant.name}: {variant.block[1]}×{variant.block[0]} = {threads} threads per "
                f"block and a tile of {variant.tile[0]}×{variant.tile[1]}; a block holds 1 to "
                f"{MAXIMUM_THREADS} threads"
            )
        if variant.dynamic_shared_bytes < 0:
            raise UserError(f"{variant.name}: dynamic_shared_bytes: below 0")
