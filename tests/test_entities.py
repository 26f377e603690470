"""What a person can rely on about entities: their homes, names, mentions, and how they are found."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.conftest import Opener
from twofold import Memory, Message, entityindex, mentions
from twofold.embed.hashing import HashEmbedder
from twofold.embed.minilm import MiniLM
from twofold.errors import Conflict, EmbedderError, InvalidInput, NotAllowed, NotFound
from twofold.mentions import words
from twofold.text import fold, index_terms, stands_in
from twofold.types import EntityRecall, Episode, Scope


class Failing(HashEmbedder):
    """Fails while `broken`."""

    broken = True

    def embed_query(self, text: str) -> NDArray[np.float32]:
        if self.broken:
            raise EmbedderError("the embedder is broken")
        return super().embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        if self.broken:
            raise EmbedderError("the embedder is broken")
        return super().embed_documents(texts)


class Interrupted(HashEmbedder):
    """Lets somebody else do something while it embeds."""

    meanwhile: Callable[[], object] | None = None

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile:
            meanwhile()
        return super().embed_documents(texts)


class Useless(HashEmbedder):
    """Gives NaN for texts of one kind and zeros for the others."""

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        return [np.full((1, 64), np.nan if "nan" in text.lower() else 0.0, dtype=np.float32) for text in texts]


def names(found: EntityRecall) -> list[str]:
    return [hit.entity.name for hit in found.hits]


def mentioned(memory: Memory, entity: int) -> list[int]:
    return [episode.id for episode in memory.entities.episodes(entity).items]


def count(memory: Memory, table: str) -> int:
    with memory._store.read() as db:
        number: int = db.execute(f"SELECT count(*) FROM {table}").get
        return number


def changes(memory: Memory) -> int:
    with memory._store.read() as db:
        number: int = db.execute("SELECT value FROM counters WHERE name = 'entities_changed'").get
        return number


# Names and texts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Zoë Brandt", "then ZOE  BRANDT called"),
        ("zoe brandt", "Zoe\u0308 Brandt"),
        ("O'Neill", "O’Neill's boat"),
        ("北京", "我们什么时候去北京看长城"),
        ("テスト", "単体ﾃｽﾄを書く"),
        ("กรุงเทพ", "ไปกรุงเทพกัน"),
        ("Anna", "問題はAnnaが解いた"),
        ("C++", "we wrote it in C++, mostly"),
        ("acme/web", "see acme/web/api"),
        ("🚀", "ship it 🚀!"),
        ("user_id", "the USER_ID column"),
    ],
)
def test_a_name_is_mentioned_where_it_stands_as_words_of_its_own(memory: Memory, name: str, text: str) -> None:
    before = memory.add(text)
    entity = memory.entities.add(name, "thing")
    after = memory.add(text)
    assert mentioned(memory, entity.id) == [before.id, after.id]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Ann", "the Annex, planning, Hann"),
        ("Zoe Brandt", "Brandt, Zoe"),
        ("C", "we wrote it in C++ and C#"),
        ("राम", "रामायण"),
        ("か", "が"),
        ("GitHub", "a git hub"),
        ("The Who", "the who is who of rock"),
    ],
)
def test_a_name_is_not_mentioned_inside_other_words_nor_one_of_stop_words_alone(
    memory: Memory, name: str, text: str
) -> None:
    memory.add(text)
    entity = memory.entities.add(name, "thing")
    memory.add(text)
    assert mentioned(memory, entity.id) == []


def test_a_vowel_sign_belongs_to_the_letter_before_it() -> None:
    assert stands_in("राम", "जय राम!")
    assert not stands_in("राम", "रामा")
    assert stands_in("john", "ที่john")
    assert not stands_in("ท", "ที่")


_SIGNS = st.sampled_from(list("aAbBCéß京都大茶กรุงิ่ด0９ _-./'’+#:\u200b\u0301\u3099がｶﾞ🚀İſﬁअाम한"))
_TEXTS = st.text(_SIGNS, max_size=10) | st.text(max_size=6)


@given(_TEXTS)
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(_TEXTS, _TEXTS, _TEXTS)
def test_a_text_in_which_a_name_stands_has_every_word_of_it_as_a_term(before: str, name: str, after: str) -> None:
    text = before + name + after
    if stands_in(fold(name), fold(text)):
        assert set(words(fold(name))) <= set(index_terms(text))


@given(_TEXTS)
def test_a_name_between_blanks_stands_in_the_text(name: str) -> None:
    folded = fold(name)
    assume(folded and not unicodedata.category(folded[0]).startswith("M"))
    assert stands_in(folded, fold(f"x {name} y"))


# Keeping


def test_an_entity_is_kept_as_it_was_given_in_single_blanks(memory: Memory) -> None:
    added = memory.entities.add(
        "  Mara   Lindqvist ",
        " Person ",
        description=" a doctor\n",
        aliases=["Mara", "MARA", "Dr. L", "mara lindqvist"],
    )
    assert (added.name, added.type, added.description) == ("Mara Lindqvist", "person", "a doctor")
    assert added.aliases == ("Mara", "Dr. L")
    assert memory.entities.get(added.id) == added


@pytest.mark.parametrize(
    ("given_", "said"),
    [
        ({"name": " "}, "name is ' '"),
        ({"name": "\u200b"}, "name is"),
        ({"name": "x" * 201}, "1 to 200 characters"),
        ({"name": "half \ud800"}, "surrogate"),
        ({"name": 7}, "name is '7'"),
        ({"type": "two words"}, "type is 'two words'"),
        ({"type": ""}, "type is ''"),
        ({"type": "t" * 41}, "then up to 39"),
        ({"description": "x" * 2001}, "description has 2,001 characters; give a text of at most 2,000"),
        ({"description": None}, "description is 'None'"),
        ({"aliases": "Mara"}, "give a list of names"),
        ({"aliases": ["ok", ""]}, "an alias is ''"),
        ({"aliases": [f"a{n}" for n in range(21)]}, "aliases holds 21 names, the most is 20"),
        ({"project": "x" * 513}, "project is"),
        ({"session": "12"}, "session holds '12'"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_the_way_out_and_nothing_is_written(
    memory: Memory, given_: dict[str, object], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        memory.entities.add(**{"name": "Mara", "type": "person", "project": "acme"} | given_)  # type: ignore[arg-type]
    assert count(memory, "entities") == count(memory, "projects") == 0


def test_the_longest_values_are_taken(memory: Memory) -> None:
    added = memory.entities.add(
        "n" * 200, "t" * 40, description="d" * 2000, aliases=[f"{number:0200}" for number in range(20)]
    )
    assert len(added.aliases) == 20


def test_a_home_is_a_project_or_a_session_without_one_or_neither(memory: Memory) -> None:
    in_project = memory.add("hello", session="s", project="acme").session_id
    alone = memory.add("hello", session="s").session_id
    by_project = memory.entities.add("A", "thing", project="new")
    by_session = memory.entities.add("B", "thing", session=in_project)
    of_session = memory.entities.add("C", "thing", session=alone)
    of_none = memory.entities.add("D", "thing")
    homes = [(e.project, e.session_id) for e in (by_project, by_session, of_session, of_none)]
    assert homes == [("new", None), ("acme", None), (None, alone), (None, None)]
    assert memory.entities.add("E", "thing", project="acme", session=in_project).project == "acme"


@pytest.mark.parametrize("has_project", [True, False])
def test_a_session_and_a_project_that_do_not_agree_are_refused(memory: Memory, has_project: bool) -> None:
    session = memory.add("hello", project="acme" if has_project else None).session_id
    with pytest.raises(InvalidInput, match="name one of the two"):
        memory.entities.add("A", "thing", project="other", session=session)
    assert [project.name for project in memory.projects()] == (["acme"] if has_project else [])


def test_a_name_that_a_home_has_for_that_type_is_a_conflict_that_names_the_entity(memory: Memory) -> None:
    first = memory.entities.add("Zoë", "person", aliases=["Zee"], project="acme")
    for taken in ("zoe", "ZEE"):
        with pytest.raises(Conflict, match=rf"entity {first.id}; change that one or merge"):
            memory.entities.add("New", "person", aliases=[taken], project="acme")
    assert memory.entities.add("Zoe", "place", project="acme").id
    assert memory.entities.add("Zoe", "person", project="other").id
    assert memory.entities.add("Zoe", "person").id
    second = memory.entities.add("Yan", "person", project="acme")
    with pytest.raises(Conflict):
        memory.entities.change(second.id, name="Zee")
    assert memory.entities.change(first.id, name="ZOË", aliases=["zoe", "Zed"]).aliases == ("Zed",)


def test_a_change_leaves_what_is_not_named(memory: Memory) -> None:
    added = memory.entities.add("Mara", "person", description="a doctor", aliases=["M"])
    changed = memory.entities.change(added.id, type="friend")
    assert (changed.name, changed.type, changed.description, changed.aliases) == ("Mara", "friend", "a doctor", ("M",))
    assert memory.entities.change(added.id, description="", aliases=[]).aliases == ()
    with pytest.raises(InvalidInput):
        memory.entities.change(added.id, name="")
    with pytest.raises(NotFound, match="there is no entity 99"):
        memory.entities.change(99, name="x")


def test_a_merge_joins_names_mentions_and_descriptions(memory: Memory) -> None:
    one = memory.entities.add("Mara", "person", description="a doctor", aliases=["M. L."], project="acme")
    other = memory.entities.add("Dr. Lindqvist", "contact", description="lives in Uppsala", project="acme")
    first = memory.add("Dr. Lindqvist wrote", session="a", project="acme")
    second = memory.add("M. L. answered", session="b", project="acme")
    merged = memory.entities.merge(other.id, one.id)
    assert (merged.id, merged.name, merged.type) == (one.id, "Mara", "person")
    assert merged.aliases == ("M. L.", "Dr. Lindqvist")
    assert merged.description == "a doctor; lives in Uppsala"
    assert mentioned(memory, one.id) == [first.id, second.id]
    assert names(memory.entities.search("uppsala", project="acme")) == ["Mara"]
    assert [count(memory, t) for t in ("entities", "entity_names", "entity_vectors", "mentions")] == [1, 3, 1, 2]
    with pytest.raises(NotFound):
        memory.entities.get(other.id)


def test_a_merge_says_nothing_twice_and_keeps_to_the_limits(memory: Memory) -> None:
    def merge(one: str, other: str, aliases: int = 0) -> str:
        number = count(memory, "entities")
        into = memory.entities.add(f"I{number}", "thing", description=one).id
        more = [f"{number} alias {place}" for place in range(aliases)]
        gone = memory.entities.add(f"G{number}", "thing", description=other, aliases=more).id
        return memory.entities.merge(gone, into).description

    assert merge("", "red") == merge("red", "") == "red"
    assert merge("It is RED.", "it is red") == "It is RED."
    assert merge("a" * 1500, "b" * 1500) == "a" * 1500
    before = count(memory, "entities")
    with pytest.raises(InvalidInput, match="21 names, the most is 20"):
        merge("", "", aliases=20)
    assert count(memory, "entities") == before + 2


def test_only_entities_of_one_home_merge(memory: Memory) -> None:
    one = memory.entities.add("A", "thing", project="acme")
    other = memory.entities.add("B", "thing", project="other")
    with pytest.raises(InvalidInput, match="merge two of one project or session"):
        memory.entities.merge(other.id, one.id)
    with pytest.raises(InvalidInput, match="into itself"):
        memory.entities.merge(one.id, one.id)
    third = memory.entities.add("B", "person", project="acme")
    fourth = memory.entities.add("C", "person", aliases=["A"], project="acme")
    fifth = memory.entities.add("D", "thing", aliases=["C"], project="acme")
    with pytest.raises(Conflict, match=rf"entity {fifth.id};"):
        memory.entities.merge(fourth.id, one.id)
    assert {e.id for e in memory.entities.page(project="acme").items} == {one.id, third.id, fourth.id, fifth.id}


# Mentions


def test_a_project_links_what_its_sessions_say_and_nobody_elses(memory: Memory) -> None:
    inside = memory.add("Harbor is late", session="a", project="acme")
    memory.add("Harbor is late", session="a", project="other")
    memory.add("Harbor is late", session="a")
    entity = memory.entities.add("Harbor", "project", project="acme")
    later = memory.add("harbor again", session="b", project="acme")
    memory.add("harbor again", session="b", project="other")
    assert mentioned(memory, entity.id) == [inside.id, later.id]
    assert memory.entities.get(entity.id).mentions == 2


def test_a_session_without_project_links_its_own_and_those_of_nobody(memory: Memory) -> None:
    first = memory.add("Biscuit barked", session="a")
    second = memory.add("Biscuit barked", session="b")
    memory.add("Biscuit barked", session="a", project="acme")
    own = memory.entities.add("Biscuit", "pet", session=first.session_id)
    everybodys = memory.entities.add("Biscuit", "pet")
    third = memory.add("Biscuit slept", session="a")
    memory.add("Biscuit slept", session="c", project="acme")
    assert mentioned(memory, own.id) == [first.id, third.id]
    assert mentioned(memory, everybodys.id) == [first.id, second.id, third.id]


def test_other_names_link_other_episodes(memory: Memory) -> None:
    old, new, alias = (memory.add(f"about {name}") for name in ("Falcon", "Kestrel", "Windhover"))
    entity = memory.entities.add("Falcon", "project")
    assert mentioned(memory, entity.id) == [old.id]
    memory.entities.change(entity.id, name="Kestrel", aliases=["Windhover"])
    assert mentioned(memory, entity.id) == [new.id, alias.id]
    memory.entities.change(entity.id, aliases=[])
    assert mentioned(memory, entity.id) == [new.id]


def test_an_edit_changes_what_an_episode_mentions(memory: Memory) -> None:
    entity = memory.entities.add("Kestrel", "project")
    episode = memory.add("Kestrel ships")
    memory.edit(episode.id, "nothing ships")
    assert mentioned(memory, entity.id) == []
    memory.edit(episode.id, "kestrel ships after all")
    assert mentioned(memory, entity.id) == [episode.id]


def test_an_import_links_as_adding_does(memory: Memory) -> None:
    entity = memory.entities.add("Kestrel", "project", project="acme")
    other = memory.entities.add("Kestrel", "project", project="other")
    projects = (None, "acme", "other", "acme")
    memory.import_(Message(f"note {n} {'Kestrel' if n % 3 == 0 else ''}", project=projects[n % 4]) for n in range(600))
    assert memory.entities.get(entity.id).mentions == 100
    assert memory.entities.get(other.id).mentions == 50
    assert {episode.project for episode in memory.entities.episodes(entity.id).items} == {"acme"}


_WORDS = st.sampled_from(["Kestrel", "Harbor Café", "harbor", "café", "北京", "去北京", "Kestrels", "x"])
_CHANGES = st.lists(st.tuples(st.sampled_from(["add", "edit", "rename", "new", "forget"]), _WORDS, _WORDS), max_size=12)


@given(_CHANGES)
def test_after_any_history_the_mentions_are_what_the_texts_say(changes: list[tuple[str, str, str]]) -> None:
    with Memory.open(":memory:", embedder=None) as memory:
        for kind, one, other in changes:
            episodes = memory.show("default") if count(memory, "episodes") else []
            entities = memory.entities.page().items
            if kind == "edit" and episodes:
                memory.edit(episodes[0].id, f"{one} {other}")
            elif kind == "forget" and episodes:
                memory.forget(episode=episodes[-1].id)
            elif kind == "rename" and entities:
                memory.entities.change(entities[0].id, type=f"t{len(episodes)}-{entities[0].id}", name=other)
            elif kind == "new":
                memory.entities.add(one, f"n{len(entities)}", aliases=[other])
            else:
                memory.add(f"{one}, {other}")
        texts = {e.id: e.content for e in (memory.show("default") if count(memory, "episodes") else [])}
        for entity in memory.entities.page().items:
            known = [fold(name) for name in (entity.name, *entity.aliases)]
            said = {id_ for id_, text in texts.items() if any(stands_in(name, fold(text)) for name in known)}
            assert set(mentioned(memory, entity.id)) == said


def test_the_episodes_that_mention_an_entity_come_by_time_in_pages(memory: Memory) -> None:
    entity = memory.entities.add("Kestrel", "project")
    start = datetime(2031, 5, 4, tzinfo=timezone.utc)
    added = [memory.add(f"Kestrel {n}", time=start + timedelta(hours=(n * 3) % 7)) for n in range(7)]
    found: list[Episode] = []
    after = None
    while True:
        page = memory.entities.episodes(entity.id, after=after, limit=3)
        found += page.items
        if (after := page.next) is None:
            break
    assert found == sorted(added, key=lambda episode: episode.time)
    with pytest.raises(InvalidInput, match="limit is 0"):
        memory.entities.episodes(entity.id, limit=0)
    with pytest.raises(InvalidInput, match="no page of this list"):
        memory.entities.episodes(entity.id, after="?")


def test_texts_are_not_read_closely_unless_a_name_may_stand_in_them(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an episode costs does not grow with the number of entities that it does not name."""
    read: list[str] = []

    def noted(text: str) -> list[str]:
        read.append("terms")
        return index_terms(text)

    def compared(name: str, text: str) -> bool:
        read.append(name)
        return stands_in(name, text)

    monkeypatch.setattr(mentions, "index_terms", noted)
    monkeypatch.setattr(mentions, "stands_in", compared)
    memory.add("Kestrel ships", project="acme")
    assert read == []
    for number in range(50):
        memory.entities.add(f"Bird{number}x of prey", "thing", project="acme")
    memory.entities.add("Kestrel", "thing", project="other")
    read.clear()
    memory.add("Kestrel ships", session="no project")
    assert read == []
    memory.add("Bird7x, a bird, Kestrel", project="acme")
    assert read == ["terms", "bird7x of prey"]


