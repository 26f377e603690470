"""Reads session logs (rollouts) of the Codex CLI. Events repeat what the items say, and count once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from twofold.importers.agentlog import Said, blocks, bounded, folded, tool_name
from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, dated, name_of, role_of, said_role, shown, time_of
from twofold.types import Message, Role

LINES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted"})
_EVENTS: dict[str, Role] = {"user_message": "user", "agent_message": "assistant"}
# What the program tells the model in the user's name.
_NOT_SAID = ("<environment_context>", "<user_instructions>", "<permissions instructions>", "# AGENTS.md instructions")


@dataclass(slots=True)
class _State:
    """What lines before say of those after."""

    session: str
    start: object = None
    model: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True)
class _Item:
    """What a line says; `is_event` where an item may say the same."""

    text: str
    role: Role
    time: object
    metadata: dict[str, object]
    tools: tuple[str, ...] = ()
    is_event: bool = False


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages of a log; `stem` names a session without an id."""
    state = _State(stem)
    items = list(bounded(_items(entries, state, losses), lambda item: len(item.text)))
    said_by_items = Counter((item.role, item.text.strip()) for item in items if not item.is_event)
    losses.conversations += bool(items)
    chain = Chain()
    said: list[Said] = []
    for item in items:
        if item.is_event and said_by_items[item.role, item.text.strip()] > 0:
            said_by_items[item.role, item.text.strip()] -= 1
            losses.skip("event that repeats a message")
            continue
        source = chain.source(state.session, None, item.role, item.text)
        time = time_of(item.time, losses)
        message = Message(item.text, item.role, state.session, None, time, item.metadata, source)
        said.append(Said(message, item.tools))
    yield from dated(list(folded(said)), state.start, losses)


def _items(entries: Iterable[object], state: _State, losses: Losses) -> Iterator[_Item]:
    for entry in entries:
        if not isinstance(entry, dict):
            losses.skip("line that is not an object")
            continue
        type_, payload = entry.get("type"), entry.get("payload")
        if isinstance(type_, str) and type_ in LINES and isinstance(payload, dict):
            yield from _item(type_, payload, entry.get("timestamp"), state, losses)
        elif "instructions" in entry and type_ is None:  # how older logs begin
            yield from _item("session_meta", entry, entry.get("timestamp"), state, losses)
        elif "record_type" in entry:
            losses.skip(f"line of type {shown(entry['record_type'])} (no message)")
        else:  # older logs have their items as they are
            yield from _item("response_item", entry, entry.get("timestamp"), state, losses)


def _item(type_: str, payload: Mapping[str, object], time: object, state: _State, losses: Losses) -> Iterator[_Item]:
    if type_ == "session_meta":
        state.session = name_of(payload.get("id"), "id", losses) or state.session
        state.start = payload.get("timestamp", time)
        state.cwd = name_of(payload.get("cwd"), "folder", losses)
    elif type_ == "turn_context":
        state.model = name_of(payload.get("model"), "model", losses) or state.model
    elif type_ == "compacted":
        text = payload.get("message")
        if isinstance(text, str) and text.strip():
            losses.note("hidden or system message (kept, not recalled)")
            yield _Item(text, "system", time, {"hidden": True, "part": "summary"})
    elif type_ == "event_msg":
        yield from _event(payload, time, state, losses)
    else:
        yield from _response(payload, time, state, losses)


def _event(payload: Mapping[str, object], time: object, state: _State, losses: Losses) -> Iterator[_Item]:
    type_, text = payload.get("type"), payload.get("message")
    role = _EVENTS.get(type_) if isinstance(type_, str) else None
    if role and isinstance(text, str):
        yield _Item(text, role, time, _about(role, state), is_event=True)
    else:
        losses.skip(f"event of type {shown(type_)} (no message)")


def _response(payload: Mapping[str, object], time: object, state: _State, losses: Losses) -> Iterator[_Item]:
    type_ = payload.get("type")
    name = type_ if isinstance(type_, str) else ""
    if name == "message":
        text, tools = blocks(payload.get("content"), losses)
        role = role_of(payload.get("role"), losses)
        metadata = _about(role, state)
        if word := said_role(payload.get("role")):
            metadata["role"] = word
        if text.strip() and (role == "system" or text.lstrip().startswith(_NOT_SAID)):
            losses.note("hidden or system message (kept, not recalled)")
            metadata["hidden"] = True
        yield _Item(text, role, time, metadata, tools)
    elif name.endswith("_call"):
        called = payload.get("name") or name.removesuffix("_call")
        yield _Item("", "assistant", time, _about("assistant", state), (tool_name(called, losses),))
    elif name.endswith("_output"):
        losses.skip("tool result (not taken)")
    elif name == "reasoning":
        losses.skip("reasoning (not taken)")
    else:
        losses.skip(f"item of type {shown(type_)} (no message)")


def _about(role: Role, state: _State) -> dict[str, object]:
    """The model of an answer and the folder it was given in, as metadata."""
    found = {"model": state.model if role == "assistant" else None, "cwd": state.cwd}
    return {key: value for key, value in found.items() if value}
