"""Chromium without a window and without a network, by its DevTools protocol over a pipe."""

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = [
    "--headless", "--remote-debugging-pipe", "--disable-gpu", "--no-first-run",
    "--disable-dev-shm-usage", "--window-size=1300,1000",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no name is found, so no host
]  # fmt: skip
# The protocol goes over the file descriptors 3 and 4.
PIPES = 'exec "$0" "$@" 3<&0 4>&1 >/dev/null 2>&1'
SECONDS = 60


def missing() -> str | None:
    """Why there is no browser here, and how to get one."""
    if not any(map(shutil.which, NAMES)):
        return "no Chromium; on Debian: apt-get install --no-install-recommends chromium"
    return None


@dataclass
class Browser:
    """A running Chromium: what it is asked, and what it said unasked."""

    questions: IO[bytes]
    answers: IO[bytes]
    said: list[dict[str, Any]] = field(default_factory=list)
    unread: bytes = b""
    asked: int = 0

    def ask(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """One question of the protocol and its answer."""
        self.asked += 1
        question = {"id": self.asked, "method": method, "params": parameters}
        question |= {"sessionId": session} if session else {}
        self.questions.write(json.dumps(question).encode() + b"\0")
        self.questions.flush()
        while (answer := self.read()).get("id") != self.asked:
            self.said.append(answer)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    def read(self) -> dict[str, Any]:
        """The next message."""
        pipe = self.answers.fileno()
        while b"\0" not in self.unread:
            assert select.select([pipe], [], [], SECONDS)[0], "Chromium does not answer"
            part = os.read(pipe, 2**16)
            assert part, "Chromium has ended"
            self.unread += part
        message, _, self.unread = self.unread.partition(b"\0")
        return dict(json.loads(message))

    def open(self, path: Path) -> "Page":
        """A file in a tab of its own, without a network."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        page = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.ask(f"{domain}.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        page.ask("Network.emulateNetworkConditions", **offline)
        page.ask("Page.navigate", url=path.resolve().as_uri())
        return page


@dataclass
class Page:
    """A tab, its mouse, and what a script in it sees."""

    browser: Browser
    session: str

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.ask(method, self.session, **parameters)

    def events(self, method: str) -> list[dict[str, Any]]:
        """What the tab said by itself."""
        own = (said for said in self.browser.said if said.get("sessionId") == self.session)
        return [event["params"] for event in own if event["method"] == method]

    def complaints(self) -> list[str]:
        """Errors and warnings in its console, and exceptions that nothing caught."""
        logged = [event["entry"]["text"] for event in self.events("Log.entryAdded")]
        written = [str(event["args"]) for event in self.events("Runtime.consoleAPICalled")]
        thrown = [str(event) for event in self.events("Runtime.exceptionThrown")]
        return logged + written + thrown

    def requests(self) -> list[str]:
        """The address of everything that it asked for."""
        return [event["request"]["url"] for event in self.events("Network.requestWillBeSent")]

    def value(self, expression: str) -> Any:
        """What an expression of JavaScript gives here."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, expression: str) -> Any:
        """What an expression gives as soon as that is something."""
        deadline = time.monotonic() + SECONDS
        while not (found := self.value(expression)):
            assert time.monotonic() < deadline, f"never true: {expression}; {self.complaints()}"
            time.sleep(0.05)
        return found

    def middle(self, element: str) -> dict[str, float]:
        """The place of what an expression finds, scrolled into view."""
        return dict(self.value(
            f"(() => {{ const found = {element}; found.scrollIntoView({{block: 'nearest'}});"
            "const {x, y, width, height} = found.getBoundingClientRect();"
            "return {x: x + width / 2, y: y + height / 2}; })()"
        ))  # fmt: skip

    def mouse(self, kind: str, place: dict[str, float], **parameters: Any) -> None:
        self.ask("Input.dispatchMouseEvent", type=kind, **place, **parameters)

    def point_at(self, element: str) -> None:
        self.mouse("mouseMoved", self.middle(element))

    def click(self, element: str) -> None:
        place = self.middle(element)
        self.mouse("mouseMoved", place)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, place, button="left", clickCount=1)


@contextlib.contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """A browser for as long as the block runs; it leaves its files in `profile`."""
    program = next(filter(None, map(shutil.which, NAMES)))
    # Chromium's sandbox refuses root.
    options = [*OPTIONS, f"--user-data-dir={profile}", *["--no-sandbox"] * (os.geteuid() == 0)]
    command = ["sh", "-c", PIPES, program, *options]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        browser = Browser(process.stdin, process.stdout)
        try:
            yield browser
            browser.ask("Browser.close")
            process.wait(SECONDS)
        finally:
            process.kill()
