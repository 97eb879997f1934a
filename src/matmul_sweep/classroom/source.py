"""Reading a hand-in: the kernel of a .cu file and what it uses, without the program around it.

Line numbers stay those of the file, because what is left out becomes blank.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from matmul_sweep.classroom import notebooks
from matmul_sweep.process.errors import UserError

MOST_BYTES = 1 << 20
TEXT_OR_COMMENT = re.compile(
    r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|//(?:\\\n|[^\n])*|/\*.*?\*/""", re.DOTALL
)
BOUNDS = re.compile(
    r"__(?:launch_bounds|cluster_dims|block_size|maxnreg)__\s*\((?:[^()]|\([^()]*\))*\)"
)
KERNEL = re.compile(
    r"(?:template\s*<(?P<template>[^>]*)>\s*)?(?:extern\s+\S+\s+)?[\w\s]*__global__\s+"
    r"[\w\s]*?\b(?P<name>\w+)\s*\((?P<parameters>[^{;]*)\)\s*\{"
)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?[ \t]*([^\n]*)", re.MULTILINE)
INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"])([^>\"\n]+)[>\"]", re.MULTILINE)
# Headers that say what a kernel may use; others are for the program around it.
KERNEL_HEADERS = re.compile(
    r"(?:mma|cuda_(?:fp16|bf16|fp8|pipeline\w*)|cooperative_groups|cooperative_groups/\w+"
    r"|assert|math|stdint|float|limits|cfloat|cmath|cstdint|cstddef|algorithm|utility|type_traits|(?:cub|cuda|cutlass|cute)/\S+?)"
    r"(?:\.\w+)?"
)
HOST_ONLY = re.compile(r"\b(?:cuda[A-Z]\w*|cublas\w*|curand\w*|std\s*::\s*\w*stream)\b|<<<")
SETTINGS = re.compile(r"^[ \t]*//[ \t]*try:(.*)$", re.MULTILINE)


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


WORDS_OF_C = word_set(
    "alignas auto bool char class const constexpr double enum extern float inline int long "
    "namespace namespace return short signed size_t static struct template typedef typename "
    "uint unsigned using void volatile __align__ __constant__ __device__ __forceinline__ "
    "__global__ __host__ __restrict__ __shared__ __inline__ uint32_t int32_t uint8_t"
)


@dataclass(frozen=True)
class Kernel:
    """A kernel as its source declares it: `template` and `parameters` are the texts in brackets."""

    name: str
    template: str
    parameters: str
    line: int
    body: str