# Going


def test_what_is_forgotten_takes_its_mentions_along_and_a_project_its_entities(memory: Memory) -> None:
    memory.entities.add("Kestrel", "thing", aliases=["Windhover"], project="acme")
    first = memory.add("Kestrel", session="a", project="acme")
    memory.add("Kestrel", session="b", project="acme")
    other = memory.entities.add("Kestrel", "thing", session=memory.add("Kestrel", session="c").session_id)
    everybodys = memory.entities.add("Kestrel", "thing")
    assert count(memory, "mentions") == 4
    memory.forget(episode=first.id)
    assert count(memory, "mentions") == 3
    memory.forget(session="b", project="acme")
    assert count(memory, "mentions") == 2
    assert len(memory.entities.page(project="acme").items) == 1
    before = changes(memory)
    memory.forget(project="acme")
    assert changes(memory) > before
    assert [count(memory, table) for table in ("entities", "entity_names", "entity_vectors")] == [2, 2, 2]
    before = changes(memory)
    memory.forget(session="c")
    assert changes(memory) > before
    with pytest.raises(NotFound):
        memory.entities.get(other.id)
    assert [entity.id for entity in memory.entities.page().items] == [everybodys.id]
    memory.entities.forget(everybodys.id)
    tables = ("entities", "entity_names", "entity_vectors", "mentions")
    assert [count(memory, table) for table in tables] == [0] * 4
    assert memory.entities.search("Kestrel").hits == ()


