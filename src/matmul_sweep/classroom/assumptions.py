"""When a failure is a verdict, and when it is a question.

A kernel is wrong for certain where it fails as its own file launches it, or however what nobody
said may be meant. What a trial had to assume, and may be why it failed, is asked instead: each
function below is such an assumption, and returns the question, or None where it decides nothing.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from matmul_sweep.classroom.experiments import Bench, Run
from matmul_sweep.classroom.launching import (
    CROSSED,
    question_of_guess,
    usual_blocks,
    without_aliases,
)
from matmul_sweep.classroom.mistakes import Mistake, Teller
from matmul_sweep.classroom.program import Program
from matmul_sweep.classroom.signature import question_of_more, question_of_roles, words_of
from matmul_sweep.classroom.source import question, word_set
from matmul_sweep.operations.shapes import Shape
from matmul_sweep.process.errors import UserError

# What a matrix, or a number, that was taken for another one looks like.
MISREAD = {
    "wrong index", "lost terms", "out of bounds", "crash", "misaligned access", "race",
    "elements not written", "wrong result", "wrong result stored",
}  # fmt: skip
OF_LAUNCH = {"grid too small", "grid exchanged", "comma for dim3", "too many threads",
             "too much shared memory", "too little shared memory"}  # fmt: skip
VAGUE = MISREAD - {"wrong index", "lost terms", "wrong result"}  # nothing explains C
OF_GRID = {"elements not written", "out of bounds", "race", "wrong result stored"}
# Words of A and of B, which tell them from an input and its weights, whose layout is anybody's.
PLAIN = {"A": word_set("a ad da m md dm 1 lhs left first"),
         "B": word_set("b bd db n nd dn 2 rhs right second")}  # fmt: skip
OF_GRAM = re.compile("(?i)gram|syrk|at_?a|cov")
SAYS_TRANSPOSED = re.compile(
    r"(?i)transpos|col(?:umn)?[-_ ]?major|\b[ab]_?t\b|[ab](?:\^t|ᵀ)|[ab]'|(?<![a-z])(?:nt|tn)\b"
)
# What a kernel does beside a product.
BESIDE = re.compile(
    r"(?i)\b\w*(?:complex|[rg]elu|silu|sigmoid|softmax|bias|quant|mask|residual|norm|zero_?point)\w*\b"
    r"|\b(?:__)?(?:expf?|tanhf?|fmaxf?|fminf?|r?sqrtf?|erff?|logf?)(?=\s*\()"
)


def decisive(bench: Bench, worst: Mistake, shapes: Mapping[Shape, object]) -> UserError | None:
    """The question that stands in the place of a failure, or None where it is certain. worst: its
    worst mistake; shapes: whether C is right there. Where it is, or would be with another launch
    than the file's, the kernel was read as it is meant."""
    was_read = worst.kind in OF_LAUNCH or any(
        fine and min(shape.dimensions) > 1 for shape, fine in shapes.items()
    )
    asks = (grid, alone, block) if was_read else NOWHERE
    found = (one(bench, worst.kind, worst.run if was_read else None) for one in asks)
    return next(filter(None, found), None)


def about(bench: Bench) -> str:
    return f"{bench.program.source.path}: {bench.program.kernel.name}"


def nowhere(bench: Bench) -> str:
    return f"{about(bench)} is correct at none of the shapes tried"


def unlike(bench: Bench, *_: object) -> UserError | None:
    """What the kernel of a file is that has none that looks like a product."""
    source, name = bench.program.source, bench.program.kernel.name
    said = f"no kernel in it looks like a product of two matrices, nor computes {name} one"
    return None if source.likely_products else UserError(f"{source.path}: {said}")


def grid(bench: Bench, kind: str, _: Run | None) -> UserError | None:
    """That of a program which launches the kernel with one that cannot be read."""
    own, said = bench.program.in_file, bench.launch.grid or bench.launch.blocks
    if kind not in OF_GRID or said or not own or (own.far and own.far.grid):
        return None
    leaves = "fails with a guessed grid, because its program's is not known"
    return question(f"{about(bench)} {leaves}: what is it", "grid='(n+15)/16,(m+15)/16'")


def alone(bench: Bench, kind: str, _: Run | None) -> UserError | None:
    """How large a C is that one block of a program computes, which launches other kernels."""
    program = bench.program
    one_block = program.source.launchers and "blockIdx" not in program.kernel.body
    if kind not in OF_GRID or program.in_file or not one_block:
        return None
    x, y = bench.launch.block[:2]
    one = f"takes no blockIdx, and is right in one block of {x}×{y} threads"
    said = f"most_rows={y} most_columns={x}"
    return question(f"{about(bench)} {one}: how large is C", said)


def block(bench: Bench, _: str, worst: Run | None) -> UserError | None:
    """The block, and the numbers of the template, if these are a guess, too: where the kernel has
    a launch that cannot be read, or takes several, or is right with another one."""
    program, launch = bench.program, bench.launch
    if "block" not in launch.guessed:
        return None
    if worst:
        is_open = any(one.right for one in with_other_blocks(bench, worst))
    else:
        is_open = bool(launch.possible or program.kernel.template or program.in_file)
    return question_of_block(program) if is_open else None


