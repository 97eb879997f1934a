"""The verdict on a hand-in: right or not, the worst mistake at its smallest shape, and the
others."""

import math
import re
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import combinations, permutations
from pathlib import Path
from typing import Any

import numpy as np

from matmul_sweep.catalogue.architectures import MAXIMUM_THREADS, WARP
from matmul_sweep.classroom import strict, syntax
from matmul_sweep.classroom.assumptions import decisive, storage
from matmul_sweep.classroom.conventions import (
    TURNED,
    by_fragments,
    convention_of,
    fitting,
    steps_by_columns,
)
from matmul_sweep.classroom.cuda_on_cpu.emulation import (
    EmulationError,
    NotRunnable,
    compiler,
)
from matmul_sweep.classroom.cuda_on_cpu.watched import Unclosed, Watched
from matmul_sweep.classroom.experiments import ALONE, Bench, Run
from matmul_sweep.classroom.explanation import Explanation, common, explanations, few_of
from matmul_sweep.classroom.file_launch import file_launch
from matmul_sweep.classroom.launching import (
    COLUMNS_FIRST,
    DEFAULT_BLOCK,
    EVERYTHING,
    LINEAR,
    OBLONG_BLOCK,
    OWN,
    PADDED,
    ROWS_FIRST,
    known_values,
    launch_of,
    question_of_guess,
    shared_arrays,
    template_arguments,
    used_constants,
    valued,
)
from matmul_sweep.classroom.mistakes import OF_LAUNCH, Mistake, Teller, mistakes_of
from matmul_sweep.classroom.picture import MOST_ROWS
from matmul_sweep.classroom.program import (
    CompileMistake,
    Program,
    build_for_cpu,
    check_with_cuda,
    executable_in,
)
from matmul_sweep.classroom.relaunching import (
    exchanged,
    fixed_grid,
    is_exact,
    mistake_of_launch,
    refused_at_own,
    sizes_exchanged,
    turned_grid,
)
from matmul_sweep.classroom.signature import (
    EXTENTS,
    TILED,
    Parameter,
    is_flag,
    only_counts,
    role_of,
    rows_of_grid,
    signature_of,
    small_sizes,
    terms_of_file,
    with_numbers,
    words_of,
)
from matmul_sweep.classroom.source import Source, question, read, with_launcher
from matmul_sweep.classroom.syntax import Kernel, fragment_extents, places_of
from matmul_sweep.operations.shapes import Shape, ceil_div
from matmul_sweep.process.errors import UserError
from matmul_sweep.process.limits import time_limit

CORRECT, WRONG, NOT_COMPILED, NOT_RUN = "correct", "wrong", "does not compile", "not run"
UNSURE = "not enough shapes tried"
SAMPLED = "sampled"
FOLLOWS = {"wrong index", "lost terms", "wrong result stored"}  # what a C looks like
NO_SUMS = "adds up no products of elements"
WRONG_EVERYWHERE = "it is wrong at every shape that was tried"
BY_ORDER = "C has the right values in the order in which the CPU runs the threads"
RIGHT_AT_OWN = "it is right at the size that its program has"
CHECK_ARCHITECTURE = "sm_90a"  # for nvcc's opinion: the one that knows wgmma too
AS_CARD = {"__CUDA_ARCH__": 800}  # the architecture whose instructions the CPU has
FEW = 8  # small shapes, which show whether a kernel needs zeros in C
MOST_RARE = 3  # shapes at which a kernel is wrong that is right at all others
MOST_ROUNDS = 16  # of a loop that only repeats what it does; more would look endless
WIDE = 32  # multiples beyond which no odd number of them is tried
ODD = ((3, 5, 3), (1, 1, 1), (1, 3, 5), (5, 1, 3))  # numbers of multiples at which a rule is tried
FREE = 7  # in the place of a multiple, where any size will do
MOST_STRONGER = 4  # times that a rule is tried, and made stronger
FAR = 1024  # of a multiple, a size that few kernels see
SQUARES = (32, 64, 128)  # sides that are multiples of the tiles of most kernels
Known = dict[Shape, bool | str]  # whether the kernel is right at a shape
Tries = Callable[[Shape], Run] | None
READ_SECONDS, RUN_SECONDS, SHRINK_SECONDS = 5.0, 12.0, 4.0
# With one of them the launch is not the file's.
LAUNCH_SETTINGS = {"block", "tile", "blocks", "grid", "shared"}


@dataclass(frozen=True)
class Verdict:
    """status: CORRECT, WRONG, UNSURE, NOT_COMPILED or NOT_RUN.

    line (0 if unknown), message: of the compiler, or why nothing ran. printed: by the kernel, at
    the worst mistake's shape or the first one. mistakes: the worst first, each kind and line once,
    at its smallest shape. shapes: those that were tried, and whether C was right there, or SAMPLED
    where it was, but only some blocks ran. remark: what a kernel that is right could do better, or
    what is wrong at other sizes than its program's.
    convention: that which the kernel's indexing shows and its names do not, and its setting.
    unjudged: why other kernels of the file have no verdict. option: without which the compiler
    of CUDA refuses the kernel. doubt: for which strict grading would
    refuse the hand-in. given: settings from the command line. seed: of strict grading, or None.
    """

    status: str
    program: Program
    line: int = 0
    message: str = ""
    bench: Bench | None = None
    mistakes: Sequence[Mistake] = ()
    shapes: Mapping[Shape, bool | str] = field(default_factory=dict)
    remark: str = ""
    rule: str = ""
    convention: tuple[str, str] = ("", "")
    unjudged: Sequence[str] = ()
    option: str = ""
    picture: Run | None = None
    printed: str = ""
    doubt: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None

    @property
    def settings(self) -> list[dict[str, Any]]:
        """Each setting, where it comes from, and whether it counts."""
        found = {"hand-in": self.program.source.settings, "command line": self.given}
        return [
            {"key": key, "value": value, "from": where,
             "counts": where != "hand-in" or (self.seed is None and key not in self.given)}
            for where, settings in found.items() for key, value in settings.items()
        ]  # fmt: skip

    def as_json(self) -> dict[str, Any]:
        """For graders. A line that is not known is None; so is the seed where settings of a hand-in
        count."""
        found = [
            {"kind": one.kind, "line": one.line or None, "shape": str(one.run.shape),
             "what": one.what, "cure": one.cure}
            for one in self.mistakes
        ]  # fmt: skip
        same = "message rule remark printed doubt settings seed"
        return {
            "file": str(self.program.source.path), "kernel": self.program.kernel.name,
            "verdict": self.status, "line": self.line or None, "mistakes": found,
            **{name: getattr(self, name) for name in same.split()},
            "convention": self.convention[1], "unjudged": [*self.unjudged],
            "shapes": {str(shape): told for shape, told in self.shapes.items()},
        }  # fmt: skip


