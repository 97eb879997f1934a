"""gemm and gram of PyTorch's, CuPy's, JAX's and NumPy's arrays on a card."""

import runpy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from support import ROOT

import matmul_sweep

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:matmul_sweep copies")]
UNITS = {"float32": 2.0**-24, "bfloat16": 2.0**-8, "float64": 2.0**-53}
SHAPES = [(256, 256, 256), (97, 203, 1), (33, 65, 129), (1, 500, 300), (1024, 1000, 2049)]


@pytest.fixture(scope="module")
def torch() -> Any:
    found = pytest.importorskip("torch")
    if not found.cuda.is_available():
        pytest.skip("PyTorch finds no GPU")
    found.set_float32_matmul_precision("highest")
    found.manual_seed(1)
    return found


def check(torch: Any, c: Any, a: Any, b: Any, expected: Any = None) -> None:
    """That C errs by at most k roundings of a sum, and one of itself."""
    left, right = a.double(), b.double()
    exact = left @ right if expected is None else expected
    unit = UNITS[str(c.dtype).removeprefix("torch.")]
    sums = min(unit, 2.0**-24) * (a.shape[-1] + 4) * (left.abs() @ right.abs())
    assert ((c.double() - exact).abs() <= 4 * (sums + unit * exact.abs())).all()


def laid(array: Any, how: str) -> Any:
    """The same numbers: row-major, column-major, with gaps, or from an odd address on."""
    rows, columns = array.shape
    if how == "columns":
        return array.T.contiguous().T
    if how == "gaps":
        return array.new_zeros(rows, columns + 4)[:, :columns].copy_(array)
    if how == "odd":
        return array.new_zeros(rows * columns + 1)[1:].view(rows, columns).copy_(array)
    return array