def test_a_forgotten_entity_leaves_the_episodes(memory: Memory) -> None:
    entity = memory.entities.add("Kestrel", "thing")
    memory.add("Kestrel")
    memory.entities.forget(entity.id)
    assert len(memory.show("default")) == 1
    with pytest.raises(NotFound, match=f"there is no entity {entity.id}; entities lists the ids"):
        memory.entities.forget(entity.id)


# Scopes


def test_a_door_on_one_project_sees_nothing_of_another_by_any_way(memory: Memory) -> None:
    theirs = memory.entities.add("Harbor", "project", description="secret billing", project="theirs").id
    nobodys = memory.entities.add("Harbor", "project", description="secret billing").id
    session = memory.add("Harbor", project="theirs").session_id
    mine = memory.entities.add("Harbor", "project", description="a quiet place", project="mine").id
    memory.add("Harbor", project="mine")
    door = memory.within(memory.catalog.projects().items[0].id)
    ways: list[Callable[[int], object]] = [
        door.entities.get,
        door.entities.forget,
        door.entities.episodes,
        lambda id_: door.entities.change(id_, name="x"),
        lambda id_: door.entities.merge(id_, mine),
        lambda id_: door.entities.merge(mine, id_),
    ]
    for outside in (theirs, nobodys):
        for way in ways:
            with pytest.raises(NotFound, match=f"there is no entity {outside};"):
                way(outside)
    assert [e.id for e in door.entities.page().items] == [mine]
    assert [hit.entity.id for hit in door.entities.search("harbor secret billing").hits] == [mine]
    assert door.entities.search("harbor", sessions=[session]).hits == ()
    for way in (lambda: door.entities.page(session=session), lambda: door.entities.add("x", "y", session=session)):
        with pytest.raises(NotFound):
            way()
    for named in (
        lambda: door.entities.page(project="theirs"),
        lambda: door.entities.search("harbor", project="theirs"),
        lambda: door.entities.add("x", "y", project="theirs"),
    ):
        with pytest.raises(NotFound):
            named()
    assert door.entities.add("Pier", "place").project == "mine"
    with pytest.raises(NotAllowed):
        door.entities.embed_missing()
    with memory._store.read() as db:
        for scope in (Scope("all"), Scope("project", (1,)), Scope("sessions", (session,))):
            hits = door.entities.find(db, "harbor secret billing", None, scope, 10)
            assert {hit.entity.project for hit in hits} <= {"mine"}
    assert memory.entities.get(theirs).name == memory.entities.get(nobodys).name == "Harbor"


