"""The page, used as a person would use it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.page.conftest import NASTY, Place
from twofold import Memory, Message
from twofold.http.page import FOLDER, HEADERS

Served = Callable[..., Place]

CONFORMANCE = Path(__file__).parents[1] / "conformance" / "fusion.json"


def expect_hits(page: Page, expected: list[str]) -> None:
    expect(page.locator("[data-hit]")).to_have_count(len(expected))
    for place, id_ in enumerate(expected):
        expect(page.locator("[data-hit]").nth(place)).to_have_attribute("data-hit", id_)


def recall(place: Place, query: str) -> Page:
    page = place.go()
    page.get_by_role("searchbox", name="Search your memory").fill(query)
    expect(page.locator("[data-hit]").first).to_be_visible()
    return page


# recall


def test_what_is_typed_is_answered_and_the_address_keeps_it(served: Served) -> None:
    place = served()
    page = recall(place, "gate code")
    first = page.locator("[data-hit]").first
    expect(first).to_contain_text("The gate code changed on Monday.")
    assert first.locator("mark").all_text_contents() == ["gate", "code"]
    expect(page.get_by_label("How the query was read")).to_contain_text("Termscode, gate")
    page.get_by_label("Project").select_option("home")
    expect(page).to_have_url(re.compile("project=home"))
    expected = [str(hit.episode.id) for hit in place.memory.recall("gate code", project="home").hits]
    expect_hits(page, expected)
    page.reload()
    expect(page.get_by_role("searchbox", name="Search your memory")).to_have_value("gate code")
    expect_hits(page, expected)
    assert place.faults == []


def test_every_hit_says_what_each_ranking_gave_it(served: Served) -> None:
    place = served()
    page = recall(place, "gate code")
    (best, *_) = place.memory.recall("gate code").hits
    first = page.locator("[data-hit]").first
    first.get_by_text(re.compile("^Score")).click()
    rows = first.get_by_role("row").all_text_contents()
    assert rows[0] == "RankRawNormalisedWeightContribution"
    assert len(rows) == 1 + len(best.contributions)
    expect(first).to_contain_text(f"Score {best.score:.4f}")
    assert page.locator(".lines path").count() >= 2
    expect(first.get_by_role("img", name=re.compile("^Contributions: "))).to_be_visible()


def test_a_slider_fuses_as_the_server_would_and_is_kept_when_told(served: Served) -> None:
    place = served()
    page = recall(place, "gate of the door")
    for number, method in enumerate(("rrf", "rsf", "dbsf", "convex")):
        keyword, semantic = 2.5 - number / 2, 1.5 + number / 2
        page.get_by_label("Method").select_option(method)
        page.get_by_label(re.compile("Keyword weight")).fill(str(keyword))
        page.get_by_label(re.compile("Semantic weight")).fill(str(semantic))
        expect(page.get_by_role("button", name="Set by hand")).to_have_attribute("aria-pressed", "true")
        with page.expect_response(lambda answer: answer.request.method == "PATCH"):
            page.get_by_role("button", name="Keep these settings").click()
        expect(page.get_by_text("Kept: these settings are in force")).to_be_visible()
        kept = [place.memory.settings()[name] for name in ("weights", "method", "keywordWeight", "semanticWeight")]
        assert kept == ["fixed", method, keyword, semantic]
        expect_hits(page, [str(hit.episode.id) for hit in place.memory.recall("gate of the door").hits])


def test_the_browser_fuses_every_conformance_case_as_the_server_does(served: Served) -> None:
    page = served().go()
    cases = json.loads(CONFORMANCE.read_text(encoding="utf-8"))
    found = page.evaluate(
        """async (cases) => {
            const { METHODS } = await import("/page/fusion.js");
            const numbers = (value) => Array.isArray(value) ? value.map(numbers)
                : value === "NaN" ? NaN : value === "Infinity" ? Infinity : value;
            const call = ({ function: name, args }) => {
                const given = Object.entries(args).map(([key, value]) => [key, numbers(value)]);
                const { lists, ...more } = Object.fromEntries(given);
                return METHODS[name](lists, more).map((hit) => [hit.id, hit.score]);
            };
            const fails = (one) => { try { call(one); return null; } catch (error) { return error.message; } };
            return { cases: cases.cases.map(call), invalid: cases.invalid.map(fails) };
        }""",
        cases,
    )
    for case, got in zip(cases["cases"], found["cases"], strict=True):
        assert [id_ for id_, _ in got] == [id_ for id_, _ in case["expect"]], case["name"]
        assert [score for _, score in got] == pytest.approx([score for _, score in case["expect"]], rel=0, abs=1e-12)
    assert [case["name"] for case, got in zip(cases["invalid"], found["invalid"], strict=True) if not got] == []


def test_why_not_is_asked_of_what_was_brought_and_did_not_make_it(served: Served) -> None:
    page = recall(served(), "door corridor")
    page.get_by_label("Hits").fill("3")
    expect(page.locator("[data-hit]")).to_have_count(3)
    item = page.get_by_role("region", name="Keyword").locator("[data-out=true]").first
    item.get_by_role("button", name="Why not this one?").click()
    expect(item).to_contain_text(re.compile(r"Episode \d+: it stands at place \d+"))
    page.get_by_label("Why not the episode with the number").fill("1")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text(re.compile("^Episode 1: it has no word of the query"))).to_be_visible()


def test_thumbs_are_feedback_and_can_be_taken_back(served: Served) -> None:
    place = served()
    page = recall(place, "gate code")
    first = page.locator("[data-hit]").first
    useful = first.get_by_role("button", name="Useful", exact=True)
    useful.click()
    expect(useful).to_have_attribute("aria-pressed", "true")
    (said,) = place.memory.feedback.page().items
    assert (said.query, said.useful) == ("gate code", True)
    first.get_by_role("button", name="Not useful").click()
    expect(useful).to_have_attribute("aria-pressed", "false")
    assert [one.useful for one in place.memory.feedback.page().items] == [False]
    first.get_by_role("button", name="Not useful").click()
    expect(first.get_by_role("button", name="Not useful")).to_have_attribute("aria-pressed", "false")
    assert not place.memory.feedback.page().items


def test_neighbours_come_on_demand_and_the_conversation_opens_at_the_hit(served: Served) -> None:
    page = recall(served(), "door 31")
    first = page.locator("[data-hit]").first
    expect(first).to_contain_text("Door number 31")
    first.get_by_role("button", name="What stood around it").click()
    expect(first).to_contain_text("Door number 30")
    expect(first).to_contain_text("Door number 32")
    first.get_by_role("link", name="Open the conversation").click()
    expect(page.get_by_role("article").filter(has_text="Door number 31 ")).to_be_in_viewport()


def test_cjk_is_found_and_marked(served: Served) -> None:
    page = recall(served(), "樱花")
    assert page.locator("[data-hit]").first.locator("mark").all_text_contents() == ["樱花"]


def test_an_empty_store_offers_the_samples(served: Served) -> None:
    place = served(fill=lambda memory: None)
    page = place.go()
    page.get_by_role("button", name="Load the sample history").click()
    expect(page.locator("[data-hit]").first).to_be_visible()
    assert place.memory.status().episodes > 100


def test_a_service_that_is_away_and_a_query_without_hits_are_told(served: Served) -> None:
    place = served()
    page = recall(place, "gate code")
    page.get_by_label("Project").select_option("travel")
    page.get_by_role("searchbox", name="Search your memory").fill("the")
    expect(page.get_by_role("region", name="Keyword")).to_contain_text("No word of the query is in scope.")
    page.route("**/recall/windows", lambda route: route.abort())
    page.get_by_role("searchbox", name="Search your memory").fill("gate")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer. Start it with: twofold serve")
    page.unroute("**/recall/windows")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("[data-hit]").first).to_be_visible()


# memory


def test_a_session_is_read_edited_and_a_message_forgotten_and_brought_back(served: Served) -> None:
    place = served()
    page = place.go("/?view=memory")
    page.get_by_role("link", name=re.compile("Things of the house")).click()
    expect(page.get_by_role("article")).to_have_count(3)
    expect(page.get_by_role("article").nth(1).get_by_role("code")).to_have_text("print('gate')")
    expect(page.get_by_role("article").nth(2)).to_contain_text("kept, not recalled")
    one = page.get_by_role("article").first
    one.get_by_role("button", name="Edit").click()
    one.get_by_role("textbox").fill("The gate code changed on Tuesday.")
    one.get_by_role("button", name="Save").click()
    expect(one).to_contain_text("on Tuesday.")
    assert place.memory.show(episode=1)[0].content == "The gate code changed on Tuesday."
    one.get_by_role("button", name="Forget").click()
    dialog = page.get_by_role("dialog", name="Forget this message?")
    dialog.get_by_role("button", name="Keep it").click()
    expect(page.get_by_role("article")).to_have_count(3)
    one.get_by_role("button", name="Forget").click()
    dialog.get_by_role("button", name="Forget it").click()
    expect(page.get_by_role("article")).to_have_count(2)
    assert len(place.memory.show("house", project="home")) == 2
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("article")).to_have_count(3)
    assert place.memory.show("house", project="home")[0].content == "The gate code changed on Tuesday."
    assert place.faults == []


def test_a_session_is_moved_and_forgotten_and_brought_back(served: Served) -> None:
    place = served()
    page = place.go("/?view=memory&project=home")
    page.get_by_role("link", name=re.compile("^doors")).click()
    with page.expect_response(lambda answer: answer.request.method == "PATCH"):
        page.get_by_label("In project").select_option("travel")
    expect(page.get_by_label("In project")).to_have_value("travel")
    assert {hit.episode.session for hit in place.memory.search("door", project="travel")} == {"doors"}
    assert all(hit.episode.session == "house" for hit in place.memory.recall("door", project="home").hits)
    before = [one.content for one in place.memory.show("doors", project="travel")]
    page.get_by_role("button", name="Forget the session").click()
    page.get_by_role("dialog").get_by_role("button", name="Forget it").click()
    expect(page.get_by_text("60 messages were forgotten")).to_be_visible()
    assert place.memory.catalog.find_session("doors", "travel") is None
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("60 messages were forgotten")).to_be_hidden()
    assert [one.content for one in place.memory.show("doors", project="travel")] == before
    assert place.memory.doctor().findings == ()


def test_a_week_chooses_what_was_said_in_it(served: Served) -> None:
    page = served().go("/?view=memory")
    expect(page.get_by_role("heading", name="Sessions (4)")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Week of 2026-01-12, 1 ")).click()
    expect(page.get_by_role("heading", name="Sessions (1)")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile("^Tokyo"))).to_be_visible()
    page.get_by_role("link", name="Show all weeks").click()
    expect(page.get_by_role("heading", name="Sessions (4)")).to_be_visible()


def test_entities_show_who_mentions_them(served: Served) -> None:
    page = served().go("/?view=memory")
    page.get_by_role("button", name="2 mentions").click()
    expect(page.get_by_text("The gate code changed on Monday.")).to_be_visible()


def test_a_file_that_is_dropped_is_imported_with_its_report_and_all_is_saved(served: Served, tmp_path: Path) -> None:
    place = served()
    page = place.go("/?view=memory")
    file = tmp_path / "notes.jsonl"
    file.write_text('{"content": "a new message", "session": "new"}\n{"content": ""}\n{"content": 5}\n')
    page.get_by_label("Choose a file").set_input_files(file)
    expect(page.get_by_text("Added 1 messages in 1 sessions")).to_be_visible()
    expect(page.get_by_text("1 × empty message")).to_be_visible()
    page.locator(".drop").evaluate(
        """(drop) => {
            const data = new DataTransfer();
            data.items.add(new File(['{"content": "dropped", "session": "new"}'], "dropped.jsonl"));
            drop.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
        }"""
    )
    expect(page.get_by_role("heading", name="dropped.jsonl")).to_be_visible()
    assert [one.content for one in place.memory.show("new")] == ["a new message", "dropped"]
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    page.get_by_label("Choose a file").set_input_files(bad)
    expect(page.get_by_role("alert")).to_contain_text("line 1")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save everything").click()
    lines = saved.value.path().read_text("utf-8").splitlines()
    assert json.loads(lines[0]) == {"twofold": 1}
    assert any("a new message" in line for line in lines)


def long(memory: Memory) -> None:
    memory.import_(
        [Message(f"line {n} " + "word " * (n % 40), session="long", source=str(n)) for n in range(5000)], embed=False
    )


def test_of_five_thousand_messages_only_those_that_are_seen_are_in_the_document(served: Served) -> None:
    page = served(fill=long).go("/?view=memory&session=1")
    talk = page.get_by_role("feed", name="Conversation")
    expect(page.get_by_text("5,000 messages", exact=True)).to_be_visible()
    for part in (0.2, 0.5, 0.97, 0.1):
        talk.evaluate("(e, part) => { e.scrollTop = part * e.scrollHeight; }", part)
        expect(page.get_by_role("article").first).to_be_attached()
        assert page.get_by_role("article").count() < 60
    page.get_by_label("Find in it").fill("line 4321 ")
    expect(page.get_by_role("article").filter(has_text=re.compile("line 4321 "))).to_be_in_viewport()


# quality


def test_the_last_runs_are_plots_with_their_numbers(served: Served) -> None:
    place = served()
    page = place.go("/?view=quality")
    expect(page.get_by_text("twofold eval DIR")).to_be_visible()
    expect(page.get_by_role("region", name="Store").or_(page.get_by_text("Waiting for a vector"))).to_be_visible()
    runs = [{"name": name, "value": v, "low": v - 0.1, "high": v + 0.1} for name, v in (("rrf", 0.5), ("default", 0.7))]
    place.memory.runs.add("eval", {"sets": [{"name": "tiny", "measure": "ndcg@10 by row", "queries": 4, "runs": runs}]})
    place.memory.runs.add(
        "tune", {"curve": [[0.1, 0.4], [0.5, 0.6], [0.9, 0.5]], "chosen": 0.5, "verdict": "shown better"}
    )
    page.reload()
    expect(page.get_by_role("img", name="rrf 0.500, default 0.700")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("chosen is 0.50 with 0.600"))).to_be_visible()
    page.get_by_text("As a table").first.click()
    expect(page.get_by_role("row", name="default 0.7000 0.6000 0.8000")).to_be_visible()
    assert place.faults == []


# who may, and what may run


def test_a_token_is_asked_for_where_one_is_needed_and_a_bound_one_shows_its_project(served: Served) -> None:
    place = served(token="the secret of this server")
    page = place.go("/?q=gate")
    dialog = page.get_by_role("dialog", name="This service wants a token")
    dialog.get_by_label("Token").fill("wrong")
    dialog.get_by_role("button", name="Open").click()
    expect(dialog.get_by_role("alert")).to_contain_text("opens nothing here")
    dialog.get_by_label("Token").fill(place.memory.tokens.add("bound", project="travel")[1])
    dialog.get_by_role("button", name="Open").click()
    expect(page.get_by_label("Project").locator("option")).to_have_text(["All", "travel"])
    page.get_by_role("link", name="Quality").click()
    expect(page.get_by_text("a token that is bound to one project cannot").first).to_be_visible()
    page.reload()
    expect(dialog).to_be_hidden()


def test_stored_markup_is_text_and_nothing_of_it_runs(served: Served) -> None:
    place = served()
    page = recall(place, "evil gate")
    nasty = page.locator("[data-hit]").filter(has_text="evil")
    expect(nasty.locator(".text")).to_have_text(NASTY)
    assert page.locator("main img, main script").count() == 0
    expect(page).to_have_title("Recall · Twofold")
    nasty.get_by_role("link", name="Open the conversation").click()
    expect(page.get_by_role("heading", name="<b>Nasty</b>")).to_be_visible()
    expect(page.get_by_role("article").first).to_contain_text("<script>")
    page.get_by_role("button", name=re.compile("^Show all 1,000,005 characters")).click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert place.faults == []


def test_the_policy_lets_no_script_in_and_nothing_be_loaded_from_elsewhere(served: Served) -> None:
    place = served()
    page = place.go()
    page.evaluate(
        "const s = document.createElement('script'); s.textContent = 'window.ran = true'; document.body.append(s)"
    )
    assert page.evaluate("window.ran") is None
    assert any("Content Security Policy" in fault for fault in place.faults)
    answer = httpx2.get(f"{place.url}/", trust_env=False)
    assert {name: answer.headers[name] for name in HEADERS} == dict(HEADERS)
    for file in FOLDER.iterdir():
        text = file.read_text("utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), file.name
        assert not re.search(r"https?://(?!www\.w3\.org/)", text), file.name


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1600, "dark")])
def test_everybody_can_use_it(served: Served, width: int, scheme: str) -> None:
    place = served(width=width, color_scheme=scheme)
    runs = [{"name": name, "value": v, "low": v - 0.1, "high": v + 0.1} for name, v in (("rrf", 0.5), ("default", 0.7))]
    place.memory.runs.add("eval", {"sets": [{"name": "tiny", "measure": "ndcg@10 by row", "queries": 4, "runs": runs}]})
    for address, ready in (
        ("/?q=gate+code", "[data-hit]"),
        ("/?view=memory&session=1", "article"),
        ("/?view=memory", ".weeks button"),
        ("/?view=quality", ".part"),
    ):
        page = place.go(address)
        page.locator(ready).first.wait_for()
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


def test_the_keyboard_is_enough(served: Served) -> None:
    page = recall(served(), "gate code")
    page.keyboard.press("Tab")
    page.get_by_label(re.compile("Keyword weight")).focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("button", name="Set by hand")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("link", name="Memory").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Messages a week")).to_be_visible()
    page.get_by_role("button", name=re.compile("^Theme")).press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