@dataclass(frozen=True)
class Source:
    """A hand-in. text: as pasting left it, repaired line by line."""

    path: Path
    text: str

    @cached_property
    def place(self) -> Path:
        """The path under which compilers know it: ptxas takes no quotes in it."""
        return Path(re.sub(r"[\"\\\\\n]", "_", str(self.path.resolve())))

    @cached_property
    def bare(self) -> str:
        """The text with comments blank, and texts in quotes, at the same places."""
        return TEXT_OR_COMMENT.sub(lambda found: blank(found[0]), self.text)

    @cached_property
    def kernels(self) -> Mapping[str, Kernel]:
        found = {}
        bare = BOUNDS.sub(lambda bounds: blank(bounds[0]), self.bare)
        for one in KERNEL.finditer(bare):
            end = closing(bare, one.end() - 1)
            line = bare.count("\n", 0, one.start("name")) + 1
            body = bare[one.end() : end]
            name = one["name"]
            found[name] = Kernel(name, one["template"] or "", one["parameters"], line, body)
        return found

    @cached_property
    def settings(self) -> dict[str, str]:
        """key=value of the comments `// try: ...`."""
        return settings_of(" ".join(SETTINGS.findall(self.text)).split(), str(self.path))

    @cached_property
    def defines(self) -> dict[str, str]:
        """The values of macros without arguments."""
        return {name: value.strip() for name, call, value in DEFINE.findall(self.bare) if not call}

    def fixes(self, name: str) -> bool:
        """Whether it defines a macro whatever was defined before."""
        asked = rf"#[ \t]*ifndef[ \t]+{name}\b|!\s*defined\b\W*{name}\b"
        return name in self.defines and not re.search(asked, self.bare)

    def line(self, number: int) -> str:
        lines = self.text.splitlines()
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def kernel(self, name: str | None) -> Kernel:
        """The kernel of that name, or the only one. Raises UserError."""
        names = ", ".join(self.kernels)
        if not self.kernels and "__global__" in self.bare:
            said = "no whole kernel in it: after the parameters of __global__ comes its body in { }"
        elif not self.kernels:
            said = "no kernel in it: a kernel is a function `__global__ void name(...) {...}` in "
            said += "CUDA C++"
        elif name is None and len(self.kernels) > 1:
            said = f"{len(self.kernels)} kernels: {names}; which one? Say "
            said += f"kernel={next(iter(self.kernels))} after the file's name"
        elif name is not None and name not in self.kernels:
            said = f"kernel={name}: it has {names}"
        else:
            return self.kernels[name or names]
        raise UserError(f"{self.path}: {said}")

    def needed_by(self, kernel: Kernel) -> str:
        """The text with only the kernel and what it uses; the rest is blank."""
        items = split_items(self.bare)
        kept = [item for item in items if item.kernel == kernel.name]
        used: set[str] = set()
        more = kept
        while more:
            used |= set().union(*(item.words for item in more))
            used |= {word for name in used & self.defines.keys()
                     for word in re.findall(r"\w+", self.defines[name])}  # fmt: skip
            more = [item for item in items if item not in kept and not item.directive
                    and item.names & used and not item.host_only]  # fmt: skip
            kept += more
        kept += [item for item in items if item.directive and self.keeps(item)]
        chars = list(blank(self.text))
        for item in kept:
            chars[item.start : item.end] = self.text[item.start : item.end]
        return "".join(chars)

    def keeps(self, directive: "Item") -> bool:
        """Whether a preprocessor line concerns the kernel: all but the program's headers."""
        include = INCLUDE.search(self.text[directive.start : directive.end])
        if include is None:
            return True
        beside = include[1] == '"' and (self.path.parent / include[2]).is_file()
        return beside or bool(KERNEL_HEADERS.fullmatch(include[2]))

    @property
    def headers(self) -> list[str]:
        """The headers of CUDA and C++ that may say what the kernel uses."""
        return [name for _, name in INCLUDE.findall(self.text) if KERNEL_HEADERS.fullmatch(name)]

    @cached_property
    def left_out(self) -> list[tuple[int, str]]:
        """Line and name of headers in quotes that are not there."""
        lines = enumerate(map(INCLUDE.match, self.text.splitlines()), 1)
        return [(line, one[2]) for line, one in lines
                if one and one[1] == '"' and not (self.path.parent / one[2]).is_file()]  # fmt: skip


@dataclass(frozen=True)
class Item:
    """A definition, declaration or preprocessor line at the top level of a source."""

    start: int
    end: int
    text: str

    @property
    def directive(self) -> bool:
        return self.text.lstrip().startswith("#") or bool(
            re.match(r"\s*using\s+namespace\s+(?!std\b)", self.text)
        )

    @cached_property
    def head(self) -> str:
        plain = re.sub(r"\btemplate\s*<[^>]*>", " ", self.text)
        return BOUNDS.sub("", re.split(r"[{=]", plain, maxsplit=1)[0])

    @cached_property
    def words(self) -> set[str]:
        return set(re.findall(r"[A-Za-z_]\w*", self.text))

    @property
    def kernel(self) -> str | None:
        """The name of the kernel that it defines."""
        found = re.search(r"__global__.*?\b(\w+)\s*\(", self.head, re.DOTALL)
        return found[1] if found and "{" in self.text else None

    @cached_property
    def names(self) -> set[str]:
        """What it may define: a function's name, or every word of another declaration's head."""
        if "__global__" in self.head:
            return set()
        function = re.search(r"\b(\w+)\s*\(", self.head)
        if function and function[1] not in WORDS_OF_C:
            return {function[1]}
        declared = self.text if self.text.lstrip().startswith(("enum", "typedef")) else self.head
        return set(re.findall(r"[A-Za-z_]\w*", declared)) - WORDS_OF_C

    @property
    def host_only(self) -> bool:
        """Whether it belongs to the program that launches the kernel."""
        return bool(HOST_ONLY.search(self.text)) or self.names == {"main"}


