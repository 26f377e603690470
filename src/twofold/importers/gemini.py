"""Reads session logs of the Gemini CLI: one object with its messages, or a line for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twofold.importers.agentlog import Said, blocks, bounded, folded, tool_name
from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, dated, name_of, role_of, shown, time_of
from twofold.types import Message

_REMARKS = ("info", "error", "warning")


@dataclass(slots=True)
class _Session:
    """One session as it is read: what a later line says of a message holds."""

    name: str
    start: object = None
    title: str | None = None
    said: dict[str, Said] = field(default_factory=dict)


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages of each session; `stem` names one without an id."""
    session = _Session(stem)
    chain = Chain()
    for entry in bounded(entries, _words):
        if not isinstance(entry, dict):
            losses.skip("line that is not an object")
            continue
        if entry.get("type") in ("user", "gemini", *_REMARKS):
            _put(session, entry, chain, losses)
        elif "sessionId" in entry:
            named = name_of(entry.get("sessionId"), "session", losses) or stem
            if named != session.name:
                yield from _messages(session, losses)
                session = _Session(named)
            session.start = entry.get("startTime", session.start)
            session.title = name_of(entry.get("summary"), "title", losses) or session.title
            listed = entry.get("messages")
            for message in listed if isinstance(listed, list) else []:
                if isinstance(message, dict):
                    _put(session, message, chain, losses)
                else:
                    losses.skip("entry that is not a message")
        elif isinstance(entry.get("$rewindTo"), str):
            _rewind(session, str(entry["$rewindTo"]), losses)
        else:
            losses.skip(f"line of type {shown(entry.get('type'))} (no message)")
    yield from _messages(session, losses)


def _words(entry: object) -> int:
    """How many characters a line says, which is what is held of it."""
    content = entry.get("content") if isinstance(entry, dict) else None
    blocks = content if isinstance(content, list) else [content]
    texts = (block.get("text") if isinstance(block, dict) else block for block in blocks)
    return sum(len(text) for text in texts if isinstance(text, str))


def _messages(session: _Session, losses: Losses) -> Iterator[Message]:
    losses.conversations += bool(session.said)
    found = list(folded(session.said.values()))
    yield from dated(found, session.start, losses)


def _put(session: _Session, entry: Mapping[str, object], chain: Chain, losses: Losses) -> None:
    type_ = entry.get("type")
    is_remark = type_ in _REMARKS
    text, tools = blocks(entry.get("displayContent") or entry.get("content"), losses)
    calls = entry.get("toolCalls")
    for call in calls if isinstance(calls, list) else []:
        tools += (tool_name(call.get("name") if isinstance(call, dict) else None, losses),)
        losses.skip("tool result (not taken)", isinstance(call, dict) and "result" in call)
    thoughts = entry.get("thoughts")
    losses.skip("thought (not taken)", len(thoughts) if isinstance(thoughts, list) else 0)
    role = "system" if is_remark else role_of(type_, losses)
    id_ = name_of(entry.get("id"), "id", losses)
    metadata: dict[str, object] = {"id": id_} if id_ else {}
    if model := name_of(entry.get("model"), "model", losses):
        metadata["model"] = model
    if is_remark and text.strip():
        losses.note("hidden or system message (kept, not recalled)")
        metadata |= {"hidden": True, "role": type_}
    source = f"gemini:{session.name}/{id_}" if id_ else chain.source(session.name, None, role, text)
    time = time_of(entry.get("timestamp"), losses)
    if source in session.said:
        losses.note("message that a later line says anew (the later one taken)")
    message = Message(text, role, session.name, None, time, metadata, source, session.title)
    session.said[source] = Said(message, tools)


def _rewind(session: _Session, id_: str, losses: Losses) -> None:
    """Take back what was said from a message on."""
    sources = list(session.said)
    source = f"gemini:{session.name}/{id_}"
    if source in session.said:
        back = sources[sources.index(source) :]
        losses.skip("message that was taken back", len(back))
        for one in back:
            del session.said[one]
