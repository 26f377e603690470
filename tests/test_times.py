"""A recall that sees only what was said from one time on, or before another."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.engines.delivery import wait_until_delivered
from twofold import Memory, Message, dates
from twofold.embed.hashing import HashEmbedder
from twofold.errors import InvalidInput
from twofold.vectors import external

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def day(number: int) -> datetime:
    return START + timedelta(days=number)


@pytest.fixture(params=["exact", "edge", "edge, many"])
def memory(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """Forty days of apples, one message a day, in two sessions of one project."""
    if request.param != "exact":
        pytest.importorskip("qdrant_edge")
        monkeypatch.setenv("TWOFOLD_VECTORS", "edge")
        monkeypatch.setenv("TWOFOLD_KEYWORD", "qdrant")
    if request.param == "edge, many":
        monkeypatch.setattr(external, "FEW_IN_TIME", 0)
    with Memory.open(tmp_path / "one.db", embedder=HashEmbedder()) as opened:
        opened.import_(
            Message(f"apples day{n} {'pears' if n % 2 else 'plums'}", session=f"s{n % 2}", project="p", time=day(n))
            for n in range(40)
        )
        if request.param != "exact":
            wait_until_delivered(opened)
        yield opened


@pytest.mark.parametrize("method", ["convex", "rrf", "rsf", "dbsf"])
def test_only_what_was_said_in_the_time_is_found_and_all_of_it(memory: Memory, method: str) -> None:
    memory.settings({"method": method})
    found = memory.recall("apples pears", since=day(10), before=day(20), limit=30)
    assert not found.degraded
    assert {hit.episode.time for hit in found.hits} == {day(number) for number in range(10, 20)}
    odd = memory.recall("apples pears", since=day(30), session="s1", project="p", limit=30)
    assert {hit.episode.time for hit in odd.hits} == {day(number) for number in range(31, 40, 2)}
    assert memory.recall("apples", before=day(0)).hits == ()


def test_what_is_outside_does_not_push_out_what_is_within(memory: Memory) -> None:
    memory.settings({"window": 10})
    (hit,) = memory.recall("apples day39 plums", since=day(6), before=day(7), limit=5).hits
    assert hit.episode.time == day(6)


def test_what_is_excluded_stays_so_within_a_time(memory: Memory) -> None:
    found = memory.recall("apples", since=day(10), before=day(12), exclude=[11])
    assert [hit.episode.id for hit in found.hits] == [12]


def test_why_not_tells_of_the_time_as_of_any_scope(memory: Memory) -> None:
    assert memory.why_not("apples", 1, since=day(5)).stage == "scope"
    assert memory.why_not("apples", 7, since=day(5), before=day(7)).stage == "recalled"


def test_times_that_are_none_or_leave_nothing_are_refused(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="has no zone"):
        memory.recall("apples", since=datetime(2026, 1, 1))
    with pytest.raises(InvalidInput, match="is not before"):
        memory.recall("apples", since=day(2), before=day(2))


def test_a_moment_is_an_iso_date_or_words_in_the_askers_zone() -> None:
    now = datetime(2026, 3, 18, 12, tzinfo=timezone(timedelta(hours=2)))  # a Wednesday
    assert dates.moment("since", "2026-03-01", now) == datetime(2026, 3, 1, tzinfo=now.tzinfo)
    assert dates.moment("since", "2026-03-01T10:00:00Z", now) == datetime(2026, 3, 1, 10, tzinfo=timezone.utc)
    assert dates.moment("since", "last week", now) == datetime(2026, 3, 9, tzinfo=now.tzinfo)
    assert dates.moment("since", "yesterday", now) == datetime(2026, 3, 17, tzinfo=now.tzinfo)
    assert dates.moment("since", " ", now) is None
    with pytest.raises(InvalidInput, match="before is 'soonish', which names no time"):
        dates.moment("before", "soonish", now)
