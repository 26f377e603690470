"""The FTS5 index: the same numbers as bm25(), whatever shortcut is taken to them."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from tests.conftest import Opener
from twofold import Memory, Message, Scope
from twofold.keyword import candidates, fts5
from twofold.keyword.bm25 import Term
from twofold.keyword.candidates import Candidates
from twofold.keyword.entries import look_up, statistics
from twofold.keyword.fts5 import Fts5Index
from twofold.store import Store
from twofold.text import ANALYSER

ALL = Scope("all")
WORDS_ONLY = {"semanticWeight": 0, "keywordWeight": 1}


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of a few very common and many rare words."""
    chance = random.Random(seed)
    words = [f"w{n}" for n in range(400)]
    weights = [1 / (n + 1) for n in range(400)]
    return [" ".join(chance.choices(words, weights, k=chance.randint(1, 25))) for _ in range(count)]


@pytest.fixture
def filled(open_memory: Opener) -> Memory:
    """600 texts in sessions of twelve, some forgotten and some edited again."""
    memory = open_memory(None)
    memory.import_(Message(text, session=f"s{n // 12}", source=str(n)) for n, text in enumerate(texts(600)))
    for id_ in range(5, 600, 40):
        memory.forget(episode=id_)
        memory.edit(id_ + 1, f"w3 edited w{id_ % 300}")
    return memory


def index_of(memory: Memory) -> Fts5Index:
    index = memory._keyword
    assert isinstance(index, Fts5Index)
    return index


QUERIES = [["w0"], ["w3", "w50", "w200"], ["w399", "w1", "nowhere"], [f"w{n}" for n in range(0, 60, 3)], ["nowhere"]]


@pytest.mark.parametrize("terms", QUERIES)
def test_given_rows_get_the_score_that_the_search_gives_them(filled: Memory, terms: list[str]) -> None:
    index = index_of(filled)
    hits = index.search(terms, ALL, (), 1000).ranking
    assert index.search(terms, ALL, (), 0).score([id_ for id_, _ in hits]) == [score for _, score in hits]
    others = sorted(set(range(1, 601)) - {id_ for id_, _ in hits})
    assert set(index.search(terms, ALL, (), 0).score(others)) <= {0.0}


@pytest.mark.parametrize("terms", QUERIES)
def test_candidates_are_those_of_bm25_with_its_scores(filled: Memory, terms: list[str]) -> None:
    with filled._store.read() as db:
        counted = statistics(db)
        known = look_up(db, terms, counted)
        of_all = Candidates(db, counted, ALL)
        ranked = of_all.ranked(known, 1000) if known else []
        assert of_all._scored([id_ for id_, _ in ranked], known) == ranked


@pytest.mark.parametrize("terms", QUERIES)
def test_the_hits_are_those_of_scoring_every_row(filled: Memory, terms: list[str]) -> None:
    index = index_of(filled)
    ids = range(1, 601)
    every = sorted(zip(ids, index.search(terms, ALL, (), 0).score(ids), strict=True), key=lambda hit: (-hit[1], hit[0]))
    assert index.search(terms, ALL, (), 30).ranking == [hit for hit in every if hit[1] > 0][:30]