def test_a_scope_sees_its_own_entities_in_search_and_in_pages(memory: Memory) -> None:
    memory.add("Harbor and Pier", session="a", project="acme")
    memory.add("Pier only", session="b", project="acme")
    memory.add("Harbor", session="c", project="other")
    memory.add("hello", session="d")
    memory.add("hello", session="e")
    ids = {session.name: session.id for session in memory.catalog.sessions().items}
    for name in ("Harbor", "Pier", "Quay"):
        memory.entities.add(f"{name}", "place", description="acme", project="acme")
    memory.entities.add("Harbor", "place", description="other", project="other")
    memory.entities.add("Harbor", "place", description="own", session=ids["d"])
    memory.entities.add("Harbor", "place", description="nobody")

    def sees(**scope: object) -> set[tuple[str, str]]:
        found = memory.entities.search("harbor pier quay", limit=50, **scope)  # type: ignore[arg-type]
        return {(hit.entity.name, hit.entity.description) for hit in found.hits}

    acme = {("Harbor", "acme"), ("Pier", "acme"), ("Quay", "acme")}
    assert sees() == acme | {("Harbor", "other"), ("Harbor", "own"), ("Harbor", "nobody")}
    assert sees(project="acme") == acme
    assert sees(session="a", project="acme") == acme - {("Quay", "acme")}
    assert sees(sessions=[ids["b"], ids["c"]]) == {("Pier", "acme"), ("Harbor", "other")}
    assert sees(session="d") == {("Harbor", "own"), ("Harbor", "nobody")}
    assert sees(session="e") == {("Harbor", "nobody")}
    assert sees(sessions=[]) == sees(sessions=[999]) == set()
    for name in "abde":
        page = memory.entities.page(session=ids[name]).items
        assert {(e.name, e.description) for e in page} == sees(sessions=[ids[name]])
    assert {(e.name, e.description) for e in memory.entities.page(project="acme").items} == acme
    assert memory.entities.page(project="other", session=ids["a"]).items == ()


