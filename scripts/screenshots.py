"""Draw the pictures of docs/page.md from the sample history: python scripts/screenshots.py"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.http.conftest import NO_MODEL, running  # noqa: E402
from twofold import Memory, history, samples  # noqa: E402
from twofold.http import app  # noqa: E402
from twofold.http.gate import Gate  # noqa: E402
from twofold.upstream import Upstream  # noqa: E402

PICTURES = (
    ("recall-light.jpg", 1600, "light", "/?q=why+was+the+deposit+changed", "[data-hit]"),
    ("recall-dark-narrow.jpg", 360, "dark", "/?q=why+was+the+deposit+changed", "[data-hit]"),
    ("memory-dark.jpg", 1600, "dark", "/?view=memory&session=3", "article"),
)


def main() -> None:
    """Serve the samples, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder, Memory.open(Path(folder) / "samples.db") as memory:
        history.bring_in(memory, [samples.path("history.jsonl")], history.Wanted())
        with Upstream(NO_MODEL, "", timeout=1.0) as upstream, sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            with running(app.create(memory, upstream, Gate(memory.tokens))) as url:
                for name, width, scheme, address, ready in PICTURES:
                    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
                    page.goto(url + address)
                    page.locator(ready).first.wait_for()
                    page.screenshot(path=ROOT / "docs" / name, type="jpeg", quality=60)
                    page.close()
            chromium.close()


if __name__ == "__main__":
    main()
