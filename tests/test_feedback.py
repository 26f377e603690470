"""What users say of hits: kept once, within its scope, gone with what it is about, and learned from."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.test_tune import Noise, _Kept, fill
from twofold import Memory, cli
from twofold.errors import InvalidInput, NotFound
from twofold.judged import Judged, of_feedback
from twofold.tune import tune

QUERY = "what did the plumber charge?"


@pytest.fixture
def house(memory: Memory) -> Memory:
    """Four episodes: two in a project's sessions, one in another project, one in none."""
    memory.add("The plumber charged 180.", session="repairs", project="house")
    memory.add("The roof is tight.", session="roof", project="house")
    memory.add("The plumber of the boat charged 90.", session="repairs", project="boat")
    memory.add("A plumber is called Ada Example.", session="names")
    return memory


def test_a_word_is_kept_with_the_query_as_it_was_asked_and_where(house: Memory) -> None:
    said = house.feedback.add(QUERY, 1, True, session="repairs", project="house")
    assert (said.query, said.project, said.session, said.episode, said.useful) == (QUERY, "house", "repairs", 1, True)
    assert house.feedback.add(QUERY, 1, False, project="house").session is None
    assert house.feedback.add(QUERY, 4, True).project is None
    assert [one.id for one in house.feedback.page().items] == [3, 2, 1]
    assert [one.id for one in house.feedback.page(project="house").items] == [2, 1]


def test_a_later_word_on_the_same_takes_the_place_of_the_earlier(house: Memory) -> None:
    for where in ({}, {"project": "house"}, {"session": "repairs", "project": "house"}):
        for useful in (True, False, True):
            house.feedback.add(QUERY, 1, useful, **where)
    said = house.feedback.page().items
    assert [(one.project, one.session, one.useful) for one in said] == [
        ("house", "repairs", True),
        ("house", None, True),
        (None, None, True),
    ]


