"""A service with a small real store, and Debian's Chromium to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.http.conftest import NO_MODEL, running
from twofold import Memory, Message
from twofold.embed.hashing import HashEmbedder
from twofold.http import app
from twofold.http.gate import Gate
from twofold.upstream import Upstream

START = datetime(2026, 1, 5, 12, tzinfo=timezone.utc)
NASTY = "<img src=x onerror=alert(1)><script>document.title='taken'</script> \u202eevil\u202c gate"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser, gone after these tests: its event loop runs in their thread, where no other could."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if not chromium:
        pytest.skip("no Chromium is installed here; get it with: apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


def filled(memory: Memory) -> None:
    """Three projects' worth of talk, with what nobody should write."""
    said = [
        Message("The gate code changed on Monday.", "user", "house", "home", START, {}, "a1", "Things of the house"),
        Message(
            "Noted.\n```py\nprint('gate')\n```", "assistant", "house", "home", START + timedelta(minutes=1), {}, "a2"
        ),
        Message("be brief", "system", "house", "home", START + timedelta(minutes=2), {"hidden": True}, "a3"),
        Message("东京的樱花四月开", "user", "trip", "travel", START + timedelta(days=9), {}, "b1", "Tokyo"),
        Message(NASTY, "user", "nasty", None, START + timedelta(days=20), {}, "c1", "<b>Nasty</b>"),
        Message("gate " + "x" * 1_000_000, "user", "nasty", None, START + timedelta(days=20, minutes=1), {}, "c2"),
    ]
    said += [
        Message(
            f"Door number {n} of the corridor is painted {'red' if n % 2 else 'green'}.",
            "user",
            "doors",
            "home",
            START + timedelta(days=30, minutes=n),
            {},
            f"d{n}",
        )
        for n in range(60)
    ]
    memory.import_(said)
    memory.entities.add("Gate", "thing", description="At the front of the house", project="home")


class Place:
    """A served memory and a page that looks at it."""

    def __init__(self, url: str, memory: Memory, page: Page) -> None:
        self.url = url
        self.memory = memory
        self.page = page
        self.faults: list[str] = []
        page.set_default_timeout(10_000)
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("console", lambda line: line.type == "error" and self.faults.append(line.text))

    def go(self, address: str = "/") -> Page:
        self.page.goto(f"{self.url}{address}")
        return self.page


@pytest.fixture
def served(tmp_path: Path, browser: Browser) -> Iterator[Callable[..., Place]]:
    """Opens a page on a service of its own."""
    with ExitStack() as ends:

        def open_(
            fill: Callable[[Memory], None] = filled, width: int = 1400, token: str | None = None, **context: object
        ) -> Place:
            memory = ends.enter_context(Memory.open(tmp_path / f"{width}.db", embedder=HashEmbedder()))
            fill(memory)
            upstream = ends.enter_context(Upstream(NO_MODEL, "", timeout=0.2))
            url = ends.enter_context(running(app.create(memory, upstream, Gate(memory.tokens, token, token is None))))
            opened = browser.new_context(viewport={"width": width, "height": 900}, **context)  # type: ignore[arg-type]
            ends.callback(opened.close)
            return Place(url, memory, opened.new_page())

        yield open_
