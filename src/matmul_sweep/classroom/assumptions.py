"""When a failure is a verdict, and when it is a question.

A kernel is wrong for certain where it fails as its own file launches it, or however what nobody
said may be meant. What a trial had to assume, and may be why it failed, is asked instead.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import chain, permutations
from operator import ge, gt

from matmul_sweep.classroom.conventions import different_sides, right
from matmul_sweep.classroom.experiments import Bench
from matmul_sweep.classroom.launching import known_values, question_of_guess, usual_blocks
from matmul_sweep.classroom.mistakes import OF_LAUNCH, Mistake, Teller
from matmul_sweep.classroom.program import Program
from matmul_sweep.classroom.signature import question_of_more, question_of_roles, words_of
from matmul_sweep.classroom.source import question, word_set
from matmul_sweep.classroom.syntax import SAYS_GRAM
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError

# What a matrix, or a number, that was taken for another one looks like.
MISREAD = {
    "wrong index", "lost terms", "out of bounds", "crash", "misaligned access", "race",
    "elements not written", "wrong result", "wrong result stored",
}  # fmt: skip
OF_GRID = {"elements not written", "out of bounds", "race", "wrong result stored"}
RIGHT_NOWHERE = "is correct at none of the shapes tried"
WIDE = 64  # of a tile, that shapes are as large as
# Words of A and of B, which tell them from an input and its weights, whose layout is anybody's.
PLAIN = {"A": word_set("a ad da m md dm 1 lhs left first"),
         "B": word_set("b bd db n nd dn 2 rhs right second")}  # fmt: skip
SAYS_TRANSPOSED = re.compile(  # or compares with a library that stores by columns
    r"(?i:transpos|trans_?[ab]\b|col(?:umn)?[-_ ]?(?:major|wise)|cublas\w*gemm"
    r"|\b(?:by|in|par|por|per|nach) (?:col|spalt)\w+)"
    r"|\b(?:[AB]_?T|Bt|[ab]_t)\b|\b[ABab](?:\^[Tt]|ᵀ|')"
)
# What a kernel does beside a product.
BESIDE = re.compile(
    r"(?i)\b\w*(?:complex|[rg]elu|silu|sigmoid|softmax|bias|quant|residual|zero_?point)\w*\b"
    r"|\bclamp\w*(?=\s*\()|\b(?:max|min)(?=\s*\(\s*(?:-128|127)\b)"
    r"|\b(?:__)?(?:expf?|tanhf?|fmaxf?|fminf?|r?sqrtf?|erff?|logf?)(?=\s*\()"
)
# An element of a fragment that becomes none of one.
ELEMENT = re.compile(r"(?:^|[;{})])(?:(?!\.x\s*\[)[^;={}])*=(?!=)[^;]*\.x\s*\[")
# What makes other numbers of whole ones.
HOLDS_OTHERS = re.compile(r"_as_(?:float|double|half)\b|\b__half|(?:half2?|bfloat162?|float)\s*\*")
# A macro that shifts by one of its own arguments.
SHIFTS = re.compile(r"#[ \t]*define[ \t]+(\w+)\([^)\n]*\b(\w+)\b[^)\n]*\).*<<[ (]*\2\b")


def decisive(bench: Bench, worst: Mistake, shapes: Mapping[Shape, object]) -> UserError | None:
    """The question that stands in the place of a failure, or None where it is certain. worst: its
    worst mistake; shapes: whether C is right there. Where it is, or would be with another launch
    than the file's, the kernel was read as it is meant."""
    unsure = bench.signature.unsure  # of which a shape tells nothing where all named ones are alike
    named = {p.role for p in bench.signature.parameters} & {*"mnk"}

    def tells(shape: Shape) -> bool:
        return not unsure or len({getattr(shape, role) for role in named}) == len(named)

    was_read = (worst.kind in OF_LAUNCH and not unsure) or any(
        fine and min(shape.dimensions) > 1 and tells(shape) for shape, fine in shapes.items()
    )
    grid = worst.kind in OF_GRID or "depth" in bench.launch.guessed
    asked = [of_fragments(bench, shapes), of_squares(bench, shapes), of_unread(bench, shapes)]
    asked += [of_grid(bench, worst, was_read, shapes)] * grid
    if not was_read:
        asked += [of_numbers(bench, worst.kind), of_launch(bench, worst.kind)]
        asked += [of_reading(bench, worst)]
    return next(chain(*asked), None)