def question_of_block(program: Program) -> UserError:
    """Which block a kernel takes, and which numbers its template, if these are a guess too."""
    launch, usual = program.launch, usual_blocks(program.source, program.kernel)[0]
    numbers = [one for one in launch.constants if one in launch.guessed]
    block = "x".join(str(side) for side in usual if side > 1)
    example = " ".join([*(f"{one}={launch.constants[one]}" for one in numbers), f"block={block}"])
    asked = f"{program.source.path}: which block does {program.kernel.name} take"
    return question(asked + f", with which {', '.join(numbers)}" * bool(numbers), example)


def of_impossible(program: Program, said: str) -> UserError | None:
    """The question about a launch that no GPU takes, if it is a guess."""
    asked = question_of_guess(program.source, program.launch, said, types=True)
    return asked or (question_of_block(program) if "block" in program.launch.guessed else None)


def with_other_blocks(bench: Bench, worst: Run) -> Iterator[Run]:
    """The worst launch with each usual block, none of which excuses x in the place of y."""
    kernel = bench.program.kernel
    crossed = re.search(CROSSED, without_aliases(kernel.body))
    for one in () if crossed else usual_blocks(bench.program.source, kernel):
        other = replace(bench, launch=replace(bench.launch, block=one, tile=None)).with_tile()
        yield other.run(worst.shape, factors=worst.factors)


def order(bench: Bench, kind: str, _: Run | None) -> UserError | None:
    """Which number is which dimension, if their names do not say it."""
    signature = bench.signature
    if signature.again:
        return question_of_more({signature.again: "16"}, about(bench))
    if not signature.unsure or signature.settled or kind not in VAGUE:
        return None
    names = [p.name for p in signature.parameters if p.role in ("m", "n", "k")]
    return question_of_roles(names, str(bench.program.source.path))


def guess(bench: Bench, *_: object) -> UserError | None:
    """The arguments of a template, of which the block does not follow."""
    if bench.launch.possible:
        return None
    said = f"{bench.program.kernel.name} is correct at none of the shapes tried"
    return question_of_guess(bench.program.source, bench.launch, said)


def macros(bench: Bench, *_: object) -> UserError | None:
    """The macros that the file defines only if nobody has defined them before."""
    said, words = bench.launch.constants, {*re.findall(r"\w+", bench.program.kernel.body)}
    open_ones = {name: value for one in bench.program.source.sources
                 for name, value in one.macros.items()
                 if name in words - said.keys() and value.isdecimal()
                 and not one.fixes(name)}  # fmt: skip
    if not open_ones:
        return None
    given = " ".join(map("=".join, open_ones.items()))
    asked = f"{nowhere(bench)} with {given}, which whoever builds it may change: to what"
    return question(asked, given)


def codes(bench: Bench, kind: str, _: Run | None) -> UserError | None:
    operation = bench.signature.operation
    bytes_ = operation.dtype == "int8" and not operation.output.startswith("int")
    said = f"{nowhere(bench)}: its bytes seem to be codes of numbers"
    return UserError(said) if bytes_ and kind == "wrong result stored" else None


def rows(bench: Bench, *_: object) -> UserError | None:
    """How much of C a block has, if the rows of C come from the grid."""
    if not bench.signature.open_rows or bench.program.launch.tile:
        return None
    said = f"{nowhere(bench)}. Its rows of C come from the grid: of how many rows"
    return question(f"{said} and columns of C is a block", "tile=32x32")


def beside(bench: Bench, kind: str, _: Run | None) -> UserError | None:
    """What is no plain product."""
    found = BESIDE.search(bench.program.kernel.body)
    if kind not in MISREAD or not found:
        return None
    line = Teller.line_of(bench.program, re.escape(found[0]))
    said = f"line {line} has `{found[0]}`; what it does beside A·B cannot be judged"
    return UserError(f"{nowhere(bench)}, and no plain product: {said}, so take it out")


def names(bench: Bench, kind: str, _: Run | None) -> UserError | None:
    """Which matrix is which, and how it is stored, if their names do not say it."""
    signature = bench.signature
    if kind not in MISREAD or signature.settled or are_plain(bench):
        return None
    a, b, c, m, n, k = map(signature.name_of, "ABCmnk")
    said = f"as {c} = {a}·{b}, {a} of {m}×{k} and {b} of {k}×{n}, nor with one of them transposed"
    if signature.operation.symmetric:
        said = f"as {c} = {a}ᵀ·{a}, the product of one matrix"
    return question(f"{nowhere(bench)} {said}: is it to be so", "order=rows")


def are_plain(bench: Bench) -> bool:
    """Whether the matrices have the names that every course gives them."""
    of = bench.signature.name_of
    if bench.signature.operation.symmetric:
        return bool(OF_GRAM.search(bench.program.kernel.name))
    return all(not words.isdisjoint(words_of(of(role))) for role, words in PLAIN.items())


def storage(bench: Bench, words: str, setting: str) -> UserError | None:
    """How a matrix is stored, if the kernel is right with another way: a mistake where the names
    are those of every course, and the file never speaks of it."""
    said = SAYS_TRANSPOSED.search(bench.program.source.text)
    if are_plain(bench) and not said:
        return None
    return question(f"{about(bench)} is right if {words}: is it made for that", setting)


NOWHERE = (unlike, grid, order, guess, macros, codes, block, rows, beside, names)
