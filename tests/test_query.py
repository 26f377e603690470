"""What is read off a query, and what keyword search makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.query import Query, characterize, keyword_query, select_k, select_weights
from twofold.text import query_words

CONFORMANCE = json.loads((Path(__file__).parent / "conformance" / "query.json").read_text(encoding="utf-8"))


def query_of(case: dict[str, Any]) -> str:
    return repr(case["query"])


# ---------------------------------------------------------------- conformance


@pytest.mark.parametrize("case", CONFORMANCE["characterize"], ids=query_of)
def test_a_query_has_the_tokens_kind_rank_constant_and_weights_of_its_case(case: dict[str, Any]) -> None:
    query = characterize(case["query"])

    assert query == Query(case["token_count"], case["is_phrase"], case["is_boolean"])
    assert select_k(query) == case["k"]
    assert select_weights(query) == case["weights"]


@pytest.mark.parametrize("case", CONFORMANCE["keyword_query"], ids=query_of)
def test_a_query_asks_for_the_words_of_its_case(case: dict[str, Any]) -> None:
    words = query_words(case["query"])

    if "terms" in case:
        assert words == case["terms"]
    if "match" in case:
        assert keyword_query(case["query"]) == case["match"]
    assert set(words) >= set(case.get("terms_include", ()))


# ---------------------------------------------------------------- kinds


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('"cats AND dogs"', "phrase"),
        ("'a b c d e f g h i j k'", "phrase"),
        ("\"mixed'", "short"),
        ("''", "short"),
        ("one two three four five six seven eight nine ten NOT eleven", "boolean"),
        ("ANDROID NOTES FOR ORACLE", "plain"),
        ("NOT", "boolean"),
        ("foo\n-bar", "boolean"),
        ("R_AND_D spending this year", "plain"),
        ("one two", "short"),
        ("one two three", "plain"),
        ("one two three four five six seven eight nine ten", "long"),
    ],
)
def test_the_first_row_of_the_table_that_holds_is_the_kind(text: str, kind: str) -> None:
    assert characterize(text).kind == kind


def test_a_phrase_with_an_operator_in_it_is_both_and_counts_as_a_phrase() -> None:
    query = characterize('"cats AND dogs"')

    assert query.is_phrase
    assert query.is_boolean
    assert (select_k(query), select_weights(query)) == (10, {"keyword": 0.8, "semantic": 0.2})


# ---------------------------------------------------------------- no sign of a user is ever syntax

SIGNS = [
    "POL-358",
    "2026-03-14",
    "grammar::fa",
    "don't",
    "a/b",
    "C++",
    "C#",
    "20.04",
    "user@example.org",
    "#general",
    "50%",
    "a=b",
    '"unterminated',
    'a"b',
    "(a",
    "AND",
    "NOT",
    "NEAR(a b)",
    "title:x",
    "*",
    "^a",
    "-a",
    "{a}",
    "\\",
    "x\x00y",
    "\ud800",
    "\ufffd",
    "\u202eabc\u202c",
]


@pytest.fixture(scope="module")
def fts5() -> apsw.Connection:
    """An index with FTS5's own tokenizer, to hand queries to."""
    db = apsw.Connection(":memory:")
    db.execute("CREATE VIRTUAL TABLE words USING fts5 (content)")
    db.execute("INSERT INTO words VALUES ('pol 358 grammar fa don example NEAR title unterminated')")
    return db


def rows_matching(db: apsw.Connection, text: str) -> int:
    query = keyword_query(text)
    return 0 if query is None else len(list(db.execute("SELECT rowid FROM words WHERE words MATCH ?", (query,))))


@pytest.mark.parametrize("text", SIGNS, ids=ascii)
def test_signs_are_words_to_find_and_never_syntax(fts5: apsw.Connection, text: str) -> None:
    rows_matching(fts5, text)


@pytest.mark.parametrize("text", ["POL-358", "grammar::fa", "don't", '"unterminated', "NEAR(a b)", "title:x"])
def test_the_words_between_the_signs_are_found(fts5: apsw.Connection, text: str) -> None:
    assert rows_matching(fts5, text) == 1


@pytest.mark.parametrize(
    "text", ["AND", "NOT", "*", "\\", "-a", "{a}", "(a", "^a", "\ud800", "the Of AND tHe"], ids=ascii
)
def test_a_query_of_signs_and_stop_words_alone_asks_for_nothing(text: str) -> None:
    assert keyword_query(text) is None


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("getUserById", '"getuserbyid"'),
        ("user_id", '"user" OR "id"'),
        ("20.04", '"20" OR "04"'),
        ("DUP dup Dup", '"dup"'),
        ("x y", '"x" OR "y"'),
        ("x y zebra", '"zebra"'),
        ("don't", '"don"'),
        ("茶", '"茶"'),
        ("🚀", '"🚀"'),
    ],
)
def test_each_distinct_word_is_asked_for_once_in_lower_case(text: str, asked: str) -> None:
    assert keyword_query(text) == asked


# ---------------------------------------------------------------- properties

SNIPPETS = [
    "AND",
    "OR",
    "NOT",
    "NEAR(",
    '"',
    "'",
    "-",
    "*",
    "^",
    ":",
    "the",
    "Dup",
    "dup",
    "中国",
    "é",
    "🚀",
    "\x00",
    "_",
]
TEXTS = st.text() | st.lists(st.sampled_from([*SNIPPETS, " ", " ", "\ud800"]), max_size=12).map("".join)

properties = settings(max_examples=300, deadline=None)


@properties
@given(TEXTS)
def test_characterize_takes_any_text(text: str) -> None:
    query = characterize(text)

    assert query.token_count == len(text.split())
    assert select_k(query) in (10, 15, 20, 40)
    assert sum(select_weights(query).values()) == 1.0
    assert characterize(f" {text}\n") == query


@properties
@given(TEXTS)
def test_a_keyword_query_is_none_or_distinct_quoted_words_joined_by_or(text: str) -> None:
    query = keyword_query(text)
    words = query_words(text)

    if query is None:
        assert words == []
        return
    quoted = query.split(" OR ")
    assert quoted == [f'"{word}"' for word in words]
    assert len(set(words)) == len(words)
    for word in words:
        assert word
        assert '"' not in word
        assert not any(sign.isspace() for sign in word)
        assert word == word.casefold()


@properties
@given(TEXTS)
def test_fts5_takes_the_keyword_query_of_any_text(fts5: apsw.Connection, text: str) -> None:
    rows_matching(fts5, text)