def judge(path: Path, settings: Mapping[str, str], seed: int | None = None) -> Verdict:
    """The verdict on the only kernel of a file that looks like a product. Raises UserError as
    pending and verdict_on do."""
    (found,) = pending(path, settings, seed)
    return verdict_on(found)


def pending(path: Path, settings: Mapping[str, str], seed: int | None = None) -> list[Verdict]:
    """What verdict_on completes for each kernel of a file that looks like a product. settings:
    key=value from the command line; kernel=name picks one. seed: of strict grading, in which the
    file's own settings do not count; None without it.

    Raises UserError if no kernel of the file is one of a product, or if something has to be asked
    of each.
    """
    found, unjudged = programs_in(path, settings, seed is None)
    verdicts = [Verdict(NOT_RUN, one, given=settings, seed=seed) for one in found]
    return [replace(verdicts[0], unjudged=unjudged), *verdicts[1:]]


def verdict_on(verdict: Verdict) -> Verdict:
    """The verdict after compiling and running. Raises UserError with what has to be asked."""
    program = verdict.program
    try:
        found = on_card(verdict)
        beside = found.bench.beside if found.bench and found.status == CORRECT else ()
        return replace(found, remark="; ".join(filter(None, (found.remark, *beside))))
    except UserError as error:
        settings = {**program.source.settings, **verdict.given}
        raise of_one(error, program.source, program.kernel, settings) from None


def of_one(
    error: UserError, source: Source, kernel: Kernel, settings: Mapping[str, str]
) -> UserError:
    """A question about one of several kernels, whose answer is to count for no other one."""
    if "kernel" in settings or len(source.products()) < 2:
        return error
    return UserError(re.sub("for instance |try: ", rf"\g<0>kernel={kernel.name} ", str(error)))


def on_card(verdict: Verdict) -> Verdict:
    """The verdict, as on a card if what a kernel has for others is wrong."""
    compiler()  # nvcc without it would blame the file
    as_card = replace(verdict, program=replace(verdict.program, macros=AS_CARD))
    with tempfile.TemporaryDirectory(prefix="try-") as name:
        if verdict.seed is None and re.search(r"__CUDA_ARCH__\s*>", verdict.program.kernel.body):
            return tried(as_card, Path(name))
        found = tried(verdict, Path(name))
        if found.status == WRONG and "__CUDA_ARCH__" in verdict.program.code:
            other = tried(as_card, Path(name))
            return found if other.status == NOT_RUN else other
        return found


def programs_in(
    path: Path, settings: Mapping[str, str], trusted: bool = True
) -> tuple[list[Program], list[str]]:
    """The programs of a file's kernels, and why others have none. trusted: whether its own settings
    count. Raises UserError if all are such."""
    late = f"{path}: reading it takes more than {READ_SECONDS:g} s"
    found, refused = [], []
    try:
        with time_limit(READ_SECONDS, late):
            file = read(path)
            settings = {**(file.settings if trusted else {}), **settings}
            headers = [replace(one, includer=file) for one in file.headers_beside if one.kernels]
            file = with_launcher(file) if trusted and file.kernels else file
            sources = [file] if file.kernels or not headers else headers
            named = [one for one in sources if settings.get("kernel") in one.kernels]
            for source in (with_settings(one, settings, trusted) for one in named or sources):
                for kernel in source.products(settings.get("kernel"), trusted):
                    try:
                        program = program_of(source, kernel, settings)
                        _ = program.needed  # which it keeps
                        found.append(program)
                    except UserError as error:
                        refused.append(of_one(error, source, kernel, settings))
    except RecursionError:
        raise UserError(f"{path}: brackets are nested too deeply to be read") from None
    errors = (node for one in file.kernels.values() for node in syntax.of_type(one.node, "ERROR"))
    if broken := 0 if found else next(map(syntax.line_of, errors), 0):
        raise broken_at(file, broken)
    if not found and not any(one.likely_products for one in (file, *headers)):
        said = str(refused[0]).removeprefix(f"{path}: ")
        raise UserError(f"{path}: no kernel in it looks like a product of two matrices: {said}")
    if not found:
        raise next((one for one in refused if "Say for instance" in str(one)), refused[0])
    overloaded = [told for one in sources for told in one.overloaded]
    return found, [str(error).removeprefix(f"{path}: ") for error in refused] + overloaded


def with_settings(source: Source, settings: Mapping[str, str], trusted: bool) -> Source:
    """The source with settings in the place of its macros and constants; strictly graded, of macros
    that a build may change alone."""
    given = {name: text for name, text in settings.items() for one in source.sources
             if name in one.constants | one.macros and (trusted or not one.fixes(name))
             and (name not in OWN or (name in {*"mnk"} and text.isdecimal()))}  # fmt: skip
    return source.with_given(given) if given else source


def broken_at(source: Source, line: int, why: str = "") -> UserError:
    """What is said of a file that no compiler can read from a line on."""
    said = f"line {line} does not compile as it stands: {source.line(line)}"
    return UserError(f"{source.path}: {said}{why}")