def blank(text: str) -> str:
    """White space with the same lines."""
    return re.sub(r"[^\n]", " ", text)


def split_at_commas(text: str) -> list[str]:
    """The parts of a text between the commas that no bracket encloses."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def closing(bare: str, opening: int) -> int:
    """The place of the bracket that closes the `{` at `opening`, or the end."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(bare, opening):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return len(bare)


def split_items(bare: str) -> list[Item]:
    """The items of a source without comments. What `extern "C" {` encloses is at the top level."""
    items, at = [], 0
    directive = re.compile(r"\s*#(?:\\\n|[^\n])*")
    linkage = re.compile(r'\s*extern\s+(?="C"|   )[^;{(\w]*\{')
    while at < len(bare) and bare[at:].strip():
        if found := directive.match(bare, at) or linkage.match(bare, at):
            end = found.end()
        elif bare[at:].lstrip().startswith("}"):  # of a linkage
            end = bare.index("}", at) + 1
        else:
            end = end_of_item(bare, at)
        items.append(Item(at, end, bare[at:end]))
        at = end
    return items


def end_of_item(bare: str, start: int) -> int:
    """Behind the `;` or the body that ends the definition which begins at `start`."""
    for found in re.compile(r"[;{]").finditer(bare, start):
        if found[0] == ";":
            return found.end()
        end = closing(bare, found.start()) + 1
        head = bare[start : found.start()]
        function = head.rstrip().endswith((")", "const", "noexcept"))
        if function or re.match(r"\s*namespace\b", head):
            return end
        rest = bare.find(";", end)
        return len(bare) if rest < 0 else rest + 1
    return len(bare)


def question(asked: str, answer: str) -> UserError:
    """What has to be said by a setting, such as this one."""
    return UserError(
        f"{asked}? Say for instance {answer} after the file's name, or in a comment "
        f"`// try: {answer}` at its top"
    )


def settings_of(words: Sequence[str], where: str) -> dict[str, str]:
    """key=value words as a mapping. Raises UserError."""
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not re.fullmatch(r"\w+", key) or not value:
            wanted = "write key=value, such as block=16x16"
            raise UserError(f"{where}: '{word}' is no setting; {wanted}")
        found[key] = value
    return found


def read(path: Path) -> Source:
    """A hand-in. Raises UserError for what cannot be a CUDA source."""
    file = notebooks.file_of(path)
    if not file.is_file():
        raise UserError(f"{path}: there is no such file")
    if (size := file.stat().st_size) > MOST_BYTES:
        raise UserError(f"{path}: {size:,} bytes; a source has at most {MOST_BYTES:,}")
    try:
        text = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = file.read_text(encoding="latin-1")
    if "\0" in text:
        raise UserError(f"{path}: not a text; give a CUDA source, such as my_kernel.cu")
    return Source(path, repaired(notebooks.kernels_in(path, text)))


def repaired(text: str) -> str:
    """What copying from a notebook or a PDF breaks, mended without moving a line: fences and cell
    magics, numbers before the lines, and comments that went on in a line of their own."""
    fence = re.compile(r"\s*(```|%%|In \[\d*\]:|Out\[)")
    lines = ["" if fence.match(line) else line for line in text.split("\n")]
    numbers = [re.match(r"\s*(\d+)(?=\s|$)", line) for line in lines if line.strip()]
    if len(numbers) > 4 and sum(map(bool, numbers)) > 0.6 * len(numbers):
        lines = [re.sub(r"^\s*\d+(?=\s|$)", "", line) for line in lines]
    for i in range(1, len(lines)):
        wrapped = re.fullmatch(r"\s*([^\W\d_]+)(?: [\w,.'’-]+)+\s*", lines[i])
        if wrapped and wrapped[1] not in WORDS_OF_C and "//" in lines[i - 1]:
            lines[i] = "// " + lines[i]
    return "\n".join(lines)
