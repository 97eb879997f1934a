"""Arithmetic in the catalogue: whole-number expressions of compile-time parameters."""

import ast
import operator
import threading
from collections.abc import Mapping
from functools import cache

from matmul_sweep.process.errors import UserError

OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
# Python 3.11 mixes up the depths of trees that two threads make at once, and raises a SystemError.
ONE_AT_A_TIME = threading.Lock()


@cache  # a dispatch evaluates the same ones for each of its variants and shapes
def parsed(expression: str) -> ast.expr:
    """Its tree. Raises what ast.parse does."""
    with ONE_AT_A_TIME:
        return ast.parse(expression, mode="eval").body


def evaluate(expression: int | str, parameters: Mapping[str, int]) -> int:
    """The value of `expression`, made of whole numbers, parameter names, + - * // and brackets.

    Raises UserError for an unknown name, another operator, or a division by zero.
    """
    if isinstance(expression, int):
        return expression

    def value(node: ast.expr) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in parameters:
                return parameters[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](value(left), value(right))
        raise UserError(
            f"expression '{expression}': '{ast.unparse(node)}' is not a whole number, "
            f"a parameter ({', '.join(parameters) or 'there is none'}) or one of + - * //"
        )

    try:
        return value(parsed(expression))
    except (SyntaxError, ValueError, ZeroDivisionError) as error:
        raise UserError(f"expression '{expression}': {error}") from None
    except (RecursionError, MemoryError):
        raise UserError(f"expression '{expression[:40]}...': nested too deeply") from None
