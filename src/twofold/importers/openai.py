"""Reads messages in the shape that OpenAI's chat API takes: `[{role, content}]` or `{"messages": [...]}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, clean, name_of, role_of, said_role, shown, time_of
from twofold.types import Message, Role

_TEXT = ("text", "input_text", "output_text", "refusal")


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages; the first conversation of a file is called `stem`, the second `stem-2`, and so on.

    The first has no number, so that it keeps its name when a second one is added to the file.
    """
    chain = Chain()
    conversations = loose = 0
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get("messages"), list):
            losses.conversations += not loose
            loose += 1
            yield from _message(entry, stem, None, chain, losses)
            continue
        conversations += 1
        losses.conversations += 1
        session = stem if conversations == 1 else f"{stem}-{conversations}"
        title = name_of(entry.get("title"), "title", losses)
        if not entry["messages"]:
            losses.skip("empty conversation")
        for message in entry["messages"]:
            yield from _message(message, session, title, chain, losses)


def _message(message: object, session: str, title: str | None, chain: Chain, losses: Losses) -> Iterator[Message]:
    if not isinstance(message, dict):
        losses.skip("entry that is not a message")
        return
    calls = message.get("tool_calls")
    losses.skip("tool call (not taken)", len(calls) if isinstance(calls, list) else 0)
    content = message.get("content")
    if content is None and isinstance(message.get("refusal"), str):
        content = message["refusal"]
    if content is None and calls:
        return
    text = content_text(content, losses)
    if text is None:
        return
    role = role_of(message.get("role"), losses)
    metadata = system(role, text, losses)
    if word := said_role(message.get("role")):
        metadata["role"] = word
    for key in ("id", "model"):
        if isinstance(value := message.get(key), str) and value.strip():
            metadata[key] = clean(value.strip(), losses)
    time = next((message[key] for key in ("time", "timestamp", "created_at") if key in message), None)
    yield Message(
        content=text,
        role=role,
        session=session,
        time=time_of(time, losses),
        metadata=metadata,
        source=chain.source(session, None, role, text),
        title=title,
    )


def system(role: Role, text: str, losses: Losses) -> dict[str, object]:
    """Return the mark of an instruction to a model, which is kept and not recalled, as metadata."""
    if role != "system" or not text.strip():
        return {}
    losses.note("hidden or system message (kept, not recalled)")
    return {"hidden": True}


def content_text(content: object, losses: Losses) -> str | None:
    """Return content as text, a string or a list of parts; None where it is neither, which is counted."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(filter(None, (_part(part, losses) for part in content)))
    losses.skip("content that is not text (left out)")
    return None


def _part(part: object, losses: Losses) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("type") if isinstance(part, dict) else part
    medium = next((word for word in ("image", "audio", "file") if isinstance(kind, str) and word in kind), None)
    if isinstance(part, dict) and medium:
        losses.placeholder(medium)
        return f"[{medium}: {_named(part)}]"
    text = part.get("text", part.get("refusal")) if isinstance(part, dict) else None
    if isinstance(text, dict):
        text = text.get("value")
    if kind not in _TEXT or not isinstance(text, str):
        losses.unknown("part type", kind)
    if isinstance(text, str):
        return text
    return f"[unknown: {shown(kind)[1:-1]}]" if isinstance(kind, str) else "[unknown]"


def _named(part: Mapping[str, object]) -> str:
    """Return what a part points at. The bytes of a data URL are no name."""
    for value in part.values():
        inner = value if isinstance(value, dict) else part
        for key in ("filename", "file_id", "url", "image_url"):
            name = inner.get(key)
            if isinstance(name, str) and name and not name.startswith("data:"):
                return name
    return "unnamed"
