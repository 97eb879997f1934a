"""Muon's step, five Newton-Schulz iterations in bfloat16: by PyTorch, compiled and not, and by
matmul_sweep, which computes half of the symmetric products. Time of a step alone on this card, and
the distance to the same step in float32.

X is multiplied until its singular values are near 1 (Jordan and others, Muon, 2024). Each iteration
is S = X·Xᵀ, B = b·S + c·S², X = a·X + B·X."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import matmul_sweep

A, B, C = 3.4445, -4.7750, 2.0315  # of Muon's polynomial a·x + b·x³ + c·x⁵
ITERATIONS = 5
SHAPES = [(768, 3072), (1024, 4096), (2048, 8192), (4096, 4096), (4096, 11008), (4096, 14336)]
BLOCKS = 6  # of each contender, in turn
BLOCK_S, SETTLE_S = 1.05, 0.3  # what comes before a block settles the clock and is not timed


def by_halves(x: Any, gram: Callable[..., Any], gemm: Callable[..., Any]) -> Any:
    """The step of X of m×k with m ≤ k and a norm of at most 1. The additions are in the stores of
    the products; S is symmetric, so gram(S.T) is S²."""
    for _ in range(ITERATIONS):
        s = gram(x.T)
        b = gram(s.T, d=s, alpha=C, beta=B)
        x = gemm(b, x, d=x, beta=A)
    return x


def by_expressions(x: Any) -> Any:
    """The same as a formula, which torch.compile fuses."""
    for _ in range(ITERATIONS):
        s = x @ x.T
        x = A * x + (B * s + C * (s @ s)) @ x
    return x


def by_addmm(x: Any) -> Any:
    """The same with additions in PyTorch's products."""
    for _ in range(ITERATIONS):
        s = x @ x.T
        x = x.addmm(s.addmm(s, s, beta=B, alpha=C), x, beta=A)
    return x


def graph_of(torch: Any, step: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """A CUDA graph of the step, and the tensor that has its result."""
    step(x)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(x)
    return graph, result


def block_ms(torch: Any, graph: Any) -> float:
    """Milliseconds of a step in a block of steps that has the card for itself."""

    def run(seconds: float) -> float:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < seconds:
            for _ in range(10):
                graph.replay()
            torch.cuda.synchronize()
            count += 10
        return (time.perf_counter() - start) / count * 1e3

    run(SETTLE_S)
    return run(BLOCK_S)


def compare(torch: Any, m: int, k: int) -> None:
    """Print each contender's time, speed-up and error."""
    x = torch.randn(m, k, device="cuda")
    x = (x / x.norm()).bfloat16()
    exact = by_addmm(x.float())
    steps = {
        "torch, expression": by_expressions,
        "torch, compiled": torch.compile(by_expressions),
        "torch.addmm": by_addmm,
        "matmul_sweep": lambda x: by_halves(x, matmul_sweep.gram, matmul_sweep.gemm),
    }
    graphs = {name: graph_of(torch, step, x) for name, step in steps.items()}
    blocks = [{name: block_ms(torch, graphs[name][0]) for name in steps} for _ in range(BLOCKS)]
    times = {name: statistics.median(block[name] for block in blocks) for name in steps}
    own = times["matmul_sweep"]
    for name, (_, result) in graphs.items():
        error = ((result.float() - exact).norm() / exact.norm()).item()
        speedup = times[name] / own
        print(f"{m}x{k:<6} {name:18} {times[name]:8.3f} ms {speedup:6.2f} {error:9.2e}")


def main() -> None:
    import torch  # here, so that the steps can be tried without it

    torch.manual_seed(49)
    torch.set_float32_matmul_precision("highest")
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)
    print("time of a step, that of it over matmul_sweep's, and its distance to float32's")
    for m, k in SHAPES:
        compare(torch, m, k)


if __name__ == "__main__":
    main()