def refuse_form(source: Source, kernel: Kernel, settings: Mapping[str, str]) -> None:
    """Raises UserError, with the reason, for a kernel that no trial can run or that is no product
    of two matrices."""
    if re.search(r"\bmain\s*\([^;{}]*\)\s*\{", kernel.body):
        raise broken_at(source, kernel.line, f"; a brace of {kernel.name} is never closed")
    of_name = [one for one in syntax.kernels(source.tree, source.bare) if one.name == kernel.name]
    if twin := next((one for one in of_name if one.scope != kernel.scope), None):
        twins = f"lines {twin.line} and {kernel.line} have kernels called {kernel.name}"
        raise UserError(f"{source.path}: {twins}: give one another name, also where it is launched")
    if "<<<" in kernel.body:
        alone = f"{kernel.name} launches kernels itself, which a trial on the CPU cannot"
        raise UserError(f"{source.path}: {alone}; try those that it launches")
    if re.search(r"\bthrust\s*::", kernel.body):
        raise UserError(f"{source.path}: {kernel.name} uses thrust, which a trial on the CPU lacks")
    textures = re.findall(r"\btexture\s*<[^;]*>\s*(\w+)", source.bare)
    if one := next((one for one in textures if re.search(rf"\b{one}\b", kernel.body)), ""):
        gone = f"{kernel.name} reads {one}, a texture reference, which CUDA has no more since 12.0"
        raise UserError(f"{source.path}: {gone}: take A and B as pointers")
    if syntax.writes_vector(kernel):
        adds = any(map(syntax.sums_products, syntax.loops_of(kernel.node, source.bare)))
        does = "multiplies a matrix and a vector or vectors" if adds else NO_SUMS
        raise UserError(f"{source.path}: {kernel.name} {does}")
    two = sum(bool(one.pointers) for one in kernel.parameters) == 2
    other = two or not syntax.may_be_product(kernel)
    if other and not source.likely_products and "kernel" not in settings:
        raise UserError(f"{source.path}: {kernel.name} {NO_SUMS}")


def program_of(source: Source, kernel: Kernel, settings: Mapping[str, str]) -> Program:
    """A kernel's program, with dimensions that are constants of the file made small. Raises
    UserError."""
    refuse_form(source, kernel, settings)
    own, _ = template_arguments(source, kernel, settings)
    # m=N says which number is m, and is no number.
    numbers = {n: t for n, t in settings.items() if n not in ("m", "n", "k") or t.isdecimal()}
    values = known_values(source, kernel, own | numbers)
    used = used_constants(kernel, values)
    tiles = fragment_extents(kernel) | padded(source, used)
    # Of a kernel for one tile they are its dimensions.
    sizes = {name: values[name] for name in [one for one in used if one not in tiles] or used}
    other = {k: v for k, v in values.items() if k not in tiles}
    sizes = rows_of_grid(sizes, other) | terms_of_file(sizes, other) | sizes
    signature = signature_of(source, kernel, settings, sizes, own)
    told = {name: int(numbers[name]) for name in signature.sizes if name in numbers}
    extents = "*".join(text for one in shared_arrays(kernel) for text in one)  # or their products
    sides = [valued(text, values) or 0 for text in re.split(r"[*+]", extents)]
    small = small_sizes(signature.sizes, sides, source.host.bare) | told
    if small != signature.sizes:
        texts = made_small(source, kernel, signature.sizes, small)
        template = {one.name for one in kernel.template}
        settings = {k: v for k, v in settings.items() if k not in texts}
        settings |= {k: v for k, v in texts.items() if k in template}
        source = with_share(source, kernel, signature.sizes, small).with_values(texts)
        return program_of(source, source.kernel(kernel.name), settings)
    for one in signature.parameters if "grid" in settings else ():
        if one.role in ("m", "n", "k") and one.name not in ("m", "n", "k"):  # a setting's are roles
            grid = re.sub(rf"\b{re.escape(one.name)}\b", one.role, settings["grid"])
            settings = {**settings, "grid": grid}
    launch = launch_of(source, kernel, settings, signature.sizes)
    own_launch = file_launch(source, kernel, signature)

    def number(one: Parameter) -> str:
        passed = own_launch.expression(one.position) if own_launch else ""
        if passed.isdecimal() and int(passed) > MOST_ROUNDS and only_counts(one.name, kernel.body):
            passed = ""
        default = kernel.parameters[one.position].text.partition("=")[2]
        return settings.get(one.name) or passed or default or str(values.get(one.name, ""))

    flags = {p.name: "0" for p in signature.parameters if is_flag(p) and not number(p)}
    launch = replace(
        launch, guessed=launch.guessed | flags.keys(), constants={**launch.constants, **flags}
    )
    signature = with_numbers(signature, number, f"{source.path}: {kernel.name}")
    if own_launch and not settings.keys() & LAUNCH_SETTINGS:
        launch = replace(launch, program=own_launch.under(signature))
        block = own_launch.far.block if own_launch.far and "block" in launch.guessed else None
        if block:  # of a program that is given its sizes
            block = block if 0 < math.prod(block) <= MAXIMUM_THREADS else launch.block
            guessed = launch.guessed - {"block"}
            launch = replace(launch, block=block, possible=(), guessed=guessed)
        elif "block" in launch.guessed and launch.program:
            launch = replace(launch, program=launch.program.with_threads(launch.block))
    return Program(source, kernel, signature, launch)


def padded(source: Source, sizes: Sequence[str]) -> set[str]:
    """The constants that are one of the sizes and more, and by their names no dimension of another
    kind: lengths of rows."""
    sums = ((name, PADDED.fullmatch(text)) for name, text in source.names.items())
    found = {name: one[1] for name, one in sums if one and one[1] in sizes}
    roles = {name: role_of(name, {}, EXTENTS[3]) for name in source.names}
    return {name for name, base in found.items() if roles[name] in (None, roles.get(base))}


def made_small(
    source: Source, kernel: Kernel, sizes: Mapping[str, int], small: Mapping[str, int]
) -> dict[str, str]:
    """The values of dimensions that are made small, and of constants of the same value by which the
    kernel finds an element, or that are sizes of the program around it."""
    alike = {str(sizes[name]): str(value) for name, value in small.items()}
    places = " ".join(text for one in kernel.parameters for text in places_of(one.name, kernel))
    tiles = " ".join(text for array in shared_arrays(kernel) for text in array)
    found = {*re.findall(r"\w+", places)} - {*re.findall(r"\w+", tiles)}
    texts = {name: alike[text] for name, text in source.names.items() if text in alike
             and (role_of(name, {}, EXTENTS[3])
                  or (name in found and not TILED & {*words_of(name)}))}  # fmt: skip
    return texts | {name: str(value) for name, value in small.items()}


