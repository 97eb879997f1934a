"""matmul_sweep.gemm beside torch.mm in float32 on this card: time on the host, time on the device
and error. PyTorch's precision is "highest", and the times on the device are those of CUDA graphs.

Run it with --shapes 100 for a hundred random shapes beside the square ones."""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import torch

import matmul_sweep

SQUARES = (256, 512, 1024, 2048, 4096, 8192)
BLOCK_MS = 10  # of launches between two events
BLOCKS = 9  # of each contender, in turn


def host_us(product: Callable[[], object]) -> float:
    """Microseconds until a call returns; the device keeps up with 200 of them."""
    times = []
    for _ in range(20):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(200):
            product()
        times.append((time.perf_counter() - start) / 200 * 1e6)
    return statistics.median(times)


def graph_of(product: Callable[[], object], launches: int) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            product()
    return graph


def device_ms(graph: torch.cuda.CUDAGraph) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def matrix(kind: str, rows: int, columns: int) -> torch.Tensor:
    """Normal numbers; positive ones; or `spread` over ten powers of ten."""
    x = torch.randn(rows, columns, device="cuda")
    if kind == "spread":
        return x * 10 ** torch.empty_like(x).uniform_(-5, 5)
    return x.abs() if kind == "positive" else x


def compare(kind: str, m: int, n: int, k: int) -> float:
    """How many times as fast gemm is on the device, the median of blocks in turn; prints it."""
    a, b, c = matrix(kind, m, k), matrix(kind, k, n), torch.empty(m, n, device="cuda")
    products = [lambda: torch.mm(a, b, out=c), lambda: matmul_sweep.gemm(a, b, c)]
    for product in products:
        product()
    one = [min(map(device_ms, [graph_of(product, 1)] * 2)) for product in products]
    launches = max(1, min(500, int(BLOCK_MS / min(one))))
    graphs = [graph_of(product, launches) for product in products]
    pairs = [[device_ms(graph) / launches for graph in graphs] for _ in range(BLOCKS)][1:]
    torch_ms, own_ms = (statistics.median(times) for times in zip(*pairs, strict=True))
    speedup = statistics.median(t / o for t, o in pairs)
    shape = f"{m}x{n}x{k}"
    print(f"device, {kind:8} {shape:17} {torch_ms:9.4f} ms {own_ms:9.4f} ms {speedup:6.3f}")
    return speedup


def errors(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> str:
    """The largest and the mean error, as shares of the sum of the absolute terms."""
    left, right = a.double(), b.double()
    share = (c.double() - left @ right).abs() / (left.abs() @ right.abs())
    return f"{share.max():.2e} {share.mean():.2e}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", type=int, default=0, help="random shapes, from 64 to 12000")
    count = parser.parse_args().shapes
    torch.set_float32_matmul_precision("highest")
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__)

    a, b, c = (torch.randn(256, 256, device="cuda") for _ in range(3))
    for name, product in {
        "torch.mm(a, b)": lambda: torch.mm(a, b),
        "gemm(a, b)": lambda: matmul_sweep.gemm(a, b),
        "torch.mm(a, b, out=c)": lambda: torch.mm(a, b, out=c),
        "gemm(a, b, c)": lambda: matmul_sweep.gemm(a, b, c),
    }.items():
        product()
        print(f"host, 256: {name:22} {host_us(product):6.2f} us")

    draw = random.Random(2026)
    for n in SQUARES:
        compare("normal", n, n, n)
    compare("spread", 4096, 4096, 4096)
    speedups = [
        compare("normal", *(round(64 * (12000 / 64) ** draw.random()) for _ in "mnk"))
        for _ in range(count)
    ]
    if speedups:
        slower = sum(speedup < 0.98 for speedup in speedups)
        print(f"{count} random shapes: {min(speedups):.3f} to {max(speedups):.3f} times as fast, "
              f"median {statistics.median(speedups):.3f}; {slower} below 0.98")  # fmt: skip

    for kind in ("normal", "positive", "spread"):
        for n in (512, 2048, 8192):
            a, b = matrix(kind, n, n), matrix(kind, n, n)
            print(f"error, {kind}, {n}: torch.mm {errors(torch.mm(a, b), a, b)}, float32 "
                  f"{errors(matmul_sweep.gemm(a, b), a, b)}, ieee "
                  f"{errors(matmul_sweep.gemm(a, b, accuracy='ieee'), a, b)}")  # fmt: skip


if __name__ == "__main__":
    main()