def test_an_episode_outside_the_scope_is_not_there(house: Memory) -> None:
    for episode, where in ((3, {"project": "house"}), (2, {"session": "repairs", "project": "house"}), (99, {})):
        with pytest.raises(NotFound, match=f"there is no episode {episode}"):
            house.feedback.add(QUERY, episode, True, **where)
    with pytest.raises(NotFound, match="there is no project 'car'"):
        house.feedback.add(QUERY, 1, True, project="car")
    with pytest.raises(InvalidInput, match="useful is 'yes'"):
        house.feedback.add(QUERY, 1, "yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="query"):
        house.feedback.add("  ", 1, True)
    assert house.feedback.page().items == ()


def test_a_bound_door_sees_only_what_was_said_in_its_project(house: Memory) -> None:
    everywhere = house.feedback.add(QUERY, 1, True)
    of_boat = house.feedback.add(QUERY, 3, True, project="boat")
    door = house.within(1)
    own = door.feedback.add(QUERY, 1, False)
    assert own.project == "house"
    assert [one.id for one in door.feedback.page().items] == [own.id]
    for other in (everywhere, of_boat):
        with pytest.raises(NotFound, match=f"there is no feedback {other.id}"):
            door.feedback.remove(other.id)
    with pytest.raises(NotFound, match="there is no episode 3"):
        door.feedback.add(QUERY, 3, True)
    assert len(house.feedback.page().items) == 3


def test_nothing_is_left_of_what_was_said_about_what_is_forgotten(house: Memory) -> None:
    house.feedback.add(QUERY, 1, True)
    house.feedback.add(QUERY, 2, True, session="roof", project="house")
    house.feedback.add(QUERY, 3, True, project="boat")
    house.forget(episode=1)
    assert [one.episode for one in house.feedback.page().items] == [3, 2]
    house.forget(session="roof", project="house")
    house.forget(project="boat", purge=True)
    assert house.feedback.page().items == ()
    with sqlite3.connect(house.path) as file:
        assert not file.execute("SELECT * FROM feedback").fetchall()


def test_pages_and_what_is_taken_back(house: Memory) -> None:
    for number in range(5):
        house.feedback.add(f"{QUERY} {number}", 1, True)
    first = house.feedback.page(limit=2)
    second = house.feedback.page(limit=2, after=first.next)
    last = house.feedback.page(limit=2, after=second.next)
    assert [one.id for page in (first, second, last) for one in page.items] == [5, 4, 3, 2, 1]
    assert last.next is None
    house.feedback.remove(3)
    with pytest.raises(NotFound, match="there is no feedback 3"):
        house.feedback.remove(3)
    assert [one.id for one in house.feedback.page().items] == [5, 4, 2, 1]


def test_queries_are_judged_by_what_was_useful_and_those_without_are_counted(house: Memory) -> None:
    house.feedback.add("who?", 4, True)
    house.feedback.add("who?", 1, True)
    house.feedback.add("who?", 2, False)
    house.feedback.add("who?", 1, True, project="house")
    house.feedback.add("where?", 2, False)
    heard = of_feedback(house.feedback)
    assert (heard.left_out, heard.useless) == (1, 2)
    assert {(one.query, one.episodes, one.project) for one in heard.queries} == {
        ("who?", (1, 4), None),
        ("who?", (1,), "house"),
    }
    assert [one.episodes for one in of_feedback(house.feedback, "house").queries] == [(1,)]
    with pytest.raises(NotFound):
        of_feedback(house.feedback, "car")


def judged_by_hand(memory: Memory, judged: list[Judged]) -> None:
    """Thumbs up for what answers each question, thumbs down for what was recalled first instead."""
    for one in judged:
        (answer,) = [hit.episode.id for hit in memory.search(one.query.split()[0], project="p", limit=1)]
        memory.feedback.add(one.query, answer, True, project="p")
        for hit in memory.recall(one.query, project="p", limit=1):
            if hit.episode.id != answer:
                memory.feedback.add(one.query, hit.episode.id, False, project="p")


def test_tune_finds_by_feedback_what_it_finds_by_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(tmp_path / "noisy.db", embedder=Noise(dimension=6)) as memory:
        judged = fill(memory)
        judged_by_hand(memory, judged)
        by_feedback = tune(memory, of_feedback(memory.feedback).queries)
        by_file = tune(memory, judged)
        assert by_feedback.queries == by_file.queries == 60
        assert by_feedback.chosen == by_file.chosen
        assert by_feedback.held_out == pytest.approx(by_file.held_out, abs=0.02)
        assert not by_feedback.refused

        memory.feedback.add("what else?", 150, False, project="p")
        useless = [said for said in memory.feedback.page(limit=500).items if not said.useful]
        monkeypatch.setattr(cli.Memory, "open", lambda db: _Kept(memory))
        monkeypatch.setenv("TWOFOLD_DB", str(memory.path))
        words = ["tune", "--feedback", "--project", "p"]
        assert len(useless) > 1
        before = memory.prior()
        done = CliRunner().invoke(cli.twofold, [*words, "--apply", "--json"], catch_exceptions=False)
        told = json.loads(done.stdout)
        assert (told["queries"], told["leftOut"], told["useless"], told["applied"]) == (60, 1, len(useless), True)
        assert memory.prior() == by_feedback.chosen != before


def test_the_commands_say_list_and_take_back_and_tune_reads_them(tmp_path: Path) -> None:
    file = str(tmp_path / "memories.db")

    def run(*words: str) -> str:
        done = CliRunner().invoke(cli.twofold, [*words, "--db", file], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    run("add", "The plumber charged 180.", "--project", "house")
    said = json.loads(run("feedback", "add", QUERY, "--episode", "1", "--useful", "--project", "house", "--json"))
    assert (said["episode"], said["useful"], said["project"]) == (1, True, "house")
    assert "episode 1 was useless" in run("feedback", "add", QUERY, "--episode", "1", "--useless")
    assert [one["id"] for one in json.loads(run("feedback", "list", "--json"))["items"]] == [2, 1]
    assert "more with: --after" in run("feedback", "list", "--limit", "1")
    run("feedback", "remove", "1")
    assert run("feedback", "list") == f"2  episode 1 was useless to {QUERY!r}, asked everywhere\n"
    few = CliRunner().invoke(cli.twofold, ["tune", "--feedback", "--db", file])
    assert few.output.startswith(
        "0 queries with a useful episode; 1 without one are left out; an episode was useless 1"
    )
    assert isinstance(few.exception, InvalidInput)
    assert "at least 20" in str(few.exception)
    both = CliRunner().invoke(cli.twofold, ["tune", "judged.jsonl", "--feedback", "--db", file])
    assert both.exit_code == 2
    assert "--feedback" in both.output