def with_share(
    source: Source, kernel: Kernel, sizes: Mapping[str, int], small: Mapping[str, int]
) -> Source:
    """The source whose only block has, for its number of threads, the share of a constant that it
    covers, or of the largest, if the kernel counts on no such number: so that it is made small as
    well, down to a warp."""
    names = {value: name for name, value in sizes.items() if name in source.names}

    def share(one: re.Match[str]) -> str:
        threads = int(one[2])
        value = threads if threads in names else max(names)
        few = value != threads and threads * small[names[value]] < WARP * value
        kept = few or re.search(rf"\b{threads}\b", kernel.body)
        return one[0] if kept else f"{one[1]}{names[value]} * {threads} / {value}"

    only = r"(<<<\s*1\s*,\s*)(\d+)\b(?=\s*>>>)"
    return replace(source, text=re.sub(only, share, source.text)) if names else source


def tried(verdict: Verdict, folder: Path) -> Verdict:
    """The verdict after compiling and running the program."""
    program = verdict.program
    with ThreadPoolExecutor() as pool:
        checked = pool.submit(check_with_cuda, program, folder, CHECK_ARCHITECTURE)
        built = pool.submit(build_for_cpu, program, folder)
        graded = pool.submit(strict.check_text, program, folder)
        try:
            verdict = replace(verdict, option=checked.result())
        except CompileMistake as error:
            built.cancel()
            return replace(verdict, status=NOT_COMPILED, line=error.line, message=error.message)
        if verdict.seed is None and (early := program.source.launches_early(program.kernel)):
            said = f"it launches {program.kernel.name} before that is declared"
            return replace(verdict, status=NOT_COMPILED, line=early, message=said)
        place, said = program.source.broken_around(program.kernel)
        if said and verdict.seed is None:
            return replace(verdict, status=NOT_COMPILED, line=place, message=said)
        try:
            verdict = believed(verdict, built.result(), graded)
        except strict.Refused as refused:
            return replace(verdict, line=refused.line, message=f"refused: {refused.message}")
        except NotRunnable as error:
            return replace(verdict, message=str(error))
        except EmulationError as error:  # nvcc took it
            line = re.search(rf"{re.escape(str(program.source.place))}:(\d+)", str(error))
            said = re.split("(?:error|unimplemented): ", str(error), maxsplit=1)[-1]
            lacking = NotRunnable(f"its compiler says: {said}")
            return replace(verdict, line=int(line[1]) if line else 0, message=str(lacking))
    try:
        launch, own = program.launch, program.launch.program
        if own and verdict.seed is None:  # strictly graded, a program is no excuse
            side = max(launch.block[:2]) if own.refuses_unknown and "block" in launch.guessed else 1
            launch = replace(launch, multiple=math.lcm(launch.multiple, own.multiple, side))
        elif own and own.for_edges:
            left = f"its program leaves a part of C to {own.for_edges}; one kernel has to do all"
            return replace(verdict, message=f"refused: {left}")
        bench = Bench(program, executable_in(folder), launch, seed=verdict.seed)
        return impossible(verdict, bench) or judged(verdict, bench, folder)
    except Unclosed as error:
        return replace(verdict, message=f"not judged: {error}")
    except EmulationError as error:
        said = f"the launch is impossible: {error}"
        if asked := question_of_guess(program.source, program.launch, said):
            raise asked from None
        return replace(verdict, status=WRONG, message=said)


def impossible(verdict: Verdict, bench: Bench) -> Verdict | None:
    """The verdict on a program that at its own sizes has a block which no GPU takes, and no other
    one at any other; or None."""
    own, block = bench.launch.program, bench.launch.block
    if not own or not own.own_shape or math.prod(block) <= MAXIMUM_THREADS:
        return None
    bench = replace(bench, launch=bench.launch.with_tile(block[1::-1], COLUMNS_FIRST))
    nothing = np.zeros((1, 1), bool)
    done = Watched(bench.executable, nothing, (), nothing, "", ended=False)
    run = Run(own.own_shape, bench.launch.alone, (), done, wrong=nothing)
    told = refused_at_own(bench, run)
    return replace(verdict, status=WRONG, bench=bench, mistakes=[told]) if told else None


def believed(verdict: Verdict, symbols: str, graded: "Future[None]") -> Verdict:
    """The verdict with a word on what strict grading would refuse. Raises strict.Refused."""
    try:
        strict.check_symbols(verdict.program, symbols)
        graded.result()
    except strict.Refused as refused:
        if refused.harmful or verdict.seed is not None:
            raise
        where = f"line {refused.line}: " if refused.line else ""
        return replace(verdict, doubt=f"{where}{refused.message}")
    except UserError:  # no compiler of CUDA to compare with
        if verdict.seed is not None:
            raise
    return verdict


def judged(verdict: Verdict, bench: Bench, folder: Path) -> Verdict:
    """The verdict under the convention that the kernel follows. A single matrix that is stored by
    columns, or the two that a square product has exchanged, may be a mistake, and is offered.
    Raises UserError with the question that a failure leaves open."""
    fit = fitting(bench, folder)
    if fit is None:
        return certain(ran(verdict, bench.with_tile()))
    told = convention_of(fit.signature, bench.signature)
    said = by_fragments(bench.program) or bench.signature.columns
    turned = not TURNED.isdisjoint(words_of(bench.program.kernel.name))  # as it is for a gradient
    ours = turned or fit.signature.columns in (bench.signature.columns, said, frozenset())
    told_by_names = fit.signature.square and not steps_by_columns(bench.program)
    told_by_names &= not bench.signature.exchanged  # or else its product is in its own order
    if ours or (len(fit.signature.columns) == 3 and not told_by_names):
        return certain(ran(replace(verdict, program=fit.program, convention=told), fit))
    words, setting = told
    if len(fit.signature.columns) == 3:
        rows = "and computes B·A if they are stored by rows"
        raise question(f"{bench.program.where} is right if {words}, {rows}: which is it", setting)
    if asked := storage(bench, *told):
        raise asked
    launch = replace(bench.launch, block=fit.launch.block)
    found = ran(verdict, replace(bench, launch=launch).with_tile())
    return replace(found, rule=f"it is right if {words}; if it is made for that, say {setting}")