@pytest.mark.parametrize("accuracy", ["float32", "ieee"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps", "odd"])
def test_gemm(torch, dtype, layout, accuracy):
    for m, n, k in SHAPES:
        a, b = (torch.randn(*s, device="cuda").to(getattr(torch, dtype)) for s in ((m, k), (k, n)))
        own = laid(a, layout), laid(b, layout)
        made = matmul_sweep.gemm(*own, accuracy=accuracy)
        assert made.dtype == a.dtype
        check(torch, made, a, b)
        out = laid(torch.full_like(made, float("nan")), layout)
        assert matmul_sweep.gemm(*own, out, accuracy=accuracy) is out
        assert torch.equal(out, made) or layout == "columns"
        before = torch.randn_like(made)
        in_place, d = laid(before.clone(), layout), laid(before, layout)
        product, addend = 0.5 * made.double(), -2 * before.double()
        # The product is rounded before it is added, or is not.
        allowed = 2 * UNITS[dtype] * (product.abs() + addend.abs()) + 1e-4
        for added in (
            matmul_sweep.gemm(*own, in_place, alpha=0.5, beta=-2, accuracy=accuracy),
            matmul_sweep.gemm(*own, d=d, alpha=0.5, beta=-2, accuracy=accuracy),
        ):
            assert ((added.double() - product - addend).abs() <= allowed).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("layout", ["rows", "columns", "gaps"])
def test_gram(torch, dtype, layout):
    for m, n in ((300, 500), (1000, 96), (7, 3), (2048, 2048)):
        a = torch.randn(m, n, dtype=getattr(torch, dtype), device="cuda")
        check(torch, matmul_sweep.gram(laid(a, layout)), a.T, a)


# Squares of C that are whole, that clusters share, and at an edge; rows that begin anywhere.
SIDES = [(256, 64), (2048, 2048), (776, 4104), (8, 8), (1001, 999), (3, 5000)]


@pytest.mark.parametrize("kernel", [None, "gram_naive_bf16", "gram_padded_bf16"])
def test_gram_in_bfloat16_is_symmetric_and_adds_d(torch, kernel):
    for m, k in SIDES:
        x = torch.randn(m, k, device="cuda").bfloat16()
        made = matmul_sweep.gram(x.T, kernel=kernel)
        check(torch, made, x, x.T)
        d = torch.randn(m, m, device="cuda").bfloat16()
        d = d.triu() + d.triu(1).T
        added = matmul_sweep.gram(x.T, d=d, alpha=-1.5, beta=0.75, kernel=kernel)
        expected = -1.5 * (x.double() @ x.double().T) + 0.75 * d.double()
        check(torch, added, x, x.T, expected)
        assert torch.equal(made, made.T) and torch.equal(added, added.T)
        again = d.clone()
        matmul_sweep.gram(x.T, again, alpha=-1.5, beta=0.75, kernel=kernel)
        assert torch.equal(again, added)


def test_muons_step(torch):
    muon = runpy.run_path(str(ROOT / "examples" / "muon.py"))
    # Where rows have odd lengths, no kernel adds in its store, so C is rounded twice.
    for m, k, most in ((256, 512, 1.05), (500, 700, 1.35)):
        x = torch.randn(m, k, device="cuda")
        x = (x / x.norm()).bfloat16()
        exact = muon["by_addmm"](x.float())
        own = muon["by_halves"](x, matmul_sweep.gram, matmul_sweep.gemm)
        others = muon["by_addmm"](x)
        of_own, of_others = ((each.float() - exact).norm() for each in (own, others))
        assert of_own <= most * of_others


def test_it_goes_on_the_current_stream_and_nobody_waits(torch):
    a, b = (torch.zeros(2048, 2048, device="cuda") for _ in range(2))
    matmul_sweep.gemm(a, b)  # compiled
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)
        a.fill_(1)
        b.fill_(2)
        c = matmul_sweep.gemm(a, b)
        assert not stream.query()
    stream.synchronize()
    assert (c == 4096).all()


@pytest.mark.parametrize("size", [256, 2048])
def test_a_graph_captures_it(torch, size):
    a, b = (torch.randn(size, size, device="cuda") for _ in range(2))
    matmul_sweep.gemm(a, b)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        c = matmul_sweep.gemm(a, b)
    for _ in range(3):
        a.normal_()
        graph.replay()
        check(torch, c, a, b)


@pytest.mark.parametrize("size", [200, 600, 2048])
def test_streams_do_not_disturb_each_other(torch, size):
    pairs = [[torch.randn(size, size, device="cuda") for _ in range(2)] for _ in range(4)]
    expected = [matmul_sweep.gemm(a, b, kernel="streamed") for a, b in pairs]
    streams = [torch.cuda.Stream() for _ in pairs]
    torch.cuda.synchronize()
    for _ in range(50):
        found = []
        for stream, (a, b) in zip(streams, pairs, strict=True):
            with torch.cuda.stream(stream):
                found.append(matmul_sweep.gemm(a, b, kernel="streamed"))
        torch.cuda.synchronize()
        assert all(map(torch.equal, found, expected))


def test_a_thread_that_has_no_context_yet(torch):
    a, b = (torch.randn(300, 300, device="cuda") for _ in range(2))
    with ThreadPoolExecutor(3) as pool:
        for c in pool.map(lambda _: matmul_sweep.gemm(a, b), range(3)):
            check(torch, c, a, b)


@pytest.mark.parametrize("library", ["cupy", "jax.numpy", "numpy"])
def test_other_libraries(torch, library, monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    made = pytest.importorskip(library).asarray
    a, b = (np.random.default_rng(i).standard_normal((300, 300), np.float32) for i in range(2))
    c = matmul_sweep.gemm(made(a), made(b))
    assert type(c) is type(made(a))
    np.testing.assert_allclose(c.get() if library == "cupy" else c, a @ b, atol=1e-3)
    np.testing.assert_allclose(matmul_sweep.gram(a.astype(float)), a.T.astype(float) @ a, atol=1e-9)


def test_cupys_streams_and_views(torch):
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True):
        a, b = (cupy.random.standard_normal((300, 300), dtype=cupy.float32) for _ in range(2))
        c = matmul_sweep.gemm(a.T, b, cupy.empty((300, 300), cupy.float32), alpha=2)
        np.testing.assert_allclose(c.get(), 2 * (a.get().T @ b.get()), atol=1e-3)


def test_a_graph_of_cupys_writes_into_no_other_array(torch):
    """CuPy's pool hands out again what a call gave back, and the graph is launched afterwards."""
    cupy = pytest.importorskip("cupy")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        a, b = (cupy.random.standard_normal((2048, 2048), dtype=cupy.float32) for _ in range(2))
        matmul_sweep.gemm(a, b)
        stream.begin_capture()
        c = matmul_sweep.gemm(a, b)
        graph = stream.end_capture()
        others = [cupy.zeros(2**23, cupy.uint8) for _ in range(16)]
        c.fill(0)
        graph.launch()
        np.testing.assert_allclose(c.get(), a.get() @ b.get(), atol=1e-3)
        assert not any(each.any() for each in others)


@pytest.fixture
def own(torch: Any) -> Any:
    import matmul_sweep.torch

    return matmul_sweep.torch


def gradients(product: Callable[..., Any], a: Any, b: Any) -> list[Any]:
    given = [each.clone().requires_grad_() for each in (a, b)]
    product(*given).sin().sum().backward()
    return [each.grad for each in given]


@pytest.mark.parametrize("stack", [(), (3,)])
def test_the_operator_has_gradients_and_compiles(torch, own, stack):
    a, b = torch.randn(*stack, 64, 48, device="cuda"), torch.randn(48, 80, device="cuda")
    torch.library.opcheck(own.gemm, (a, b), test_utils=("test_schema", "test_faketensor"))
    both = gradients(own.gemm, a, b), gradients(torch.matmul, a, b)
    for found, expected in zip(*both, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
    fused = torch.compile(lambda a, b: own.gram(own.gemm(a, b).relu() + 1), fullgraph=True)
    c = (a @ b).relu() + 1
    torch.testing.assert_close(fused(a, b), c.mT @ c, rtol=1e-3, atol=1e-2)


def test_patch_takes_products_and_gives_them_back(torch, own):
    layer, x = torch.nn.Linear(96, 64, device="cuda"), torch.randn(32, 96, device="cuda")
    expected = layer(x)
    with own.patch() as taken:
        found = layer(x)
        found.sum().backward()
        torch.ones(4, 4, dtype=torch.float64, device="cuda") @ torch.eye(4).double().cuda()
    assert taken == {"addmm 32x64x96": 1, "mm 64x96x32": 1}
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert layer.weight.grad is not None
    torch.mm(x, x.T)
    assert sum(taken.values()) == 2