@pytest.mark.parametrize("limit", [1, 10, 50])
def test_leaving_out_common_terms_changes_neither_the_hits_nor_their_scores(
    filled: Memory, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = index_of(filled)
    chance = random.Random(3)
    questions = [[f"w{chance.randrange(400)}" for _ in range(chance.randint(2, 9))] + ["w0", "w1"] for _ in range(60)]
    monkeypatch.setattr(fts5, "LEAST_CANDIDATES", 1)
    full = [index.search(terms, ALL, (), limit).ranking for terms in questions]
    pruned: list[bool] = []
    shortcut = Candidates.pruned

    def watched(self: Candidates, terms: list[Term], limit: int) -> list[tuple[int, float]] | None:
        found = shortcut(self, terms, limit)
        pruned.append(found is not None)
        return found

    monkeypatch.setattr(candidates, "PRUNE_ABOVE", 0)
    monkeypatch.setattr(Candidates, "pruned", watched)
    assert [index.search(terms, ALL, (), limit).ranking for terms in questions] == full
    if limit < 50:
        assert sum(pruned) > 5  # the shortcut was really taken


def test_scores_are_positive_and_a_term_that_every_row_holds_still_ranks(memory: Memory) -> None:
    memory.settings(WORDS_ONLY)
    memory.add("apple", session="a")
    assert [hit.score > 0 for hit in memory.recall("apple")] == [True]
    memory.add("apple apple", session="b")
    memory.add("apple tree with many other words", session="c")
    raws = [hit.contributions[0].raw for hit in memory.recall("apple")]
    assert len(set(raws)) == 3
    assert all(raw is not None and raw > 0 for raw in raws)


FOUND = [
    ("POL-358", "the policy POL-358 was renewed"),
    ("2026-03-14", "due on 2026-03-14 at noon"),
    ("grammar::fa", "see grammar::fa for that"),
    ("don't", "we don't know"),
    ("a/b", "an a/b test"),
    ("C++", "written in C++ mostly"),
    ("C#", "written in C# mostly"),
    ("20.04", "runs on ubuntu 20.04 only"),
    ("user@example.org", "mail to user@example.org please"),
    ("#general", "posted in #general today"),
    ("50%", "a 50% discount"),
    ("a=b", "set a=b there"),
    ('"unterminated', "an unterminated string"),
    ('say"b', "they say b"),
    ("NEAR(world)", "near the world"),
    ("title:x1", "the title is x1"),
    ("^caret", "a caret sign"),
    ("-minus", "a minus sign"),
    ("{brace}", "a brace here"),
    ("back\\slash", "a back slash"),
    ("star*", "a star is born"),
    ("北京", "我们什么时候去北京看长城"),
    ("テスト", "単体テストを書く"),
    ("茶", "喝茶去"),
    ("กิน", "ฉันกินข้าว"),
    ("CAFÉ", "the cafe\u0301 opens"),
    ("cafe", "the CAFÉ opens"),
    ("getUserById", "call getUserById there"),
    ("user by id", "call getUserById there"),
    ("STRIPE_KEY", "set STRIPE_KEY first"),
    ("stripe", "set STRIPE_KEY first"),
    ("v1.2.3", "released v1.2.3 today"),
    ("🚀", "we launched 🚀 today"),
    ("migrate", "the migration went well"),
    ("migration", "we migrated it"),
    ("after", "before\0after"),
    ("x" * 1_000_000, "here " + "x" * 1_000_000),
]


@pytest.mark.parametrize(("query", "text"), FOUND, ids=[query[:20] for query, _ in FOUND])
def test_words_of_any_kind_are_found_and_never_syntax(memory: Memory, query: str, text: str) -> None:
    memory.settings(WORDS_ONLY)
    memory.add("nothing of the kind", session="other")
    episode = memory.add(text, session="this")
    assert [hit.episode.id for hit in memory.recall(query)] == [episode.id]


@pytest.mark.parametrize(
    "query", ["AND", "NOT", "(a", "*", "^a", "-a", "{a}", "\\", "NEAR(a b)", "'", '"', "\ufffd", "\u202e"]
)
def test_signs_alone_find_nothing_and_raise_nothing(memory: Memory, query: str) -> None:
    memory.settings(WORDS_ONLY)
    memory.add("apple pie")
    assert len(memory.recall(query)) == 0


def test_the_whole_identifier_ranks_before_its_parts(memory: Memory) -> None:
    memory.settings(WORDS_ONLY)
    memory.add("the user has an id", session="a")
    memory.add("user_id", session="b")
    memory.add("an id of a user, user id, id", session="c")
    assert memory.recall("user_id")[0].episode.content == "user_id"


def test_a_pasted_text_is_searched_by_its_rarest_words_and_says_which(memory: Memory) -> None:
    memory.settings(WORDS_ONLY)
    for number in range(100):
        memory.add(" ".join(f"common{n}" for n in range(80)) + (" needle" if number == 7 else ""), session=f"s{number}")
    paste = " ".join([f"common{n % 80}" for n in range(100_000)] + ["needle"])
    found = memory.recall(paste, explain=True)
    assert found[0].episode.session == "s7"
    assert found.explanation is not None
    assert "needl" in found.explanation.terms
    assert len(found.explanation.terms) == fts5.MOST_TERMS
    assert len(found.explanation.left_out) == 81 - fts5.MOST_TERMS


def test_a_neighbour_lends_its_words_at_a_lower_weight(memory: Memory) -> None:
    memory.settings(WORDS_ONLY)
    memory.add("what is the code for the gate", session="s")
    memory.add("it is 4711", session="s")
    memory.add("and the cellar", session="s")
    memory.add("far away", session="s")
    found = [hit.episode.content for hit in memory.recall("gate code")]
    assert found[0] == "what is the code for the gate"
    assert "it is 4711" in found
    assert "far away" not in found  # three places off


def test_a_message_that_comes_between_two_others_becomes_their_neighbour(memory: Memory) -> None:
    memory.settings(WORDS_ONLY)
    for minute in (0, 10):
        memory.add(f"apple {minute}", session="s", time=datetime(2026, 1, 1, 0, minute, tzinfo=timezone.utc))
    memory.add("marmalade", session="s", time=datetime(2026, 1, 1, 0, 5, tzinfo=timezone.utc))
    assert len(memory.recall("marmalade")) == 3


def test_the_index_is_made_anew_when_its_analyser_was_another(tmp_path: Path, filled: Memory) -> None:
    index = index_of(filled)
    before = index.search(["w3", "w50"], ALL, (), 100).ranking
    with filled._store.write() as db:
        db.execute("UPDATE counters SET value = 0 WHERE name = 'keyword_analyser'")
        db.execute("INSERT INTO keyword (keyword) VALUES ('delete-all')")
    with Memory.open(tmp_path / "memories.db", embedder=None) as again:
        assert index_of(again).search(["w3", "w50"], ALL, (), 100).ranking == before
        assert again.doctor().is_healthy
        counted = again._store.connection.execute("SELECT value FROM counters WHERE name = 'keyword_analyser'").get
        assert counted == ANALYSER


def test_the_counters_say_what_the_index_holds(filled: Memory) -> None:
    counted = statistics(filled._store.connection)
    db = filled._store.connection
    held = db.execute("SELECT count(*), sum(own), sum(length(hashes)) / 4 FROM keyword_docs").fetchone()
    assert held == (counted.rows, counted.own, counted.own + counted.context)
    assert counted.rows == filled.status().episodes
    assert filled.doctor().is_healthy


def test_an_engine_error_is_an_error_not_an_empty_answer(memory: Memory, tmp_path: Path) -> None:
    from twofold.errors import StoreError

    memory.add("apple")
    store = Store(tmp_path / "memories.db")
    with store.write() as db:
        db.execute("DROP TABLE keyword_terms")
    store.close()
    with pytest.raises(StoreError, match="SQLite reports"):
        memory.recall("apple")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_after_any_history_of_changes_the_index_is_the_one_made_anew(open_memory: Opener, seed: int) -> None:
    chance = random.Random(seed)
    memory = open_memory(None)
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def message(number: int) -> Message:
        text = " ".join(f"w{chance.randint(0, 60)}" for _ in range(chance.randint(1, 9)))
        time = start + timedelta(minutes=chance.randint(0, 200))  # in any order, many at the same minute
        return Message(text, session=f"s{number % 3}", project="p" if number % 3 else None, time=time)

    for round_ in range(6):
        memory.import_([message(number) for number in range(chance.randint(1, 40))])
        for episode in [shown for session in memory.sessions() for shown in memory.show(str(session.id))]:
            if chance.random() < 0.1:
                memory.edit(episode.id, f"edited w{chance.randint(0, 60)} {round_}")
            elif chance.random() < 0.1:
                memory.forget(episode=episode.id)
    db = memory._store.connection
    everything = "SELECT id, own, hashes, near FROM keyword_docs ORDER BY id"
    kept, counted = db.execute(everything).fetchall(), statistics(db)
    ranking = index_of(memory).search(["w3", "w17", "edit"], ALL, (), 100).ranking
    index_of(memory).rebuild()
    assert db.execute(everything).fetchall() == kept
    assert statistics(db) == counted
    assert index_of(memory).search(["w3", "w17", "edit"], ALL, (), 100).ranking == ranking
    assert memory.doctor().is_healthy