def certain(verdict: Verdict) -> Verdict:
    """A verdict, if its failure holds whatever was assumed. Raises UserError with the question
    that decides it."""
    bench, mistakes = verdict.bench, verdict.mistakes
    if not (bench and mistakes):
        return verdict
    other = f"{mistakes[0].kind}, line {mistakes[0].line}, at {mistakes[0].run.shape}"
    if (
        bench.seed is None
        and bench.launch.block == OBLONG_BLOCK
        and "block" in bench.launch.guessed
    ):
        usual = replace(bench.launch, block=DEFAULT_BLOCK, tile=verdict.program.launch.tile)
        plain = replace(verdict, mistakes=(), rule="", picture=None)
        square = ran(plain, replace(bench, launch=usual, probes=()).with_tile())
        if square.status == CORRECT:
            return replace(square, remark=f"with a block that is not square it is wrong: {other}")
    fine, refused = right_as_launched(verdict, bench), refused_at_own(bench, mistakes[0].run)
    if refused and (fine or mistakes[0].kind not in OF_LAUNCH):
        others = mistakes[1:] if refused.what == mistakes[0].what else mistakes
        return replace(verdict, mistakes=(refused, *others), rule="")
    if fine:
        found, _ = conditions({**verdict.shapes}, bench)
        return replace(
            verdict, status=CORRECT, mistakes=(), picture=None,
            shapes={shape: fine for shape, fine in sorted(
                verdict.shapes.items(), key=lambda one: math.prod(one[0].dimensions))
                if fine is True or (fine and fit(shape, found))},
            rule=verdict.rule or RIGHT_AT_OWN,
            remark=f"elsewhere it is wrong: {other}",
        )  # fmt: skip
    if asked := decisive(bench, mistakes[0], verdict.shapes):
        raise asked
    return verdict


def right_as_launched(verdict: Verdict, bench: Bench) -> bool:
    """Whether a kernel that is wrong somewhere is right at the size that its own program has, and
    at all that are such multiples, or is made for this size, as a launch of several blocks may be;
    strictly graded, that is no excuse."""
    own, shapes = bench.own_shape, verdict.shapes
    factors = {one.run.factors for one in verdict.mistakes}
    fine = [*map(bool, shapes.values())]
    if not own or bench.seed is not None or factors != {ALONE} or all(fine) == any(fine):
        return False
    if shapes.get(own) is not True and not bench.covers(own):
        return False
    squares = own.square and all(shapes[one] for one in shapes if one.square)
    squares &= {one.kind for one in verdict.mistakes} == {"elements not written"}
    if squares and not any(map(bench.launch.grid_of_file, told_apart(shapes)[1])):
        return True  # its grid is known at squares alone
    (found, least), grid = conditions({**shapes}, bench), bench.launch.at(own).grid
    fits = fit(own, found) and own.dimensions[-1] >= least
    if found and (fits or multiples(shapes, bench)):
        return fits
    of_launch = verdict.mistakes[0].kind in OF_LAUNCH
    made_for_it = of_launch and bool(min(grid[:2]) > 1 or bench.has_one_block)
    made_for_it |= bench.signature.open_rows  # m is in its grid alone
    made_for_it = made_for_it or exchanged_for_square(shapes, bench, own)
    fine_there = shapes.get(own) or shapes.get(bench.like_own or own)
    return bool(fine_there and (made_for_it or bench.is_for_one_size))


def exchanged_for_square(shapes: Mapping[Shape, bool | str], bench: Bench, own: Shape) -> bool:
    """Whether nothing is wrong at whole tiles but that x and y of the program's grid are exchanged,
    which a square C such as its own does not mind."""
    square = {shape: fine for shape, fine in shapes.items() if len({*shape.output}) == 1}
    fine = len({*own.output}) == 1 and any(square.values())
    found = multiples(square, bench) if fine else {}
    off = [one for one in shapes if found and fit(one, found) and not shapes[one]]
    turned = replace(bench, launch=replace(bench.launch, mended=exchanged))
    return bool(off) and fit(own, found) and all(turned.run(one).right for one in off[:FEW])


def launched(bench: Bench) -> tuple[Bench, list[Run], str, int]:
    """The launches by which a kernel is judged, without those that were given up, and how many of
    its trials are among them; with what with_sums_of_c has."""
    bench, runs, remark = with_sums_of_c(bench, [*bench.runs(RUN_SECONDS)])
    if runs and runs[-1].endless and all(run.right for run in runs[:-1]) and repeats(bench.program):
        runs = runs[:-1]  # it takes as many times as long
    slow, runs = any(run.slow for run in runs), [run for run in runs if not run.slow]
    own, tried = bench.like_own, len(runs)
    asks = bench.has_own_grid or not all(run.right for run in runs)
    if own and asks and own not in [run.shape for run in runs] and bench.is_cheap(own):
        runs = [*runs, bench.run(own)]
    if runs and not (slow or any(run.right for run in runs)):  # it may mean squares
        wide = [bench.shape(side, side, side) for side in SQUARES]
        squares = [bench.run(shape) for shape in wide if shape.square]
        sides = [one.shape.n for one in squares if one.right][:1]
        runs = [*runs, *squares, *(bench.run(bench.shape(n, 2 * n, n)) for n in sides)]
    if runs and all(run.right for run in runs):
        runs = [*runs, *bench.uncovered(), *bench.beyond(runs)]
    return bench, runs, remark, tried


def repeats(program: Program) -> bool:
    """Whether a loop of the kernel does nothing but repeat, a number of times that is written."""
    rounds = r"\bfor\s*\([^;]*\b(\w+)\s*=[^;]*;\s*\1\s*<=?\s*[1-9]\d+\s*;[^)]*\)"
    body = program.kernel.body
    return any(len(re.findall(rf"\b{one}\b", body)) == 3 for one in re.findall(rounds, body))


