"""Asynchronous copies on the CPU, by each of the ways to write them: right kernels pass, and what a
missing wait or barrier lets happen is found with its lines."""

from dataclasses import dataclass

import numpy as np
import pytest
from emulated import kernel, launched, mistakes

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("unoptimised")]

VALUES = np.arange(256)
SUMS = VALUES.reshape(4, 64)[:, ::-1].sum(axis=0)
WAIT, READ, COPY = 13, 15, 8  # lines of `pipelined`


@dataclass(frozen=True)
class Way:
    """How a stage of 64 floats is copied. barriers: whether it needs those of the block too."""

    top: str
    set_up: str
    copy: str
    wait: str
    release: str = ""
    barriers: bool = True


GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;"
WAYS = {
    "primitives": Way(
        "#include <cuda_pipeline.h>", "",
        "if (t < 4) __pipeline_memcpy_async(&s[t % 2][x], A + 64 * t + x, 4); __pipeline_commit();",
        "__pipeline_wait_prior(1);",
    ),
    "PTX": Way(
        "", "",
        'if (t < 4) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"((unsigned)'
        '__cvta_generic_to_shared(&s[t % 2][x])), "l"(A + 64 * t + x)); asm'
        ' volatile("cp.async.commit_group;");',
        'asm volatile("cp.async.wait_group %0;" :: "n"(1) : "memory");',
    ),
    "cooperative groups": Way(
        f"{GROUPS}\n#include <cooperative_groups/memcpy_async.h>",
        "auto block = cg::this_thread_block();",
        "cg::memcpy_async(block, s[t % 2], A + 64 * t, t < 4 ? 256 : 0);",
        "cg::wait_prior<1>(block);",
    ),
    "pipeline of a thread": Way(
        "#include <cuda/pipeline>", "auto pipe = cuda::make_pipeline();",
        "pipe.producer_acquire(); if (t < 4) cuda::memcpy_async(&s[t % 2][x], A + 64 * t +"
        " x, sizeof(float), pipe);"
        " pipe.producer_commit();",
        "pipe.consumer_wait();", "pipe.consumer_release();",
    ),
    "pipeline of a block": Way(
        f"{GROUPS}\n#include <cuda/pipeline>",
        "__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;"
        " auto block = cg::this_thread_block(); auto pipe = cuda::make_pipeline(block, &state);",
        "pipe.producer_acquire(); if (t < 4) cuda::memcpy_async(block, s[t % 2], A + 64 * t,"
        " cuda::aligned_size_t<16>(256), pipe); pipe.producer_commit();",
        "pipe.consumer_wait();", "pipe.consumer_release();", barriers=False,
    ),
    "barrier": Way(
        f"{GROUPS}\n#include <cuda/barrier>",
        "__shared__ cuda::barrier<cuda::thread_scope_block> full[2]; auto block ="
        " cg::this_thread_block();"
        " if (x < 2) init(&full[x], blockDim.x); __syncthreads();",
        "if (t < 4) cuda::memcpy_async(block, s[t % 2], A + 64 * t, 256, full[t % 2]);",
        "full[r % 2].arrive_and_wait();",
    ),
}  # fmt: skip


def pipelined(way: Way, wait: bool = True, before: bool = True, after: bool = True) -> str:
    """Sums of four stages, two of which are under way. What is False is left out."""
    lines = [
        *("",) * (2 - way.top.count("\n")),
        "__shared__ __align__(16) float s[2][64]; int x = threadIdx.x; float sum = 0;",
        f"{way.set_up} auto copy = [&](int t) {{",
        f"{way.copy} }};",
        "copy(0);",
        "for (int r = 0; r < 4; r++) {",
        "if (r < 4)",
        "copy(r + 1);",
        way.wait if wait else "",
        "__syncthreads();" if before and way.barriers else "",
        "sum += s[r % 2][63 - x];",
        way.release,
        "__syncthreads();" if after and way.barriers else "",
        "} C[x] = sum;",
    ]
    return kernel("\n".join(lines), way.top)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("watch", [False, True])
def test_a_right_kernel_passes(way, watch, tmp_path):
    found = launched(pipelined(WAYS[way]), tmp_path, watch, values=VALUES)
    if watch:
        assert not found.findings
        found = found.c
    np.testing.assert_array_equal(found.ravel()[:64], SUMS)


@pytest.mark.parametrize(
    ("way", "left_out", "kind", "landed"),
    [
        *((way, "wait", "unwaited", False) for way in WAYS),
        ("primitives", "before", "unwaited", True),
        ("PTX", "before", "unwaited", True),
        ("pipeline of a thread", "before", "unwaited", True),
        ("primitives", "after", "race", False),
        ("cooperative groups", "after", "race", False),
        ("barrier", "after", "race", False),
    ],
)
def test_what_is_left_out_is_found_with_its_lines(way, left_out, kind, landed, tmp_path):
    done = launched(pipelined(WAYS[way], **{left_out: False}), tmp_path, True, values=VALUES)
    found = [one for one in mistakes(done) if one["kind"] == kind and one["landed"] == landed]
    lines = {(done.lines[one["places"][0]][1], done.lines[one["other"]][1]) for one in found}
    assert lines & {(READ, COPY), (COPY, READ)}, (done.findings, lines)


@pytest.mark.parametrize("way", ["primitives", "PTX", "pipeline of a thread"])
def test_without_the_watcher_a_missing_wait_makes_c_wrong(way, tmp_path):
    c = launched(pipelined(WAYS[way], wait=False), tmp_path, values=VALUES)
    assert (c.ravel()[:64] != SUMS).any()


@pytest.mark.parametrize(
    ("copy", "kind"),
    [
        ("__pipeline_memcpy_async(&s[x], A + x + 1, 8)", "misaligned"),
        ("__pipeline_memcpy_async(&s[x], A + 4096 * x, 4)", "outside"),
        ('asm volatile("cp.async.cg.shared.global [%0], [%1], 8;" :: "r"(0), "l"(A))', "misuse"),
    ],
)
def test_a_wrong_copy_is_told_at_its_line(copy, kind, tmp_path):
    body = f"__shared__ float s[65]; int x = threadIdx.x;\n{copy};\n__pipeline_commit();"
    done = launched(kernel(body, "#include <cuda_pipeline.h>"), tmp_path, True)
    [found] = done.findings
    assert found["kind"] == kind
    assert done.lines[found["places"][0]][1] == 5
