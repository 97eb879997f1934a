"""Counts the cases in which the properties of this folder were held, and asks for enough of them.

Hypothesis stops early where a strategy has few cases or most are filtered out, and says nothing.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent
LEAST = 10_000

collected: set[str] = set()
held: Counter[str] = Counter()


def pytest_itemcollected(item: pytest.Item) -> None:
    collected.add(item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Iterator[Any]:
    """Count each case that passes (`inner_test` is Hypothesis's way in for plugins)."""
    handle = item.obj.hypothesis
    test = handle.inner_test

    @functools.wraps(test)
    def counted(*arguments: Any, **named: Any) -> None:
        test(*arguments, **named)
        held[item.nodeid] += 1

    handle.inner_test = counted
    try:
        return (yield)
    finally:
        handle.inner_test = test


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of pytest-xdist saw, which collects all tests and runs some."""
    seen = getattr(node, "workeroutput", {}).get("properties")
    if seen:
        collected.update(seen["collected"])
        held.update(seen["held"])


def too_few() -> bool:
    """Whether all properties were run, not a selection of them, and in too few cases."""
    files = {name.partition("::")[0].rpartition("/")[2] for name in collected}
    whole = collected == held.keys() and files == {file.name for file in FOLDER.glob("test_*.py")}
    return whole and held.total() < LEAST


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["properties"] = {"collected": [*collected], "held": {**held}}
    elif too_few():
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not held:
        return
    told = f"{len(held)} properties were held in {held.total()} cases"
    short = f", which are too few: {LEAST} are asked for" if too_few() else ""
    terminalreporter.write_line(told + short, red=bool(short))