def ran(verdict: Verdict, bench: Bench) -> Verdict:
    """The verdict after the launches."""
    program = verdict.program
    bench, runs, remark, tried = launched(bench)
    own = bench.like_own
    wrong = [run for run in (*runs, *bench.probes) if not run.right]
    if not runs:
        late = "at the smallest size that its constants allow, a launch takes too long: lower them"
        return replace(verdict, status=UNSURE, message=f"{UNSURE}: {late}")
    shapes = {run.shape: SAMPLED if run.right and run.sampled else run.right
              for run in runs if run.factors == ALONE}  # fmt: skip
    if more := [run for run in runs if run.launched != bench.once(run.launched)]:
        grid, needed = ("×".join(map(str, one.grid))
                        for one in (more[-1].launched, bench.once(more[-1].launched)))  # fmt: skip
        said = f"its program has {grid} blocks at {more[-1].shape}; all but {needed} repeat these"
        remark = remark or said
    fine, dirty = [run.shape for run in runs if run.right], replace(bench, zeros=False)
    if fine and bench.finds_zeros and all(dirty.run(one).right for one in fine[:FEW]):
        bench = dirty  # it may read C and not use that
    verdict = replace(verdict, bench=bench, shapes=shapes, remark=remark)
    of_launch, left = mistake_of_launch(bench, [run for run in runs if not run.right])
    ordered, explanation = told_of(left if of_launch else wrong, program)
    by_rows = None if of_launch else turned_grid(bench, runs[-1])
    of_launch = of_launch or by_rows
    if other := turned(bench, ordered):
        return ran(verdict, other)
    lead, _ = told_of([run for run in left if is_exact(bench, run.shape)], program)
    if of_launch and of_launch.kind == "grid too small" and lead:  # which no other grid mends
        ordered, of_launch = [lead[0], of_launch, *ordered], None
    if bench.has_one_block and own and not shapes.get(own):  # whose size does not make it too large
        ordered.sort(key=lambda one: one.kind in OF_LAUNCH)
    if not (of_launch or ordered):
        of_launch = refused_at_own(bench, runs[-1]) or fixed_grid(bench, runs[-1])
    if not (of_launch or ordered):
        verdict = replace(verdict, printed=runs[0].result.printed)
        if tried == (wanted := len(bench.trials)):
            return replace(verdict, status=CORRECT, remark=verdict.remark or covered(bench))
        late = f"{UNSURE}: {tried} launches of {wanted} take more than {RUN_SECONDS:g} s"
        return replace(verdict, status=UNSURE, message=f"{late}, all of them right")
    end = time.monotonic() + SHRINK_SECONDS
    worst = of_launch or smallest(ordered.pop(0), bench, explanation, end)
    shapes = between(shapes, bench)
    off = [run for run in (worst.run, *wrong) if run.wrong.any() or not run.result.ended]
    by_text = [one for run in off[:1] for one in Teller(run, program).by_text()]
    first = [worst, *(one for one in by_text if one.line != worst.line)]
    told = sorted(first, key=lambda one: one.kind in FOLLOWS)
    apart = [one for one in ordered if worth_telling(one, worst)]
    sums = [one for one in (*told, *apart) if one.kind.startswith("wrong result")]
    told += (one for one in apart if one not in sums[1:])
    right_there = bench.seed is None and own and worst.run.shape != own and shapes.get(own)
    at_own = own and right_there and bench.launch.grid_of_file(own) and bench.reaches(own)
    rule = "" if by_rows else rule_of(shapes, bench) or RIGHT_AT_OWN * bool(at_own)
    return replace(
        verdict, status=WRONG, shapes=shapes,
        rule=BY_ORDER if rule == WRONG_EVERYWHERE and not off else rule,
        mistakes=with_multiple(told, shapes, bench),
        printed=worst.run.result.printed, picture=pictured([worst.run, *wrong]),
    )  # fmt: skip


def turned(bench: Bench, mistakes: Sequence[Mistake]) -> Bench | None:
    """The bench with the other order of the axes of a guessed grid, which then writes what that
    leaves unwritten; or None."""
    launch, short = bench.launch, [one for one in mistakes if one.kind == "elements not written"]
    guess = "grid" in launch.guessed and not (launch.program or launch.grid)
    tile = launch.tile[::-1] if launch.tile and guess and launch.order == COLUMNS_FIRST else None
    other = replace(bench, launch=replace(launch, tile=tile, order=ROWS_FIRST), probes=())
    runs = (other.run(one.run.shape) for one in short if tile)
    return next((other for run in runs if run.result.ended and not run.unwritten.any()), None)


def covered(bench: Bench) -> str:
    """What to do about a launch that is a guess, or how large a C the grid of a program covers that
    has the same one at every size, in words."""
    launch, program = bench.launch, bench.launch.program
    if bench.guesses_launch:
        example = "block=16x16 grid='(n+15)/16,(m+15)/16'"
        said = f"compare its launch with that below, or say it, for instance {example}"
        told = sizes_exchanged(bench.signature, program)[1] if program else ""
        return f"{said}; {told}" if told else said
    if program is None and launch.tile == (1, EVERYTHING) and launch.most[1] < EVERYTHING:
        return f"a block has a row of C, which has at most {launch.most[1]} columns here"
    if program is None or not program.constant or program.own_shape or bench.signature.fixed:
        return ""
    grid = program.own.grid
    if grid is None or launch.tile is None or launch.order == LINEAR or launch.fixed:
        return ""
    blocks = [grid["xyz".index(axis)] for axis in reversed(launch.order)]
    rows, columns = ("all" if side == EVERYTHING else many * side
                     for many, side in zip(blocks, launch.tile, strict=True))  # fmt: skip
    had = "×".join(map(str, grid))
    return f"its program launches {had} blocks at every size, which cover a C of {rows}×{columns}"