def test_pages_come_by_name_and_of_one_type(memory: Memory) -> None:
    for name, type_ in (
        ("émile", "person"),
        ("Dora", "person"),
        ("Zug", "place"),
        ("Emile", "place"),
        ("anna", "person"),
    ):
        memory.entities.add(name, type_)
    found = []
    after = None
    while True:
        page = memory.entities.page(after=after, limit=2)
        found += [entity.name for entity in page.items]
        if (after := page.next) is None:
            break
    assert found == ["anna", "Dora", "émile", "Emile", "Zug"]
    assert [entity.name for entity in memory.entities.page(type="Place").items] == ["Emile", "Zug"]
    with pytest.raises(InvalidInput, match="type is '!'"):
        memory.entities.page(type="!")
    with pytest.raises(NotFound):
        memory.entities.page(session=99)


# Search


def test_who_is_named_comes_first_and_the_better_named_before_the_others(open_memory: Opener) -> None:
    memory = open_memory(embedder=None)
    for name in ("Anna Keller", "Anna Meier", "Plan A", "Plan B", "Otto", "The Who"):
        memory.entities.add(name, "thing")
    found = memory.entities.search("did Anna Keller call?")
    assert (found.hits[0].entity.name, found.hits[0].score) == ("Anna Keller", 1.0)
    assert names(found) == ["Anna Keller", "Anna Meier"]
    assert names(memory.entities.search("plan b"))[0] == "Plan B"
    assert names(memory.entities.search("the WHO")) == ["The Who"]
    assert names(memory.entities.search("who is it")) == []
    assert names(memory.entities.search("Anna", limit=1)) == ["Anna Keller"]
    assert found.degraded == {"semantic": "this memory was opened without an embedder"}