def of_grid(
    bench: Bench, worst: Mistake, was_read: bool, shapes: Mapping[Shape, object]
) -> Iterator[UserError]:
    """Questions about the grid: that of a program which launches the kernel with one that cannot
    be read, at least along z, or of none; how large C is, if a program launches others, and this
    one has one block; and the block, if none that is tried computes its part of C."""
    program, launch, (x, y, _) = bench.program, bench.launch, bench.launch.block
    tile = [min(side, WIDE) for side in launch.tile or ()]
    fine = [one.output for one, right in shapes.items() if right]
    if launch.possible and not any(all(map(ge, output, tile)) for output in fine):
        yield question_of_block(program)
    own = program.in_file
    deep = launch.depth > 1 and not launch.grid_of_file(worst.run.shape)
    known = own and own.far and own.far.grid and not deep
    guessed = "grid" in launch.guessed and not any(all(map(gt, output, tile)) for output in fine)
    guessed = guessed and "blockIdx" in program.kernel.body and not bench.signature.fixed
    shape = different_sides(bench)  # of which one block does its part
    part = guessed or (own and not known and not launch.possible)
    part = part and right(bench.run(shape, bench.first_block(shape)), whole=False)
    along_z = "depth" in launch.guessed and not own
    # Every grid has the first block.
    first = worst.run.launched.grid == (1, 1, 1) and worst.kind != "elements not written"
    known = known or (first and "block" not in launch.guessed and not deep)
    asks = not known and (part or launch.possible) if own else (guessed and part) or along_z
    if asks and not launch.grid and not launch.blocks:
        leaves = "its program's is not known" if own else "no program here launches it"
        leaves = f"fails with a guessed grid, because {leaves}: what is it"
        yield question(
            f"{program.where} {leaves}",
            f"grid='(n+{x - 1})/{x},(m+{y - 1})/{y}{',k/32' * along_z}'",
        )
    if was_read and not own and program.source.launchers and "blockIdx" not in program.kernel.body:
        one = f"takes no blockIdx, and is right in one block of {x}×{y} threads: how large is C"
        yield question(f"{program.where} {one}", f"most_rows={y} most_columns={x}")


def of_fragments(bench: Bench, shapes: Mapping[Shape, object]) -> Iterator[UserError]:
    """What cannot be judged of a kernel that is right nowhere: which lane has which elements."""
    line = Teller.line_of(bench.program, ELEMENT.pattern)
    if line and "fragment" in bench.program.code and not any(shapes.values()):
        said = f"line {line} takes elements of a fragment by number, and CUDA does not say which"
        instead = "lane has which; the CPU has them otherwise than a card: use store_matrix_sync"
        yield UserError(f"{bench.program.where} {RIGHT_NOWHERE}: {said} {instead}")


def of_squares(bench: Bench, shapes: Mapping[Shape, object]) -> Iterator[UserError]:
    """A question about a kernel that is right at square shapes and leaves a size unused: a struct
    brings them all along. Which its program has is not known."""
    program, signature, (x, y, _) = bench.program, bench.signature, bench.launch.block
    roles = signature.operation.shape.__match_args__
    sizes = [p for p in signature.parameters if p.member and p.role in roles]
    left = {p.role for p in sizes} - {p.role for p in sizes if p.name in program.kernel.body}
    own, squares = program.in_file, all(shapes[one] for one in shapes if one.square)
    if left and squares and own and not own.own_shape:
        said = " ".join(f"{role}={signature.name_of('m')}" for role in roles)
        said += f" most_rows={y} most_columns={x}" * own.one_block
        asked = "is right at square shapes: which does its program have"
        yield question(f"{program.where} {asked}", said)


def of_unread(bench: Bench, shapes: Mapping[Shape, object]) -> Iterator[UserError]:
    """A question about a number that the kernel never reads, and that trial took for a dimension,
    if the kernel is right wherever this is as long as another one."""
    signature, body = bench.signature, bench.program.kernel.body
    names = {one: signature.name_of(one) for one in signature.operation.shape.__match_args__}
    for one, other in permutations(names if signature.unsure else (), 2):
        alike = all(fine == (getattr(shape, one) == getattr(shape, other))
                    for shape, fine in shapes.items())  # fmt: skip
        if alike and not re.search(rf"\b{names[one]}\b", body):
            said = names | {one: names[other]}
            asked = f"never reads {names[one]}, and is right where it is {names[other]}: is it so"
            yield question(f"{bench.program.where} {asked}", " ".join(map("=".join, said.items())))


def of_numbers(bench: Bench, kind: str) -> Iterator[UserError]:
    """Questions about which number is which dimension, if the file has a product at all."""
    signature, source, where = bench.signature, bench.program.source, bench.program.where
    if not source.likely_products and (signature.operation.symmetric or not are_plain(bench)):
        yield UserError(f"{source.path}: no kernel in it looks like a product of two matrices")
    if shift := shifted_by(bench.program):
        asks = f"shifts by {shift}, the logarithm of a dimension, which no trial gives"
        yield UserError(f"{where} {asks}: multiply by the dimension, and take {shift} out")
    if signature.again:
        yield question_of_more({signature.again: "16"}, where)
    misread = kind in MISREAD | OF_LAUNCH.keys() or signature.open_rows
    if signature.unsure and not signature.settled and misread:
        names = [p.name for p in signature.parameters if p.role in ("m", "n", "k")]
        yield question_of_roles(names, where)


def shifted_by(program: Program) -> str:
    """The number, taken for a dimension, by which a kernel or a macro of it shifts; or nothing."""
    found = [SHIFTS.findall(one.bare) for one in program.source.sources]
    macros = "|".join([name for one in found for name, _ in one] or "-")
    names = "|".join(p.name for p in program.signature.parameters if p.role in ("m", "n", "k"))
    shift = rf"<<[ (]*({names})\b|\b(?:{macros})\s*\([^;]*[(,]\s*({names})\s*,"
    told = re.search(shift, program.kernel.body)
    return next(filter(None, told.groups()), "") if told else ""


