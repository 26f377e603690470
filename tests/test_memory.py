"""What a person can rely on when adding, recalling, changing and forgetting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import twofold
from tests.conftest import Opener
from twofold import Memory, Message, TwofoldError
from twofold.embed.hashing import HashEmbedder
from twofold.errors import EmbedderError, InvalidInput, NotFound, StoreError
from twofold.keyword.fts5 import Fts5Index

UTC = timezone.utc
WORDS_ONLY = {"semanticWeight": 0, "keywordWeight": 1}


def contents(found: object) -> list[str]:
    return [hit.episode.content for hit in found]  # type: ignore[attr-defined]


class BrokenEmbedder(HashEmbedder):
    """Fails at everything."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        raise EmbedderError("the embedder is broken")

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        raise EmbedderError("the embedder is broken")


class NotANumberEmbedder(HashEmbedder):
    """Gives NaN for every document, and zeros for every query."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return np.zeros(64, dtype=np.float32)

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.full((1, 64), np.nan, dtype=np.float32) for _ in texts]


def test_the_package_exports_ten_names() -> None:
    assert len(twofold.__all__) <= 10
    assert all(hasattr(twofold, name) for name in twofold.__all__)


def test_what_was_added_is_found_with_its_reasons(memory: Memory) -> None:
    added = memory.add("We moved billing to Stripe in March.", session="ops", project="acme")
    memory.add("The cat sleeps on the sofa.", session="home")
    found = memory.recall("billing with Stripe", project="acme", limit=5)
    assert found[0].episode == added
    assert {given.ranking for given in found[0].contributions} == {"keyword", "semantic"}
    assert math.fsum(given.contribution for given in found[0].contributions) == found[0].score


def test_explain_names_terms_method_weights_windows_and_times(memory: Memory) -> None:
    memory.add("We moved billing to Stripe in March.")
    why = memory.recall("billing with Stripe tomorrow evening", explain=True).explanation
    assert why is not None
    assert (why.kind, why.method, set(why.terms)) == ("plain", "convex", {"bill", "stripe"})
    assert set(why.left_out) == {"tomorrow", "evening"}
    assert sum(why.weights.values()) == 1.0
    assert {"embed", "keyword", "semantic", "fuse"} <= set(why.milliseconds)


@pytest.mark.parametrize("method", ["auto", "rrf", "rsf", "dbsf", "convex"])
@pytest.mark.parametrize("weights", ["auto", "fixed"])
def test_every_method_finds_and_its_contributions_add_up(memory: Memory, method: str, weights: str) -> None:
    for number in range(30):
        memory.add(f"note {number} about {'stripe billing' if number % 3 else 'garden'} {number * 7}")
    memory.settings({"keywordWeight": 2, "semanticWeight": 1, "method": method, "weights": weights})
    found = memory.recall("stripe billing note 5", limit=12)
    assert len(found) == 12
    for hit in found:
        assert math.fsum(given.contribution for given in hit.contributions) == hit.score
    assert contents(memory.recall("stripe billing note 5", limit=5)) == contents(found)[:5]


def test_fixed_weights_give_exactly_the_numbers_of_reciprocal_rank_fusion(memory: Memory) -> None:
    memory.add("alpha beta")
    memory.add("gamma delta")
    memory.settings({"keywordWeight": 1.0})
    (first, *_) = memory.recall("alpha beta")
    assert first.score == 1 / 61 + 1 / 61
    assert memory.settings()["weights"] == "fixed"


def test_a_keyword_weight_of_zero_never_touches_the_keyword_index(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.add("alpha beta")
    calls: list[str] = []
    monkeypatch.setattr(Fts5Index, "search", lambda *_: calls.append("search"))
    memory.settings({"keywordWeight": 0.0})
    assert contents(memory.recall("alpha")) == ["alpha beta"]
    assert calls == []


def test_a_semantic_weight_of_zero_never_embeds(open_memory: Opener) -> None:
    memory = open_memory(BrokenEmbedder())
    memory.add("alpha beta")
    memory.settings(WORDS_ONLY)
    found = memory.recall("alpha")
    assert contents(found) == ["alpha beta"]
    assert found.degraded == {}


def test_a_query_without_words_to_look_up_is_answered_by_meaning_alone(memory: Memory) -> None:
    memory.add("how do i do it there")
    found = memory.recall("how do I do it?")
    assert contents(found) == ["how do i do it there"]
    assert [given.ranking for given in found[0].contributions] == ["semantic"]
    memory.settings(WORDS_ONLY)
    assert contents(memory.recall("how do I do it?")) == []


# Context


def test_an_answer_is_near_by_the_question_beside_it(memory: Memory) -> None:
    for number in range(12):
        memory.add(f"other matters entirely {number}", session="s")
    memory.add("what is the code for the cellar door", session="s")
    answer = memory.add("4711", session="s")
    for number in range(12):
        memory.add(f"more matters of another kind {number}", session="s")
    found = {hit.episode.id: hit for hit in memory.recall("code for the cellar door", limit=50)}
    (near,) = [given.raw for given in found[answer.id].contributions if given.ranking == "semantic"]
    memory.settings({"semanticWeight": 1, "keywordWeight": 0})
    alone = {hit.episode.id: hit for hit in memory.recall("code for the cellar door", limit=50)}
    (bare,) = [given.raw for given in alone[answer.id].contributions]
    assert near is not None
    assert bare is not None
    assert near > bare + 0.1


def test_a_message_without_neighbours_or_vectors_beside_it_is_compared_alone(open_memory: Opener) -> None:
    memory = open_memory(BrokenEmbedder())
    for number in range(6):
        memory.add(f"apple {number}", session="s")
    memory.close()
    memory = open_memory()
    added = memory.add("apple pie", session="s")
    found = {hit.episode.id: hit for hit in memory.recall("apple pie")}
    assert {given.ranking for given in found[added.id].contributions} == {"keyword", "semantic"}
    assert found[added.id].contributions[1].raw == pytest.approx(1.0, abs=1e-3)
    assert len(found) == 7


# Why not


def test_why_not_names_the_stage_and_the_way_out(memory: Memory) -> None:
    for number in range(80):
        memory.add(f"apple pie number {number} with cream", session=f"s{number}", project="p")
    best, *_, last = memory.recall("apple pie with cream", project="p", limit=80)
    ask = {"project": "p", "limit": 3}
    assert memory.why_not("apple pie with cream", best.episode.id, **ask).stage == "recalled"
    below = memory.why_not("apple pie with cream", last.episode.id, project="p", limit=80, exclude=[])
    assert below.stage == "recalled"
    cut = memory.why_not("apple pie", memory.recall("apple pie", limit=10)[9].episode.id, limit=3)
    assert cut.stage == "cut"
    assert "place 10" in cut.sentence
    assert cut.short_by is not None
    assert memory.why_not("apple", best.episode.id, project="p", exclude=[best.episode.id]).stage == "excluded"


def test_why_not_says_how_far_outside_the_window_an_episode_stands(memory: Memory) -> None:
    memory.settings({"window": 10, "semanticWeight": 0, "keywordWeight": 1})
    for number in range(30):
        memory.add(" ".join(["apple"] * (30 - number)) + f" filler{number}", session=f"s{number}")
    odd = memory.add("nothing of the kind", session="other")
    order = [hit.episode.id for hit in memory.recall("apple", limit=30)]
    outside = memory.why_not("apple", order[20], limit=5)
    assert (outside.stage, outside.keyword_rank) == ("window", 21)
    assert "a window of 21 would reach it" in outside.sentence
    assert memory.why_not("apple", odd.id, limit=5).stage == "terms"
    assert "no word that is in the index" in memory.why_not("zebra", odd.id).sentence


def test_why_not_tells_nothing_of_an_episode_outside_the_scope(memory: Memory) -> None:
    secret = memory.add("apple", session="s", project="mine")
    memory.add("apple", session="s", project="yours")
    there = memory.why_not("apple", secret.id, project="yours")
    nowhere = memory.why_not("apple", 999, project="yours")
    assert there.stage == nowhere.stage == "scope"
    assert there.sentence.replace(str(secret.id), "N") == nowhere.sentence.replace("999", "N")


# Scopes


def test_a_recall_sees_its_session_its_project_the_given_sessions_or_everything(memory: Memory) -> None:
    one = memory.add("apple one", session="s", project="p")
    two = memory.add("apple two", session="t", project="p")
    memory.add("apple three", session="s", project="q")
    memory.add("apple four", session="s")
    assert set(contents(memory.recall("apple", session="s", project="p"))) == {"apple one"}
    assert set(contents(memory.recall("apple", project="p"))) == {"apple one", "apple two"}
    assert set(contents(memory.recall("apple", session="s"))) == {"apple four"}
    assert set(contents(memory.recall("apple", sessions=[one.session_id, two.session_id]))) == {
        "apple one",
        "apple two",
    }
    assert len(memory.recall("apple")) == 4


def test_an_empty_list_of_sessions_sees_nothing(memory: Memory) -> None:
    memory.add("apple")
    assert len(memory.recall("apple", sessions=[])) == 0


def test_a_session_of_another_project_is_not_seen_by_its_id(memory: Memory) -> None:
    memory.add("apple", session="s", project="p")
    foreign = memory.add("apple pie", session="s", project="q")
    assert len(memory.recall("apple", project="p", sessions=[foreign.session_id])) == 0


def test_a_session_can_be_looked_for_by_its_id_within_its_project(memory: Memory) -> None:
    episode = memory.add("apple", session="s", project="p")
    assert memory.show(str(episode.session_id)) == memory.show("s", project="p") == [episode]
    assert memory.show(str(episode.session_id), project="p") == [episode]
    memory.add("pear", session="t", project="q")
    with pytest.raises(NotFound):
        memory.show(str(episode.session_id), project="q")
    named = memory.add("plum", session=str(episode.session_id))
    assert memory.show(str(episode.session_id)) == [named]  # a name comes before an id


def test_many_sessions_in_scope_are_searched_like_few(memory: Memory) -> None:
    ids = [memory.add(f"apple number {n}", session=f"s{n}").session_id for n in range(150)]
    memory.settings(WORDS_ONLY)
    found = memory.recall("apple", sessions=ids[:120], limit=200)
    assert {hit.episode.session_id for hit in found} == set(ids[:120])


@pytest.mark.parametrize("name", ["a-b", 'say "hi"', "o'clock", "100%", "日本語", "*", "scope : #1", "#1 +0"])
def test_names_with_odd_signs_are_names(memory: Memory, name: str) -> None:
    memory.add("apple", session=name, project=name)
    memory.add("apple", session="other", project="other")
    (hit,) = memory.recall("apple", session=name, project=name)
    assert (hit.episode.session, hit.episode.project) == (name, name)
    assert len(memory.recall("apple", project=name)) == 1


def test_text_that_looks_like_a_scope_token_opens_no_other_scope(memory: Memory) -> None:
    secret = memory.add("secret apple", session="mine", project="p")
    memory.add(f"#{secret.session_id} +{secret.session_id} apple", session="yours", project="q")
    assert contents(memory.recall(f"#{secret.session_id} apple", project="q")) == [
        f"#{secret.session_id} +{secret.session_id} apple"
    ]


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_name_means_none(memory: Memory, nothing: str | None) -> None:
    episode = memory.add("apple", session=nothing, project=nothing)
    assert (episode.session, episode.project) == ("default", None)
    assert len(memory.recall("apple", session=nothing, project=nothing)) == 1


def test_a_session_that_is_not_there_is_an_error_that_says_where_there_is_one(memory: Memory) -> None:
    memory.add("apple", session="ops", project="acme")
    with pytest.raises(NotFound, match="there is one in project 'acme': name the project"):
        memory.recall("apple", session="ops")
    with pytest.raises(NotFound, match="no project 'nope'"):
        memory.recall("apple", project="nope")
    with pytest.raises(NotFound, match="no session 'nope' in project 'acme'"):
        memory.show("nope", project="acme")


def test_one_row_in_scope_is_found_behind_a_thousand_nearer_ones(memory: Memory) -> None:
    memory.import_(Message("apple pie recipe", session=f"s{n % 7}") for n in range(1000))
    memory.add("an apple, perhaps, among very many other words", session="mine")
    assert len(memory.recall("apple pie recipe", session="mine")) == 1


def test_recent_episodes_are_left_out_and_older_ones_still_fill_the_answer(memory: Memory) -> None:
    old = [memory.add(f"apple tree in garden {n}").id for n in range(10)]
    recent = [memory.add("apple apple apple").id for _ in range(200)]
    found = memory.recall("apple", exclude=recent, limit=10)
    assert {hit.episode.id for hit in found} == set(old)
    (by_word,) = [given for given in found[0].contributions if given.ranking == "keyword"]
    assert by_word.value == 1.0  # the maximum is that of what is left


# Bad input


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "the text is empty"),
        (" \n\t", "the text is empty"),
        ("x" * 10_000_000, "10,000,000 bytes, the most is 2,097,152; split it"),
        ("half \ud83d", "lone surrogate.* at position 5"),
    ],
)
def test_text_that_cannot_be_kept_is_refused_and_nothing_is_written(memory: Memory, content: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        memory.add(content, session="new", project="new")
    assert memory.sessions() == []
    assert memory.projects() == []


def test_other_bad_input_names_the_value_and_the_way_out(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="role is 'robot'; give one of user, assistant, system, tool"):
        memory.add("x", role="robot")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="has no zone"):
        memory.add("x", time=datetime(2026, 1, 1))
    with pytest.raises(InvalidInput, match="metadata"):
        memory.add("x", metadata={"score": math.nan})
    with pytest.raises(InvalidInput, match="session is"):
        memory.add("x", session="s" * 1000)
    with pytest.raises(InvalidInput, match="the query is empty"):
        memory.recall(" ")
    for limit in (-1, 1001, True, 2.5):
        with pytest.raises(InvalidInput, match="limit is"):
            memory.recall("x", limit=limit)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="nothing to forget was named"):
        memory.forget()
    for ids in ([10**30], ["1"], [1.5], [True]):
        with pytest.raises(InvalidInput, match="give ids, which are whole numbers"):
            memory.recall("x", exclude=ids)  # type: ignore[arg-type]
        with pytest.raises(InvalidInput, match="give ids, which are whole numbers"):
            memory.recall("x", sessions=ids)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="lone surrogate"):
        memory.recall("x", project="\ud800")
    with pytest.raises(InvalidInput, match="has no zone"):
        memory.add("x", time="2026-01-01")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="message 1: 'x' is no message"):
        memory.import_(["x"])  # type: ignore[list-item]
    assert memory.status().episodes == 0


def test_a_limit_of_zero_is_none(memory: Memory) -> None:
    memory.add("apple")
    assert len(memory.recall("apple", limit=0)) == 0


@pytest.mark.parametrize("text", ["before\0after", "\ufffd odd", "\u202ereversed\u202c", "🚀", "e\u0301"])
def test_odd_characters_are_stored_as_they_are(memory: Memory, text: str) -> None:
    episode = memory.add(text)
    assert memory.show(episode=episode.id)[0].content == text


# Times and order


def test_times_are_kept_as_aware_utc(memory: Memory) -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    episode = memory.add("apple", time=datetime(2026, 3, 14, 9, 26, 53, 589793, tzinfo=zone))
    assert episode.time == datetime(2026, 3, 14, 3, 56, 53, 589793, tzinfo=UTC)
    assert episode.time.tzinfo == UTC
    far = memory.add("pear", time=datetime(1601, 1, 1, tzinfo=UTC))
    assert far.time.year == 1601


def test_messages_without_a_time_keep_their_place(memory: Memory) -> None:
    time = datetime(2026, 1, 1, tzinfo=UTC)
    texts = ["first", "second", "third", "fourth"]
    memory.import_(Message(text, session="s", time=time if text == "third" else None, source=text) for text in texts)
    shown = memory.show("s")
    assert [episode.content for episode in shown] == texts
    assert {episode.time for episode in shown} == {time}


def test_a_conversation_that_came_out_of_order_is_shown_in_order(memory: Memory) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for minute in (5, 1, 3, 2, 4):
        memory.add(f"minute {minute}", session="s", time=start + timedelta(minutes=minute))
    assert [episode.content for episode in memory.show("s")] == [f"minute {n}" for n in range(1, 6)]


# Import


def test_a_second_import_adds_only_what_is_new(memory: Memory) -> None:
    messages = [Message(f"message {n}", session=f"s{n % 3}", source=f"src/{n}") for n in range(20)]
    first = memory.import_(messages)
    again = memory.import_([*messages, Message("one more", session="s0", source="src/20")])
    assert (first.added, first.duplicates, first.sessions) == (20, 0, 3)
    assert (again.added, again.duplicates) == (1, 20)
    assert memory.status().episodes == 21


def test_an_import_with_a_bad_message_names_its_place_and_keeps_the_batches_before(memory: Memory) -> None:
    messages = [Message(f"message {n}", source=str(n)) for n in range(600)]
    with pytest.raises(InvalidInput, match="message 601: the text is empty"):
        memory.import_([*messages, Message("")])
    assert memory.status().episodes == 512  # whole batches


def test_an_import_reports_its_progress(memory: Memory) -> None:
    seen: list[int] = []
    memory.import_((Message(f"m {n}") for n in range(1100)), progress=seen.append)
    assert seen == [512, 1024, 1100]


# Edit and forget


def test_an_edit_takes_the_old_words_and_the_old_vector(memory: Memory) -> None:
    episode = memory.add("the word is marmalade")
    memory.edit(episode.id, "the word is vinegar")
    memory.settings(WORDS_ONLY)
    assert contents(memory.recall("marmalade")) == []
    assert contents(memory.recall("vinegar")) == ["the word is vinegar"]
    memory.settings({"semanticWeight": 1, "keywordWeight": 0})
    (hit,) = memory.recall("the word is vinegar")
    assert hit.contributions[0].raw == pytest.approx(1.0, abs=1e-3)


def test_a_new_episode_never_matches_the_words_of_a_dead_one(memory: Memory) -> None:
    dead = memory.add("marmalade")
    memory.forget(episode=dead.id)
    born = memory.add("vinegar")
    assert born.id > dead.id
    memory.settings(WORDS_ONLY)
    assert contents(memory.recall("marmalade")) == []


def test_neighbours_of_a_forgotten_episode_lose_its_words(memory: Memory) -> None:
    memory.add("apple", session="s")
    middle = memory.add("marmalade", session="s")
    memory.add("pear", session="s")
    memory.settings(WORDS_ONLY)
    assert len(memory.recall("marmalade")) == 3
    memory.forget(episode=middle.id)
    assert contents(memory.recall("marmalade")) == []
    assert set(contents(memory.recall("pear"))) == {"apple", "pear"}


def test_forgetting_a_session_or_a_project_takes_all_of_it_and_nothing_else(memory: Memory) -> None:
    for session, project in (("s", "p"), ("t", "p"), ("s", "q"), ("s", None)):
        memory.add(f"apple {session} {project}", session=session, project=project)
    assert memory.forget(session="s", project="p") == 1
    assert memory.forget(project="q") == 1
    assert set(contents(memory.recall("apple"))) == {"apple t p", "apple s None"}
    assert [project.name for project in memory.projects()] == ["p"]
    assert memory.doctor().is_healthy


def test_a_purge_leaves_no_trace_in_the_file(memory: Memory, tmp_path: Path) -> None:
    for number in range(40):
        memory.add(f"note {number}", session="keep")
    memory.add("zanzibarquokka", session="gone", metadata={"x": "zanzibarquokka"})
    memory.forget(session="gone", purge=True)
    memory.close()
    files = [path.read_bytes() for path in tmp_path.glob("memories.db*")]
    assert files
    assert not any(b"zanzibarquokka" in data for data in files)


def test_forgetting_what_is_not_there_is_an_error(memory: Memory) -> None:
    with pytest.raises(NotFound, match="no episode 7"):
        memory.forget(episode=7)
    with pytest.raises(NotFound, match="no episode 7"):
        memory.edit(7, "x")


# Degradation and models


def test_an_embedder_that_fails_leaves_words_and_says_so(open_memory: Opener) -> None:
    memory = open_memory(BrokenEmbedder())
    memory.add("apple pie")
    found = memory.recall("apple")
    assert contents(found) == ["apple pie"]
    assert found.degraded == {"semantic": "the embedder is broken"}
    assert memory.status().waiting == 1
    with pytest.raises(EmbedderError, match="broken"):
        memory.embed_missing()
    memory.close()
    mended = open_memory()
    assert mended.embed_missing() == 1
    assert mended.status().waiting == 0
    assert {given.ranking for given in mended.recall("apple")[0].contributions} == {"keyword", "semantic"}


def test_without_an_embedder_words_still_work(open_memory: Opener) -> None:
    memory = open_memory(None)
    memory.add("apple pie")
    found = memory.recall("apple")
    assert contents(found) == ["apple pie"]
    assert "without an embedder" in found.degraded["semantic"]


def test_vectors_that_are_no_vectors_are_not_stored_and_nothing_becomes_nan(open_memory: Opener) -> None:
    memory = open_memory(NotANumberEmbedder())
    memory.add("apple pie")
    found = memory.recall("apple")
    assert contents(found) == ["apple pie"]
    assert math.isfinite(found[0].score)
    assert "no usable vector" in found.degraded["semantic"]
    assert memory.status().waiting == 1
    assert memory.embed_missing() == 0  # ends, though nothing could be made


class OtherSizeEmbedder(HashEmbedder):
    """Answers with vectors of half the size that it promises, as a server may after a change of model."""

    def embed_query(self, text: str) -> NDArray[np.float32]:
        return super().embed_query(text)[:32]

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [pieces[:, :32] for pieces in super().embed_documents(texts)]


def test_vectors_of_another_size_than_promised_are_never_written(open_memory: Opener) -> None:
    open_memory().add("apple pie")
    memory = open_memory(OtherSizeEmbedder())
    memory.add("pear tart", session="other")
    found = memory.recall("apple")
    assert contents(found) == ["apple pie"]
    assert "no usable vector" in found.degraded["semantic"]
    assert memory.status().waiting == 1
    with pytest.raises(EmbedderError, match="not of 64 dimensions; none was stored"):
        memory.embed_missing()
    assert len(open_memory().recall("apple", limit=5)) == 1


@pytest.mark.parametrize("other", [HashEmbedder(32), HashEmbedder(64, "another")])
def test_vectors_of_another_model_are_never_compared_but_made_anew(open_memory: Opener, other: HashEmbedder) -> None:
    first = open_memory()
    first.add("apple pie")
    first.close()
    second = open_memory(other)
    second.add("pear tart", session="another")
    found = second.recall("apple")
    assert contents(found) == ["apple pie"]
    assert "made by hash (64 dimensions)" in found.degraded["semantic"]
    assert second.status().waiting == 2
    assert second.embed_missing() == 2
    assert second.recall("apple").degraded == {}
    second.close()
    third = open_memory()
    assert "twofold embed" in third.recall("apple").degraded["semantic"]


def test_the_end_of_a_long_message_is_found_by_meaning(memory: Memory) -> None:
    memory.add("filler " * 5000 + "the treasure lies under the lighthouse")
    memory.add("unrelated words about other matters")
    memory.settings({"semanticWeight": 1, "keywordWeight": 0})
    found = memory.recall("treasure lighthouse")
    assert found[0].episode.content.endswith("lighthouse")
    assert found[0].contributions[0].raw is not None
    assert found[0].contributions[0].raw > 0.2


# The door itself


def test_the_same_store_and_query_give_the_same_answer_through_every_door(open_memory: Opener) -> None:
    writer = open_memory()
    for number in range(60):
        writer.add(f"apple {number % 5} pie {number % 3}", session=f"s{number % 4}")
    reader = open_memory()
    query = "apple pie 3 recipe"
    answers = [
        [(hit.episode.id, hit.score) for hit in memory.recall(query, limit=50)] for memory in (writer, reader, writer)
    ]
    assert answers[0] == answers[1] == answers[2]


def test_a_closed_memory_says_so(memory: Memory) -> None:
    memory.close()
    with pytest.raises(StoreError, match="was closed"):
        memory.recall("x")


def test_every_error_of_ours_is_a_twofold_error() -> None:
    assert issubclass(InvalidInput, (TwofoldError, ValueError))
    assert issubclass(NotFound, (TwofoldError, LookupError))


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("metadata", {"a": "\ud800"}, "metadata cannot be kept as JSON"),
        ("metadata", {"\ud800": 1}, "metadata cannot be kept as JSON"),
        ("metadata", {"a": float("nan")}, "metadata cannot be kept as JSON"),
        ("metadata", {"a": eval("[" * 80 + "]" * 80)}, "nested more than 64 deep"),
        ("time", datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-5))), "outside the years 1 to 9999"),
    ],
)
def test_what_could_not_be_given_back_is_not_stored(memory: Memory, field: str, value: object, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        memory.add("x", **{field: value})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=f"message 1: .*{told}"):
        memory.import_([Message("x", **{field: value})])  # type: ignore[arg-type]
    assert memory.status().episodes == 0


def test_what_was_said_when_the_query_says_comes_first(memory: Memory) -> None:
    for day in range(1, 29):
        time = datetime(2023, 7, day, 12, tzinfo=UTC)
        memory.add("We talked about the garden and the roof.", session=f"s{day}", project="p", time=time)
    for query, wanted in (("what about the garden on 9 July 2023", 9), ("the roof on 2023-07-21", 21)):
        found = memory.recall(query, project="p", explain=True)
        assert found[0].episode.time.day == wanted
        given = {one.ranking: one for one in found[0].contributions}
        assert (given["time"].raw, given["time"].contribution) == (1.0, given["time"].weight)
        assert math.fsum(one.contribution for one in found[0].contributions) == found[0].score
        assert found.explanation is not None
        assert [start.day for start, _ in found.explanation.times] == [wanted]
    assert "time" not in {one.ranking for hit in memory.recall("the garden") for one in hit.contributions}
    nothing_then = memory.recall("the garden in 1999", project="p")
    assert "time" not in {one.ranking for hit in nothing_then for one in hit.contributions}
    memory.settings({"keywordWeight": 1, "semanticWeight": 1})
    fixed = memory.recall("what about the garden on 9 July 2023", project="p")
    assert {one.ranking for hit in fixed for one in hit.contributions} == {"keyword", "semantic"}


def test_yesterday_is_read_in_the_zone_of_who_asks(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory._recaller._clock = lambda: datetime(2026, 3, 10, 2, tzinfo=UTC)  # the clock is the machine's edge
    explained = memory.recall("what did we do yesterday", zone="America/New_York", explain=True).explanation
    assert explained is not None
    assert [start.astimezone(UTC) for start, _ in explained.times] == [
        datetime(2026, 3, 8, 5, tzinfo=UTC)
    ]  # the day summer time began
    with pytest.raises(InvalidInput, match="zone is 'Mars/Olympus'"):
        memory.recall("yesterday", zone="Mars/Olympus")
