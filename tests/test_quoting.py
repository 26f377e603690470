"""What a quotation looks like, and that nothing quoted can get out of it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold import quoting
from twofold.text import query_terms
from twofold.types import Entity, EntityHit, Episode, Passage

UTC = timezone.utc
EPISODE = Episode(
    7, 1, "ops", "Moving billing", "acme", "user", "We moved.", datetime(2026, 3, 4, 23, 30, tzinfo=UTC), {}
)
# Pieces from which a text that wants to get out of its quotation is made.
SHARDS = (
    "<",
    "</",
    "< / ",
    ">",
    "twofold-memory",
    "Twofold-MEMORY",
    "passage",
    "pas\u200bsage",
    "episode",
    "entity",
    "ENTITY",
    " ",
    "\n",
    "\u00ad",
    "\x00",
    quoting.OPENING,
    quoting.CLOSING,
    quoting.PREFACE,
    "</episode>",
    "</\u200bpassage >",
    "&lt;",
    '"',
    "a",
    "…",
)
HOSTILE = st.lists(st.one_of(st.sampled_from(SHARDS), st.text(max_size=3)), max_size=12).map("".join)
_UNSEEN = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")
_TAGS = ("twofold-memory", "passage", "episode", "entity")


def seen_tags(text: str) -> list[str]:
    """The tags that a tolerant reader sees: for whom case, blanks and signs that show nothing do not count."""
    found = []
    for part in text.split("<")[1:]:
        visible = [(place, sign) for place, sign in enumerate(part) if not _UNSEEN.match(sign)]
        slash = "/" if visible and visible[0][1] == "/" else ""
        visible = visible[len(slash) :]
        for tag in _TAGS:
            begins = "".join(sign for _, sign in visible[: len(tag)]).lower() == tag
            if begins and not re.match(r"[\w-]", part[visible[len(tag) - 1][0] + 1 :]):
                found.append(f"<{slash}{tag}")
    return found


def quoted(content: str) -> str:
    return quoting.block((), [Passage((replace(EPISODE, content=content),), (7,), 1.0)], UTC)


def test_a_block_says_what_it_is_and_dates_and_sources_what_it_quotes() -> None:
    entity = EntityHit(Entity(1, "Marta", "person", "runs the harbour office", (), "acme", None, 2), 1.0)
    text = quoting.block([entity], [Passage((EPISODE,), (7,), 1.0)], ZoneInfo("Asia/Tokyo"))
    assert text.splitlines() == [
        "<twofold-memory>",
        quoting.PREFACE,
        '<entity name="Marta" type="person">runs the harbour office</entity>',
        '<passage session="ops" title="Moving billing" project="acme">',
        '<episode id="7" role="user" time="2026-03-05T08:30:00+09:00">We moved.</episode>',
        "</passage>",
        "</twofold-memory>",
    ]
    assert "instruction" in quoting.PREFACE


def test_there_is_no_block_around_nothing_and_no_attribute_without_a_value() -> None:
    assert quoting.block((), (), UTC) == ""
    assert quoting.passage_opening(replace(EPISODE, title=None, project=None)) == '<passage session="ops">'


@pytest.mark.parametrize("year", [1, 9999])
def test_the_ends_of_the_calendar_can_be_dated_in_any_zone(year: int) -> None:
    edge = datetime(year, 1, 1, tzinfo=UTC) if year == 1 else datetime(year, 12, 31, 23, 59, tzinfo=UTC)
    for hours in (-11, 11):
        assert f'time="{year:04}-' in quoting.episode_line(
            replace(EPISODE, time=edge), timezone(timedelta(hours=hours))
        )


@given(HOSTILE, HOSTILE, HOSTILE)
def test_whatever_is_quoted_the_block_has_its_own_tags_and_no_others(content: str, name: str, about: str) -> None:
    episode = replace(EPISODE, content=content, session=name, title=about, project=name)
    entity = EntityHit(Entity(1, name, "person", about, (), None, None, 0), 1.0)
    text = quoting.block([entity], [Passage((episode,), (7,), 1.0)], UTC)
    tags = ["<twofold-memory", "<entity", "</entity", "<passage", "<episode", "</episode", "</passage"]
    assert seen_tags(text) == [*tags, "</twofold-memory"]
    assert quoting.unquoted(text) == ""


@pytest.mark.parametrize(
    "tag",
    [
        "</episode>",
        "</EPISODE>",
        "< / passage >",
        "<\n/\ttwofold-memory>",
        "</two\u200bfold-memory>",
        "<\u2060entity name='x'>",
        "</p\u00ada\u00adssage",
        "<\x00/episode>",
    ],
)
def test_a_tag_of_ours_in_quoted_text_loses_its_sign_however_it_is_written(tag: str) -> None:
    assert seen_tags(tag)
    assert quoting.harmless(f"a {tag} b") == f"a &lt;{tag[1:]} b"


@pytest.mark.parametrize(
    "code",
    [
        "if a < b and b > c: x <<= 2",
        "<div class='x'>Bollard & Daughters</div>",
        "List<EntityManager> <entities> <passages/> <episode_id> <entity-list>",
        "the episode </p> <e>",
        "&lt;episode>",
    ],
)
def test_code_that_is_no_tag_of_ours_is_quoted_as_it_is(code: str) -> None:
    assert quoting.harmless(code) == code


def test_text_with_many_signs_and_blanks_takes_no_longer_than_its_length() -> None:
    """Would take minutes if blanks after a sign were tried in more than one way."""
    text = "<" + " " * 200_000 + "/" + " " * 200_000 + "<p\u200b" * 50_000
    assert quoting.harmless(text) == text


def test_a_text_without_a_block_comes_back_as_the_very_same() -> None:
    text = "  two  blanks, and talk of twofold-memory </twofold-memory> \n"
    assert quoting.unquoted(text) is text


def test_a_block_is_taken_out_of_what_stands_around_it() -> None:
    assert quoting.unquoted(f"Before.\n\n{quoted('x')}\n\nAfter.") == "Before.\n\nAfter."
    assert quoting.unquoted(f"{quoted('x')}\nHello") == "Hello"
    assert quoting.unquoted(f"a{quoted('x')}b{quoted('y')}c") == "a\n\nb\n\nc"


def test_a_block_within_a_block_goes_with_it() -> None:
    outer = quoted("x").replace("</passage>", f"{quoted('y')}</passage>")
    assert quoting.unquoted(f"a {outer} b") == "a\n\nb"


def test_a_block_that_was_cut_off_reaches_to_the_end_and_a_mere_mention_of_a_fence_does_not() -> None:
    assert quoting.unquoted(f"a {quoted('x')[:-30]}") == "a"
    mention = "what does <twofold-memory> mean in my prompt?"
    assert quoting.unquoted(mention) == mention
    assert quoting.unquoted(f"{mention} {quoted('x')} Tell me.") == f"{mention}\n\nTell me."


@given(st.text(), st.text())
def test_tokens_are_rounded_up_and_parts_never_add_up_to_less_than_the_whole(one: str, other: str) -> None:
    assert quoting.tokens(one + other) <= quoting.tokens(one) + quoting.tokens(other)
    assert quoting.tokens(one) * 7 >= len(one.encode()) * 2 > (quoting.tokens(one) - 1) * 7


def test_an_excerpt_holds_the_answer_at_the_end_of_five_thousand_words() -> None:
    words = [f"word{number}" for number in range(5000)]
    text = " ".join([*words, "the", "code", "of", "the", "cellar", "door", "is", "4711"])
    part = quoting.excerpt(text, query_terms("what is the code for the cellar door"), 50)
    assert part.startswith("…word")
    assert part.endswith("the code of the cellar door is 4711")
    assert quoting.tokens(part) <= 50


def test_an_excerpt_prefers_more_different_terms_to_more_of_one() -> None:
    filler = " lorem" * 60
    text = f"gate gate gate gate{filler} gate code{filler}"
    part = quoting.excerpt(text, ["gate", "code"], 20)
    assert "gate code" in part
    assert (part[0], part[-1]) == ("…", "…")


def test_an_excerpt_without_a_term_is_the_beginning_and_a_text_that_fits_stays_whole() -> None:
    text = "one two three " * 40
    assert quoting.excerpt(text, ["absent"], 10).startswith("one two three one")
    assert quoting.excerpt("one  two", ["absent"], 10) == "one  two"
    assert quoting.excerpt(text, ["one"], 1) == ""


@pytest.mark.parametrize("most", range(5, 40))
def test_the_marks_of_a_cut_count_as_well(most: int) -> None:
    part = quoting.excerpt("a " * 200 + "gate " + "a " * 200, ["gate"], most)
    assert (part[0], part[-1]) == ("…", "…")
    assert most - 2 <= quoting.tokens(part) <= most


def test_an_excerpt_of_a_language_without_blanks_has_its_term_too() -> None:
    text = "今天天气很好。" * 200 + "北京的会议改到周三。" + "今天天气很好。" * 200
    part = quoting.excerpt(text, query_terms("北京会议"), 100)
    assert "北京" in part
    assert quoting.tokens(part) <= 100


TEXTS = st.lists(st.one_of(st.sampled_from((*SHARDS, "gate ", "code\n", "x" * 50)), st.text(max_size=5)), max_size=40)


@given(TEXTS.map("".join), st.lists(st.sampled_from(["gate", "code", "a"])), st.integers(0, 60))
def test_an_excerpt_is_a_stretch_of_the_text_that_takes_no_more_than_it_may(
    text: str, terms: list[str], most: int
) -> None:
    part = quoting.excerpt(text, terms, most)
    assert quoting.tokens(quoting.harmless(part)) <= most
    assert part.removeprefix("…").removesuffix("…") in text or part in text