def with_sums_of_c(bench: Bench, runs: Sequence[Run]) -> tuple[Bench, Sequence[Run], str]:
    """The bench and its runs, if some are right but for sums in the 16 bits of all matrices with
    these allowed, because the author wrote them so; and what they cost, in words."""
    operation = bench.signature.operation
    chosen = bench.rounding and (operation.dtype == operation.output or not operation.rounding)
    if not chosen or all(run.right for run in runs):
        return bench, runs, ""
    narrow = replace(bench, narrow=True)
    probes = tuple(map(narrow.compared, bench.probes))
    seen = [narrow.compared(run) for run in runs]
    costs = [np.abs(run.result.c - run.expected)[run.wrong].max() / np.abs(run.expected).max()
             for run, other in zip(runs, seen, strict=True)
             if other.right and run.wrong.any()]  # fmt: skip
    if not costs:
        return bench, runs, ""
    remark = (f"it computes in {operation.dtype}, the type of its matrices: C errs by up to "
              f"{max(costs):.2%} of its largest element, and more for longer sums")  # fmt: skip
    return replace(narrow, probes=probes), seen, remark


def told_of(wrong: Sequence[Run], program: Program) -> tuple[list[Mistake], Explanation | None]:
    """Each kind of mistake of these runs and each line once, the worst first, and what explains
    every C that no other finding does."""
    few = few_of([run for run in wrong if not run.mistaken])
    explanation = common(few, program.signature, program.kernel.body)
    found: dict[tuple[str, int], Mistake] = {}
    for run in wrong:
        for one in mistakes_of(run, program, explanation if run in few else None):
            found.setdefault((one.kind, one.line), one)
    return sorted(found.values(), key=lambda one: one.rank), explanation


def pictured(wrong: Sequence[Run]) -> Run | None:
    """The run whose wrong elements show most: the largest C that is partly right, or else the
    largest at all, of those that a terminal shows whole."""
    shown = [run for run in wrong if run.wrong.any()]
    whole = [run for run in shown if len(run.wrong) <= MOST_ROWS] or shown
    return max(whole, key=lambda run: (not run.wrong.all(), run.wrong.size), default=None)


def worth_telling(other: Mistake, worst: Mistake) -> bool:
    """Whether a further mistake may be one of its own: a wrong C mostly follows from another one of
    the same launch."""
    follows = other.line == worst.line and (worst.kind, other.kind) in (
        ("out of bounds", "race"),
        ("missing barrier", "uninitialised shared memory"),
    )
    of_another = worst.kind.startswith("wrong") or other.run.mistaken
    follows |= other.kind.startswith("wrong result") and bool(of_another)
    return not other.kind.startswith(worst.kind) and not follows


def smallest(
    mistake: Mistake, bench: Bench, explanation: Explanation | None, end: float
) -> Mistake:
    """The same mistake at a shape none of whose dimensions can be smaller, as far as is known at
    the time `end`."""
    if mistake.kind == "endless loop" or mistake.run.factors != ALONE:
        return mistake
    for shape in bench.smaller(mistake.run.shape):
        if time.monotonic() > end:
            break
        run = bench.run(shape)
        holds = explanation and explanation in explanations(run, bench.signature)
        for one in mistakes_of(run, bench.program, explanation if holds else None):
            if one.kind == mistake.kind:
                return smallest(one, bench, explanation, end)
    return mistake


def rule_of(shapes: Known, bench: Bench) -> str:
    """Where the kernel is right, in words, if that is simple and was tried."""
    right, wrong = told_apart(shapes)
    if not (right and wrong):
        return "" if any(shapes.values()) else WRONG_EVERYWHERE
    found, least = conditions(shapes, bench)
    wide = [shape for shape in right if min(shape.dimensions) > 1] or right  # 1 hides a stride
    roles, every = right[0].__match_args__, range(len(right[0].dimensions))
    for which in (every, *combinations(every, 2)):
        alike = {shape: fine for shape, fine in shapes.items()
                 if len({shape.dimensions[i] for i in which}) == 1}  # fmt: skip
        names = " = ".join(bench.signature.name_of(roles[i]) for i in which)
        said = "square {}" if which == every else f"{{}} with {names}"
        sides = multiples(alike, bench) if alike.keys() >= {*wide} else {}
        if len(sides) == 1 and not found:
            return f"it is right at {said} only".format(f"multiples of {next(iter(sides))}")
        if alike.keys() >= {*wide} and all(alike.values()):
            return f"it is right at {said} only".format("shapes")
    if not found and (beyond := rule_beyond(shapes, bench)):
        return beyond
    if not all(map(shapes.get, fresh(found, least, bench))):
        return ""
    terms = f" and {bench.signature.name_of('k')} is at least {least}" if least else ""
    named = {side: {bench.signature.name_of(roles[i]): "" for i in which}
             for side, which in found.items()}  # fmt: skip
    told = (f"{' and '.join(names)} {'is a multiple' if len(names) == 1 else 'are multiples'} "
            f"of {side}" for side, names in named.items())  # fmt: skip
    said = " and ".join(told)
    limit = f", up to {most}" if (most := largest(found, bench)) else ""
    return f"it is right where {said}{terms}{limit}" if said else ""


def rule_beyond(shapes: Mapping[Shape, bool | str], bench: Bench) -> str:
    """From which size on the kernel is right, or at which few shapes it is not, of many."""
    right, wrong = told_apart(shapes)
    if len(right) <= FEW:
        return ""
    roles = right[0].__match_args__[: 1 if bench.signature.square else None]
    least = {role: min(getattr(shape, role) for shape in right) for role in roles}
    if all(any(getattr(one, role) < side for role, side in least.items()) for one in wrong):
        names = {bench.signature.name_of(role): side for role, side in least.items() if side > 1}
        told = " and ".join(f"{name} is at least {side}" for name, side in names.items())
        return f"it is right where {told}"
    rare = " and ".join(map(str, wrong)) if len(wrong) <= MOST_RARE else ""
    return rare and f"of the {len(shapes)} shapes that were tried, it is wrong only at {rare}"


def told_apart(shapes: Mapping[Shape, bool | str]) -> tuple[list[Shape], list[Shape]]:
    """Those where the kernel is right, whole C if there are any, and those where it is not."""
    whole = [shape for shape, fine in shapes.items() if fine is True]
    right = whole or [shape for shape, fine in shapes.items() if fine]
    return right, [shape for shape, fine in shapes.items() if not fine]


