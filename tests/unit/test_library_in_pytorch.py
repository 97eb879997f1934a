"""matmul_sweep of PyTorch's tensors, where PyTorch is installed. Tensors of the CPU stand for those
of a card, because the driver's memory is the host's."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from host_card import Card
from support import documented_python

import matmul_sweep
from matmul_sweep.api import kinds

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:matmul_sweep copies")


class OnHost(kinds.Torch):
    """PyTorch's kind, for which the CPU is the first GPU."""

    def look(self, arrays: Sequence[Any]) -> tuple[list[int], tuple[kinds.Look, ...]]:
        addresses, looks = super().look(arrays)
        return addresses, tuple((dtype, 0, *lies) for dtype, _, *lies in looks)

    def stream(self, device: int, arrays: Sequence[Any]) -> int:
        return 0

    def empty(self, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        return self.torch.empty(shape, dtype=dtype)

    def scratch(self, size: int, device: int, stream: int) -> tuple[object, int]:
        memory = self.torch.empty(size, dtype=self.torch.uint8)
        return memory, memory.data_ptr()


@pytest.fixture
def card(card: Card, monkeypatch: pytest.MonkeyPatch) -> Card:
    monkeypatch.setitem(kinds.KINDS, "torch", OnHost)
    torch.manual_seed(46)
    torch.compiler.reset()
    return card


@pytest.fixture
def own() -> Any:
    import matmul_sweep.torch

    return matmul_sweep.torch


def gradients(product: Callable[..., Any], *factors: Any) -> list[Any]:
    """The product, and the gradients of a sum of functions of it."""
    given = [each.clone().requires_grad_() for each in factors]
    made = product(*given)
    made.sin().sum().backward()
    return [made, *(each.grad for each in given)]


def by_torch(a: Any) -> Any:
    return a.mT @ a


# The name of an operator, what PyTorch has for it, the shapes of its factors, the number type.
OPERATORS = [
    ("gemm", torch.matmul, [(4, 5), (5, 6)], "float32"),
    ("gemm", torch.matmul, [(4, 5), (5, 6)], "bfloat16"),
    ("gemm", torch.matmul, [(3, 4, 5), (5, 6)], "float32"),
    ("gemm", torch.matmul, [(4, 5), (3, 5, 6)], "float32"),
    ("gemm", torch.matmul, [(3, 4, 5), (1, 5, 6)], "float32"),
    ("gemm", torch.matmul, [(0, 5), (5, 6)], "float32"),
    ("gram", by_torch, [(4, 5)], "float32"),
    ("gram", by_torch, [(4, 5)], "float64"),
    ("gram", by_torch, [(4, 5)], "bfloat16"),
    ("gram", by_torch, [(3, 4, 5)], "float32"),
]


@pytest.mark.parametrize(("name", "theirs", "shapes", "dtype"), OPERATORS)
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_an_operator_has_pytorchs_gradients_and_compiles(card, own, name, theirs, shapes, dtype):
    operator = getattr(own, name)
    factors = [torch.randn(shape).to(getattr(torch, dtype)) for shape in shapes]
    expected = gradients(theirs, *factors)
    close = {"rtol": 0.02, "atol": 0.05} if dtype == "bfloat16" else {"rtol": 1e-5, "atol": 1e-5}
    compiled = torch.compile(operator, backend="aot_eager", fullgraph=True)
    for product in (operator, compiled):
        for found, wanted in zip(gradients(product, *factors), expected, strict=True):
            torch.testing.assert_close(found, wanted, **close)
    assert card.launched or 0 in shapes[0]
    torch.library.opcheck(operator, [each.requires_grad_() for each in factors])


def test_a_gradient_has_a_gradient(card, own):
    def second(product: Callable[..., Any]) -> Any:
        a = torch.linspace(-1, 1, 20).reshape(4, 5).requires_grad_()
        [first] = torch.autograd.grad(product(a).sin().sum(), a, create_graph=True)
        return torch.autograd.grad(first.square().sum(), a)[0]

    for product in (own.gram, lambda a: own.gemm(a.mT, a)):
        torch.testing.assert_close(second(product), second(by_torch))


def test_only_the_gradient_that_is_wanted_is_computed(card, own):
    a, b = torch.randn(4, 5), torch.randn(5, 6, requires_grad=True)
    made = own.gemm(a, b).sum()
    card.launched.clear()
    made.backward()
    torch.testing.assert_close(b.grad, a.mT @ torch.ones(4, 6))
    assert len([name for name in card.launched if not name.startswith("combine")]) == 1


def test_an_older_pytorch_is_told_which_is_wanted(own, monkeypatch):
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.4.1"))
    with pytest.raises(ImportError, match=r"PyTorch 2\.5 or later is wanted, and this is 2\.4\.1"):
        importlib.reload(own)


# What PyTorch's own products say of tensors like these is a RuntimeError too.
MISTAKES = [
    (lambda t: (t(4, 4), t(4)), r"a matrix or a stack is wanted, not \(4,\)"),
    (lambda t: (t(4), t(4, 4)), r"a matrix or a stack is wanted, not \(4,\)"),
    (lambda t: (t(2, 2, 4, 4), t(4, 4)), r"not \(2, 2, 4, 4\)"),
    (lambda t: (t(4, 4), t(5, 4)), r"\(4, 4\) and \(5, 4\)"),
    (lambda t: (t(2, 4, 4), t(3, 4, 4)), "broadcast|do not fit"),
    (lambda t: (t(4, 4), t(4, 4).double()), "float32, float64"),
    (lambda t: (t(4, 4).double(), t(4, 4).double()), "no kernel multiplies float64"),
    (lambda t: (t(4, 4).to_sparse(), t(4, 4)), "sparse|storage"),
]


@pytest.mark.parametrize(("arrays", "words"), MISTAKES)
def test_a_mistake_is_pytorchs_error_in_one_line(card, own, arrays, words):
    for product in (own.gemm, matmul_sweep.gemm):
        with pytest.raises(RuntimeError, match=words) as told:
            product(*arrays(torch.zeros))
        assert "\n" not in str(told.value)
    assert card.launched == []


@pytest.mark.parametrize("where", ["matmul_sweep", "matmul_sweep.torch"])
def test_tensors_of_the_cpu_are_refused(where, own):
    given, module = torch.zeros(4, 4), own if where.endswith("torch") else matmul_sweep
    for product, arrays in ((module.gemm, (given, given)), (module.gram, (given,))):
        with pytest.raises(RuntimeError, match=r"not ones on the CPU$"):
            product(*arrays)


def test_what_requires_a_gradient_is_told_of_the_operator_that_has_one(card):
    a, b = torch.zeros(4, 4), torch.zeros(4, 4, requires_grad=True)
    for given in ((a, b), (a, a, b)):
        with pytest.raises(RuntimeError, match=r"matmul_sweep\.torch\.gemm has a gradient"):
            matmul_sweep.gemm(*given)
    assert card.launched == []
    with torch.no_grad():
        assert matmul_sweep.gemm(a, a, b) is b


def test_a_gradient_knows_that_c_was_written(card):
    a, c = torch.ones(4, 4), torch.ones(4, 4)
    x = torch.ones(4, 4, requires_grad=True)
    loss = (x * c).sum()
    matmul_sweep.gemm(a, a, c)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# A call of PyTorch's, and which products `patch` takes of it; LARGE is enough to take a stack.
LARGE = 800
TAKEN: list[tuple[Callable[[Any], Any], dict[str, int]]] = [
    (lambda t: t(4, 5) @ t(5, 6), {"mm 4x6x5": 1}),
    (lambda t: torch.mm(t(4, 5), t(6, 5).T), {"mm 4x6x5": 1}),
    (lambda t: torch.addmm(t(6), t(4, 5), t(5, 6), beta=2, alpha=-3), {"addmm 4x6x5": 1}),
    (lambda t: torch.addmm(t(4, 6), t(4, 5), t(5, 6), beta=0), {"addmm 4x6x5": 1}),
    (lambda t: torch.nn.functional.linear(t(4, 5), t(6, 5), t(6)), {"addmm 4x6x5": 1}),
    (lambda t: torch.nn.functional.linear(t(2, 4, 5), t(6, 5)), {"mm 8x6x5": 1}),
    (lambda t: t(2, 4, 5) @ t(5, 6), {"mm 8x6x5": 1}),
    (lambda t: torch.linalg.multi_dot([t(4, 5), t(5, 6), t(6, 3)]), {"mm 5x3x6": 1, "mm 4x3x5": 1}),
    (lambda t: t(1, LARGE, LARGE) @ t(1, LARGE, LARGE), {f"bmm 1x{LARGE}x{LARGE}x{LARGE}": 1}),
    (lambda t: torch.bmm(t(2, 4, 5), t(2, 5, 6)), {}),
    (lambda t: torch.baddbmm(t(2, 4, 6), t(2, 4, 5), t(2, 5, 6)), {}),
    (lambda t: torch.mm(t(4, 5), t(5, 6), out=t(4, 6)), {}),
    (lambda t: t(4, 6).addmm_(t(4, 5), t(5, 6)), {}),
    (lambda t: t(4, 5) @ t(5), {}),
    (lambda t: t(4, 5).double() @ t(5, 6).double(), {}),
    (lambda t: torch.mm(t(4, 5).half(), t(5, 6).half()), {}),
    (lambda t: torch.addmm(t(6).double(), t(4, 5).double(), t(5, 6).double()), {}),
]


@pytest.mark.parametrize(("call", "taken"), TAKEN)
def test_patch_takes_these(card, own, monkeypatch, call, taken):
    monkeypatch.setattr(own, "PATCHED", "CPU")

    def drawn(*shape: int) -> Any:
        return torch.randn(shape, generator=draw)

    draw = torch.Generator().manual_seed(46)
    expected = call(drawn)
    draw.manual_seed(46)
    with own.patch() as found:
        made = call(drawn)
    torch.testing.assert_close(made, expected, rtol=1e-4, atol=1e-4)
    assert found == taken
    assert bool(card.launched) == bool(taken)
    card.launched.clear()
    call(drawn)
    assert card.launched == []


def test_patch_takes_the_products_of_gradients(card, own, monkeypatch):
    monkeypatch.setattr(own, "PATCHED", "CPU")
    layer, x = torch.nn.Linear(5, 6), torch.randn(4, 5, requires_grad=True)
    with own.patch() as found:
        layer(x).sum().backward()
    assert found == {"addmm 4x6x5": 1, "mm 6x5x4": 1, "mm 4x5x6": 1}


def test_the_code_of_the_documents(card, own, monkeypatch, capsys):
    monkeypatch.setattr(own, "PATCHED", "CPU")
    a, layer = torch.randn(4, 5), torch.nn.Linear(5, 6)
    code = documented_python("docs/library.md", "import matmul_sweep.torch")
    names = {"a": a, "b": torch.randn(5, 6), "x": a, "model": lambda x: layer(x).sum()}
    exec(code, names)
    torch.testing.assert_close(names["c"], a.T @ a)
    assert capsys.readouterr().out == "Counter({'addmm 4x6x5': 1, 'mm 6x5x4': 1})\n"