@pytest.mark.parametrize(
    ("query", "name"), [("fraulein mobius", "Fräulein Möbius"), ("万里长城", "长城"), ("Dr. M", "Fräulein Möbius")]
)
def test_names_are_found_in_any_spelling_script_and_by_alias(memory: Memory, query: str, name: str) -> None:
    memory.entities.add("Fräulein Möbius", "person", aliases=["Dr. M"])
    memory.entities.add("长城", "place")
    memory.entities.add("Rapunzel", "person")
    assert names(memory.entities.search(query))[0] == name


def test_meaning_finds_what_is_not_named_and_noise_finds_nothing(open_memory: Opener) -> None:
    memory = open_memory(embedder=MiniLM(threads=1))
    memory.entities.add("Biscuit", "pet", description="three-year-old beagle who hates thunderstorms")
    memory.entities.add("Harbor", "project", description="the migration of billing from the old ledger to Stripe")
    memory.entities.add("Dr. Okafor", "person", description="dentist, appointments on Tuesdays")
    assert names(memory.entities.search("my dog is afraid of the storm")) == ["Biscuit"]
    assert names(memory.entities.search("who should I call about my toothache?")) == ["Dr. Okafor"]
    assert names(memory.entities.search("is Harbor about the dentist?"))[0] == "Harbor"
    assert set(names(memory.entities.search("Harbor: my tooth hurts"))) == {"Harbor", "Dr. Okafor"}
    for nothing in ("what is the capital of Mongolia", "explain photosynthesis", "ok do that", "thanks!"):
        assert names(memory.entities.search(nothing)) == []


