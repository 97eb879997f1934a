"""Train a small network in float32: by PyTorch alone, and with its products by matmul_sweep."""

import contextlib
import time

import torch
from torch import nn

import matmul_sweep.torch

WIDTH, BATCH, STEPS = 4096, 8192, 30


def train(products: contextlib.AbstractContextManager[object]) -> tuple[float, float]:
    """Milliseconds of a step, and the last loss."""
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, WIDTH), nn.ReLU()] * 2 + [nn.Linear(WIDTH, 16)]
    model = nn.Sequential(*layers).cuda()
    x, y = torch.randn(BATCH, WIDTH, device="cuda"), torch.randn(BATCH, 16, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with products:
        for step in range(STEPS):
            if step == STEPS // 3:  # the first ones compile and warm up
                torch.cuda.synchronize()
                start = time.perf_counter()
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / (STEPS - STEPS // 3) * 1e3, loss.item()


torch.set_float32_matmul_precision("highest")
for name, products in (
    ("PyTorch", contextlib.nullcontext()),
    ("matmul_sweep", matmul_sweep.torch.patch()),
):
    milliseconds, loss = train(products)
    print(f"{name:13} {milliseconds:7.1f} ms a step, loss {loss:.7f}")
