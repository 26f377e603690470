"""The page at a size, in a browser: python -m benchmarks.page --db FOLDER [--episodes 100000]

Measured are the time from the release of a key to the first results, that of fusing anew as a slider moves, and the
frames while a session of 5,000 messages is scrolled. The store of `twofold bench` is made in FOLDER and kept.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.http.conftest import NO_MODEL, running
from twofold import Memory, Message, bench
from twofold.http import app
from twofold.http.gate import Gate
from twofold.upstream import Upstream

SEED = 7
QUERIES = 30
MOVES = 30

KEY_TO_RESULT = """async (text) => {
    const box = document.getElementById("query");
    box.value = text;
    const before = document.querySelector("[data-hit]");
    const start = performance.now();
    box.dispatchEvent(new Event("input", { bubbles: true }));
    return await new Promise((resolve) => {
        const look = () => {
            const first = document.querySelector("[data-hit]");
            if (first && first !== before) requestAnimationFrame(() => resolve(performance.now() - start));
            else requestAnimationFrame(look);
        };
        look();
    });
}"""
SCROLL = """async () => {
    const talk = document.querySelector(".talk");
    const frames = [];
    let most = 0;
    let last = performance.now();
    for (let step = 0; step < 300; step++) {
        talk.scrollTop += 400;
        await new Promise(requestAnimationFrame);
        const now = performance.now();
        frames.push(now - last);
        last = now;
        most = Math.max(most, talk.querySelectorAll("article").length);
    }
    return { frames, most };
}"""


def main() -> None:
    """Parse the arguments, serve the store, look at it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--db", type=Path, required=True)
    arguments = parser.parse_args()
    file, _ = bench._stored(arguments.episodes, SEED, arguments.db, None)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(file, copy)
        with Memory.open(copy) as memory, Upstream(NO_MODEL, "", timeout=1.0) as upstream:
            texts = [text for _, text in bench.questions(memory, arguments.episodes, QUERIES, SEED)]
            memory.import_((Message(_line(n), session="long", source=str(n)) for n in range(5000)), embed=False)
            long = memory.catalog.find_session("long")
            assert long
            with running(app.create(memory, upstream, Gate(memory.tokens))) as url, sync_playwright() as playwright:
                chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = chromium.new_page(viewport={"width": 1400, "height": 900})
                recall(page, url, texts)
                scroll(page, url, long.id)
                chromium.close()


def recall(page: Page, url: str, texts: list[str]) -> None:
    """Type queries, and move a slider."""
    page.goto(url)
    page.get_by_role("searchbox").wait_for()
    page.evaluate(KEY_TO_RESULT, "warm up the model and the vectors")
    took = [page.evaluate(KEY_TO_RESULT, text) for text in texts]
    print(f"key released to first results: {_told(took)} ms, of which 90 are waited for another key")
    slider = page.get_by_label("Keyword weight")
    for number in range(MOVES):
        slider.fill(f"{0.1 * (number + 1):.1f}")
    moved = page.evaluate("performance.getEntriesByName('refused').map(e => e.duration)")[-MOVES:]
    print(f"fused anew and drawn: {_told(moved)} ms")


def scroll(page: Page, url: str, session: int) -> None:
    """Scroll through a long session."""
    page.goto(f"{url}/?view=memory&session={session}")
    page.get_by_role("article").first.wait_for()
    found = page.evaluate(SCROLL)
    print(f"a frame while 5,000 messages are scrolled: {_told(found['frames'])} ms")
    print(f"at most {found['most']} messages in the document")


def _line(number: int) -> str:
    return f"line {number} " + "word " * random.Random(number).randrange(1, 120)


def _told(values: list[float]) -> str:
    ordered = sorted(values)
    late = ordered[int(len(ordered) * 0.95)]
    return f"{statistics.median(ordered):.1f} (median), {late:.1f} (p95), {ordered[-1]:.1f} (most)"


if __name__ == "__main__":
    main()