def test_a_lone_entity_is_found_by_meaning(open_memory: Opener) -> None:
    memory = open_memory(embedder=MiniLM(threads=1))
    memory.entities.add("Biscuit", "pet", description="three-year-old beagle who hates thunderstorms")
    assert names(memory.entities.search("my dog is afraid of the storm")) == ["Biscuit"]
    assert names(memory.entities.search("explain photosynthesis")) == []


def test_a_changed_description_is_found_and_the_old_one_is_not(memory: Memory) -> None:
    entity = memory.entities.add("Kestrel", "project", description="app for watching birds")
    assert names(memory.entities.search("watching birds")) == ["Kestrel"]
    memory.entities.change(entity.id, description="tracker of sailing boats")
    assert names(memory.entities.search("watching birds")) == []
    assert names(memory.entities.search("sailing boats")) == ["Kestrel"]


def test_the_same_question_has_the_same_answer_and_a_longer_one_begins_with_it(memory: Memory) -> None:
    for number in range(40):
        memory.entities.add(f"Bird {number}", "thing", description="likes seeds and worms" if number % 2 else "")
    one, two = (memory.entities.search("bird seeds and worms", limit=30) for _ in range(2))
    assert one == two
    assert memory.entities.search("bird seeds and worms", limit=7).hits == one.hits[:7]
    assert memory.entities.search("bird", limit=0).hits == ()


@pytest.mark.parametrize("limit", [-1, 1001, True, "3"])
def test_a_limit_that_makes_no_sense_is_refused(memory: Memory, limit: object) -> None:
    with pytest.raises(InvalidInput, match="limit is"):
        memory.entities.search("x", limit=limit)  # type: ignore[arg-type]


def test_an_empty_query_and_scopes_that_are_not_there_are_errors(memory: Memory) -> None:
    with pytest.raises(InvalidInput, match="the query is empty"):
        memory.entities.search(" ")
    with pytest.raises(NotFound):
        memory.entities.search("x", project="nowhere")
    with pytest.raises(NotFound):
        memory.entities.search("x", session="nowhere")
    assert memory.entities.search("x").hits == ()


def test_a_text_with_its_vector_finds_in_the_snapshot_of_its_caller(memory: Memory) -> None:
    memory.entities.add("Kestrel", "project", description="watching birds")
    vector = HashEmbedder().embed_query("watching birds")
    with memory._store.read() as db:
        (hit,) = memory.entities.find(db, "watching birds", vector, Scope("all"), 5)
        assert hit.entity.name == "Kestrel"
        for none in (None, vector * 0.0, vector * np.float32("nan")):
            assert memory.entities.find(db, "watching birds", none, Scope("all"), 5) == ()


# Embedders


def test_an_embedder_that_fails_leaves_search_by_name_and_is_made_up_for(open_memory: Opener) -> None:
    embedder = Failing()
    memory = open_memory(embedder)
    entity = memory.entities.add("Kestrel", "project", description="watching birds")
    found = memory.entities.search("kestrel")
    assert (names(found), found.degraded) == (["Kestrel"], {"semantic": "the embedder is broken"})
    with pytest.raises(EmbedderError):
        memory.entities.embed_missing()
    embedder.broken = False
    assert memory.entities.search("watching birds").hits == ()
    assert memory.entities.embed_missing() == 1
    assert memory.entities.embed_missing() == 0
    assert names(memory.entities.search("watching birds")) == ["Kestrel"]
    embedder.broken = True
    memory.entities.change(entity.id, description="sailing boats")
    embedder.broken = False
    assert memory.entities.search("watching birds").hits == ()
    assert memory.embed_missing() == 0
    assert names(memory.entities.search("sailing boats")) == ["Kestrel"]


def test_a_change_that_comes_between_is_kept_and_no_vector_of_another_text_is(open_memory: Opener) -> None:
    embedder = Interrupted()
    memory, other = open_memory(embedder), open_memory()
    id_ = memory.entities.add("Kestrel", "project", description="watching birds").id
    embedder.meanwhile = lambda: other.entities.change(id_, description="sailing boats")
    changed = memory.entities.change(id_, name="Windhover")
    assert (changed.name, changed.description) == ("Windhover", "sailing boats")
    assert count(memory, "entity_vectors") == 0
    embedder.meanwhile = lambda: other.entities.change(id_, description="growing roses")
    assert memory.entities.embed_missing() == 0
    assert names(memory.entities.search("growing roses")) == ["Windhover"]
    embedder.meanwhile = lambda: other.entities.forget(id_)
    with pytest.raises(NotFound):
        memory.entities.change(id_, name="Kestrel")