def multiples(shapes: Mapping[Shape, bool | str], bench: Bench) -> Mapping[int, list[int]]:
    """The dimensions of which each number has to be a factor, so that the kernel is right; none, if
    that does not tell where it is."""
    right, wrong = told_apart(shapes)
    tiles = {*bench.launch.block[:2], *(bench.launch.tile or ())}
    found: dict[int, list[int]] = {}
    first = int(bench.signature.open_rows)  # which are multiples by the grid
    for i in range(first, 1 if bench.square else len(right[0].dimensions)):
        fits = (side for side in {*tiles, 1, 2, 4, 8, 16, 32, 64, 128}
                if not any(shape.dimensions[i] % side for shape in right))  # fmt: skip
        found.setdefault(max(fits), []).append(i)
    found.pop(1, None)
    return {} if any(fit(shape, found) for shape in wrong) else found


def right_at(shape: Shape, known: Known, run: Tries) -> bool:
    """Whether the kernel is right at a shape, which is tried if it is not known yet."""
    if shape not in known and run:
        known[shape] = run(shape).right
    return bool(known.get(shape))


def conditions(known: Known, bench: Bench, run: Tries = None) -> tuple[dict[int, list[int]], int]:
    """Such multiples; or else those from so many terms of a sum on as one has where the kernel is
    right, and this number: it may read a tile before it looks how many there are; or else those at
    which it is always right, although it is at others, too. Each is as small as can be beside the
    others. run: if more may be tried than what is known."""
    told, least, right = multiples(known, bench), 0, told_apart(known)[0]
    if not (told or bench.square) and len(right[0].dimensions) > 2:
        least = min(shape.dimensions[2] for shape in right)
        many = {shape: fine for shape, fine in known.items() if shape.dimensions[2] >= least}
        told = multiples(many, bench)
    if not told and rule_beyond(known, bench):
        return {}, 0
    least, count = least * bool(told), 1 if bench.square else len(right[0].dimensions)
    sides = [next((one for one in told if i in told[one]),
                  1 if told or i < bench.signature.open_rows else 2 * WIDE)
             for i in range(count)]  # fmt: skip

    def found() -> dict[int, list[int]]:
        return {one: [i for i in range(count) if sides[i] == one] for one in sides if one > 1}

    def holds() -> bool:
        fine = all(right for one, right in known.items()
                   if fit(one, found()) and one.dimensions[-1] >= least)  # fmt: skip
        return fine and all(right_at(one, known, run) for one in fresh(found(), least, bench)[:1])

    for i in range(count if holds() else 0):
        while sides[i] % (2 * bench.launch.multiple) == 0 and holds():
            sides[i] //= 2
        sides[i] *= 1 if holds() else 2
    return (found() if holds() else {}), least


def fresh(found: Mapping[int, list[int]], least: int, bench: Bench) -> list[Shape]:
    """Shapes that are such multiples and nothing more, by odd numbers of them, from so many terms
    on, at which a kernel has to be right that is right at all."""
    sides = [next((one for one in found if i * (not bench.square) in found[one]), FREE)
             for i in range(3)]  # fmt: skip
    shapes = []
    for times in ODD if found else ():
        m, n, k = (side * (1 + many // 5 if side > WIDE else many)
                   for side, many in zip(sides, times, strict=True))  # fmt: skip
        k = m if bench.signature.operation.symmetric else k + ceil_div(least, sides[2]) * sides[2]
        shapes.append(bench.shape(m, n, k))
    return [one for one in dict.fromkeys(shapes) if bench.is_cheap(one)]


def largest(found: Mapping[int, list[int]], bench: Bench) -> int:
    """The largest size of such multiples that a GPU lets the program launch; 0 without an end."""
    program, side = bench.launch.program, math.lcm(*found)

    def refused(times: int) -> bool:
        launched = program.at(bench.shape(*[side * times] * 3)) if program else None
        return bool(program and launched and program.refusal(launched))

    return side * bisect_left(range(1, FAR), True, key=refused) if found and refused(FAR) else 0


def with_multiple(
    mistakes: Sequence[Mistake], shapes: Mapping[Shape, bool | str], bench: Bench
) -> list[Mistake]:
    """Mistakes with the multiple of terms that all the shapes show: one may allow several."""
    terms = 2 if len(next(iter(shapes)).dimensions) == 3 and not bench.signature.square else 0
    known = multiples(shapes, bench) if any(shapes.values()) else {}
    side = next((str(side) for side, which in known.items() if terms in which), r"\g<0>")
    return [replace(one, what=re.sub(r"(?<=no multiple of )\d+", side, one.what))
            for one in mistakes]  # fmt: skip


def between(shapes: Known, bench: Bench) -> Known:
    """Whether the kernel is right, at shapes too that show which multiples are enough, and from how
    many terms on; of one that is right at squares alone at more of these, too."""
    known, right = {**shapes}, told_apart(shapes)[0]
    if not right:
        return known
    if not bench.square and all(shape.square for shape in right):
        squares = {shape: fine for shape, fine in shapes.items() if shape.square}
        known |= between(squares, replace(bench, squares=True))
        side = min(shape.m for shape in right if shape.m > 1 or len(right) == 1)
        for sides in {*permutations((2 * side, side, side))}:  # that leave two of them alike
            right_at(bench.shape(*sides), known, bench.run)
    found, terms = conditions(known, bench, bench.run)
    least = min(right, key=lambda one: one.operations)
    while found and terms > 1 and right_at(least, known, bench.run):
        least = replace(least, k=(terms := terms // 2))
    for _ in range(MOST_STRONGER):  # what holds at these may do so by chance
        told = fresh(*conditions(known, bench, bench.run), bench)
        if all(right_at(one, known, bench.run) for one in told):
            break
    return known


def fit(shape: Shape, found: Mapping[int, list[int]]) -> bool:
    """Whether a shape's dimensions are such multiples."""
    return not any(shape.dimensions[i] % side for side, which in found.items() for i in which)
