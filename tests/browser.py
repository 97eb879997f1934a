"""Chromium without a window and without a network, which opens a page and runs a script in it."""

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
MISSING = "no Chromium; on Debian: apt-get install --no-install-recommends chromium"
OPTIONS = [
    "--headless", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage", "--dump-dom",
    "--virtual-time-budget=60000",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # no name is found, so no host
]  # fmt: skip
DRAWN = 'all("#plot .legend, #plot .annotation").length'
PAGES = Path(__file__).parent / "pages"
WATCH, ASK = (
    f"<script>\n{(PAGES / f'{name}.js').read_text()}</script>" for name in ("watch", "ask")
)


def told(
    page: str, script: str, folder: Path, width: int = 1300, ready: str = DRAWN
) -> Any:  # fmt: skip
    """What the body of an asynchronous function of JavaScript returns in a page that is `ready`,
    with a plot unless another expression says. The page has to be without complaints and requests.
    `folder`: for the page and the browser. Without one the test is skipped."""
    file = folder / "page.html"
    asked = ASK.replace("SCRIPT", script).replace("READY", ready)
    file.write_text(page.replace("<head>", f"<head>{WATCH}", 1).replace("</body>", asked))
    program = next(filter(None, map(shutil.which, NAMES)), None) or pytest.skip(MISSING)
    # Chromium's sandbox refuses root.
    options = [*OPTIONS, f"--window-size={width},1000", f"--user-data-dir={folder / 'profile'}",
               *["--no-sandbox"] * (os.geteuid() == 0)]  # fmt: skip
    run = subprocess.run([program, *options, file.as_uri()], capture_output=True, text=True,
                         timeout=120, check=True)  # fmt: skip
    found = re.search(r'<pre id="told">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found, f"the page was never drawn: {run.stderr[-2000:]}"
    answer = json.loads(unescape(found[1]))
    assert answer["complaints"] == []
    return answer.get("told")