def test_a_vector_without_direction_is_none(open_memory: Opener) -> None:
    memory = open_memory(Useless())
    memory.entities.add("Kestrel nan", "project")
    memory.entities.add("Harbor", "project")
    assert count(memory, "entity_vectors") == 0
    assert names(memory.entities.search("kestrel harbor")) == ["Harbor", "Kestrel nan"]
    assert memory.entities.embed_missing() == 0


def test_vectors_of_another_model_are_never_compared(open_memory: Opener) -> None:
    first = open_memory(HashEmbedder())
    first.entities.add("Kestrel", "project", description="watching birds")
    first.add("hello")
    second = open_memory(HashEmbedder(dimension=32, name="other"))
    found = second.entities.search("watching birds")
    assert found.hits == ()
    assert "were made by hash (64 dimensions), not by other (32)" in found.degraded["semantic"]
    assert names(second.entities.search("kestrel")) == ["Kestrel"]
    second.entities.add("Harbor", "project", description="boats")
    assert count(second, "entity_vectors") == 1
    second.embed_missing()
    assert count(second, "entity_vectors") == 3
    assert names(second.entities.search("watching birds")) == ["Kestrel"]
    assert second.entities.search("watching birds").degraded == {}
    found = first.entities.search("watching birds")
    assert (found.hits, found.degraded.keys()) == ((), {"semantic"})
    first.embed_missing()
    assert names(first.entities.search("watching birds")) == ["Kestrel"]
    second.embed_missing()
    assert first.entities.search("watching birds").hits == ()
    first.embed_missing()
    assert names(first.entities.search("watching birds")) == ["Kestrel"]


def test_the_first_vector_of_a_store_decides_its_model_be_it_an_entitys(open_memory: Opener) -> None:
    open_memory(HashEmbedder()).entities.add("Kestrel", "project")
    other = open_memory(HashEmbedder(dimension=32, name="other"))
    other.add("hello there")
    assert "hash" in other.recall("hello there").degraded["semantic"]
    first = open_memory(HashEmbedder())
    first.add("good morning")
    assert first.recall("good morning").degraded == {}


def test_a_long_description_counts_to_its_end(memory: Memory) -> None:
    memory.entities.add("Kestrel", "project", description=" ".join(f"w{n}" for n in range(300)) + " narwhal")
    with memory._store.read() as db:
        (blob,) = [row[0] for row in db.execute("SELECT vector FROM entity_vectors")]
    vector = np.frombuffer(blob, dtype=np.float16).astype(np.float64)
    assert vector @ HashEmbedder().embed_query("narwhal") > 0.0
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 0.01


# What is kept in memory


def test_two_memories_on_one_file_see_each_others_entities_at_once(open_memory: Opener) -> None:
    one, two = open_memory(), open_memory()
    assert two.entities.search("kestrel").hits == ()
    entity = one.entities.add("Kestrel", "project", description="watching birds")
    assert names(two.entities.search("watching birds")) == ["Kestrel"]
    two.entities.change(entity.id, name="Harbor", description="boats")
    assert one.entities.search("kestrel watching birds").hits == ()
    assert names(one.entities.search("boats")) == ["Harbor"]
    one.entities.forget(entity.id)
    assert two.entities.search("harbor boats").hits == ()


def test_what_is_not_committed_is_not_kept(memory: Memory) -> None:
    memory.entities.add("Harbor", "project")
    with pytest.raises(NotFound), memory._store.write():
        memory.entities.add("Kestrel", "project")
        assert names(memory.entities.search("kestrel harbor")) == ["Harbor", "Kestrel"]
        memory.entities.get(99)
    memory.entities.add("Quay", "project")
    assert names(memory.entities.search("harbor quay")) == ["Harbor", "Quay"]
    assert names(memory.entities.search("kestrel")) == []


def test_every_door_reads_names_and_vectors_once_a_change(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    load = entityindex._load
    monkeypatch.setattr(entityindex, "_load", lambda *given_: loads.append(1) or load(*given_))
    entity = memory.entities.add("Kestrel", "project", project="acme")
    for _ in range(3):
        memory.entities.search("kestrel")
        memory.within(1).entities.search("kestrel")
        memory.add("Kestrel", project="acme")
    assert len(loads) == 1
    memory.entities.change(entity.id, aliases=["K"])
    memory.within(1).entities.search("k")
    assert len(loads) == 2