def of_launch(bench: Bench, kind: str) -> Iterator[UserError]:
    """Questions about numbers of a template and macros, the block, and its part of C."""
    program, launch, own = bench.program, bench.launch, bench.program.in_file
    said = f"{program.kernel.name} {RIGHT_NOWHERE}"
    numbers = [one for one in launch.guessed if launch.constants.get(one, "").isdecimal()]
    if numbers and not launch.possible:
        yield from filter(None, [question_of_guess(program.source, launch, said)])
    if given := " ".join(map("=".join, open_macros(program).items())):
        asked = f"{program.where} {RIGHT_NOWHERE} with {given}, which a build may change: to what"
        yield question(asked, given)
    open_template = program.kernel.template and launch.guessed & launch.constants.keys()
    free = kind in OF_GRID and "blockDim" in program.kernel.body  # and may fit no size
    sizes = bench.signature.fixed.values() if free else ()
    ragged = any(size % side for size in sizes for side in launch.block[:2])
    unclear = open_template or own or program.kernel.bounds or ragged  # which do not say its shape
    unclear = unclear or kind == "out of shared memory"
    if launch.possible or ("block" in launch.guessed and unclear):
        yield question_of_block(program)
    if bench.signature.open_rows and not (program.launch.tile or bench.own_shape):
        part = "Its rows of C come from the grid: of how many rows and columns of C is a block"
        yield question(f"{program.where} {RIGHT_NOWHERE}. {part}", "tile=32x32")


def open_macros(program: Program) -> dict[str, str]:
    """The numbers that a kernel uses, and the file defines only if nobody has before."""
    words = {*re.findall(r"\w+", program.kernel.body)} - program.launch.constants.keys()
    known = known_values(program.source, program.kernel, {})
    return {name: str(known[name]) for one in program.source.sources for name in one.macros
            if name in words & known.keys() and not one.fixes(name)}  # fmt: skip


def of_reading(bench: Bench, worst: Mistake) -> Iterator[UserError]:
    """Questions about what is computed: what is no plain product, which matrix is which."""
    program, signature, operation = bench.program, bench.signature, bench.signature.operation
    nowhere = f"{program.where} {RIGHT_NOWHERE}"
    coded = operation.dtype == "int8" and not operation.output.startswith("int")
    if coded or (operation.dtype.startswith("int") and HOLDS_OTHERS.search(program.code)):
        yield UserError(f"{nowhere}: its {operation.dtype} seem to be codes of other numbers")
    if worst.kind not in MISREAD or signature.settled:
        return
    if worst.what.startswith("it computes A·A:") and not SAYS_GRAM.search(program.kernel.name):
        yield UserError(f"{nowhere}: it multiplies a matrix by itself, which no trial knows")
    if found := BESIDE.search(program.kernel.body):
        line = Teller.line_of(program, re.escape(found[0]))
        said = f"line {line} has `{found[0]}`, and what it does beside A·B cannot be judged"
        yield UserError(f"{nowhere}, and no plain product: {said}; take it out")
    if not are_plain(bench):
        a, b, c, m, n, k = map(signature.name_of, "ABCmnk")
        said = f"as {a} of {m}×{k} times {b} of {k}×{n}, nor with one of them transposed"
        said = f"as {a}ᵀ·{a}" if operation.symmetric else said
        yield question(f"{nowhere} {said}: is {c} to be so", "order=rows")


def question_of_block(program: Program) -> UserError:
    """Which block a kernel takes, and which numbers its template, if these are a guess too."""
    launch, usual = program.launch, usual_blocks(program.source, program.kernel)[0]
    numbers = [one for one in launch.constants if one in launch.guessed]
    most = max(program.signature.fixed.values(), default=usual[0])
    block = "x".join(str(min(side, most)) for side in usual if side > 1)
    said = [f"{one}={launch.constants[one]}" for one in numbers]
    example = " ".join([*said, f"block={block}"])
    asked = f"{program.source.path}: which block does {program.kernel.name} take"
    return question(asked + f", with which {', '.join(numbers)}" * bool(numbers), example)


def are_plain(bench: Bench) -> bool:
    """Whether the matrices have the names that every course gives them; a single one that is
    square could be meant in many ways."""
    signature, of = bench.signature, bench.signature.operation
    named = (PLAIN[role] & {*words_of(signature.name_of(role))} for role in of.matrices[:-1])
    return all(named) and not (of.symmetric and signature.square)


def storage(bench: Bench, words: str, setting: str) -> UserError | None:
    """How a matrix is stored, if the kernel is right with another way: a mistake where the names
    are those of every course, and the file never speaks of it."""
    says = SAYS_TRANSPOSED.search(bench.program.source.text)
    if are_plain(bench) and (bench.signature.operation.symmetric or not says):  # all say AᵀA
        return None
    asked = f"{bench.program.where} is right if {words}: is it made for that"
    return question(asked, setting)
