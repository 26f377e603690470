"""Reads conversations of a ChatGPT account export: the branch last seen of each tree of messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from twofold.importers.fields import Losses, clean, dated, name_of, role_of, shown, time_of
from twofold.importers.tree import branch
from twofold.types import Message

_NOT_TAKEN = {"thoughts": "thoughts (not taken)", "reasoning_recap": "reasoning recap (not taken)"}
# Where each type of content keeps its words.
_WORDS = {
    "text": ("parts", "text"),
    "multimodal_text": ("parts", "text"),
    "code": ("text",),
    "execution_output": ("text",),
    "tether_quote": ("text",),
    "tether_browsing_display": ("result", "summary"),
    "user_editable_context": ("user_profile", "user_instructions"),
    "system_error": ("text",),
}
_ANYWHERE = ("text", "parts", "result")


def read(entries: Iterable[object], stem: str, losses: Losses) -> Iterator[Message]:
    """Yield the messages of each conversation; `stem` names those without an id."""
    unnamed = 0
    for entry in entries:
        mapping = entry.get("mapping") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(mapping, dict):
            losses.note("entry that is not a conversation")
            continue
        session = name_of(entry.get("id"), "id", losses) or name_of(entry.get("conversation_id"), "id", losses)
        if session is None:
            unnamed += 1
            session = stem if unnamed == 1 else f"{stem}-{unnamed}"
            losses.note("conversation without an id (named after the file)")
        yield from dated(_conversation(entry, mapping, session, losses), entry.get("create_time"), losses)


def _conversation(
    entry: Mapping[str, object], mapping: Mapping[str, object], session: str, losses: Losses
) -> list[Message]:
    nodes: dict[str, dict[str, object]] = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    losses.note("entry that is not a message", len(mapping) - len(nodes))
    parents = {key: node.get("parent") for key, node in nodes.items()}
    way = branch(parents, entry.get("current_node"), {key: _moment(node) for key, node in nodes.items()})
    taken = set(way)
    abandoned = sum(1 for key, node in nodes.items() if node.get("message") and key not in taken)
    losses.note("message on an abandoned branch", abandoned)
    if not any(node.get("message") for node in nodes.values()):
        losses.note("empty conversation")
    title = name_of(entry.get("title"), "title", losses)
    messages = (_message(key, nodes[key].get("message"), session, title, losses) for key in way)
    return [message for message in messages if message is not None]


def _moment(node: Mapping[str, object]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, int | float) and time == time else float("-inf")


def _message(key: str, message: object, session: str, title: str | None, losses: Losses) -> Message | None:
    if not message:  # the root of the tree
        return None
    if not isinstance(message, dict):
        losses.note("entry that is not a message")
        return None
    author, about = message.get("author"), message.get("metadata")
    role = author.get("role") if isinstance(author, dict) else None
    about = about if isinstance(about, dict) else {}
    if about.get("is_visually_hidden_from_conversation"):
        losses.note("hidden system message" if role == "system" else "hidden message")
        return None
    content = message.get("content")
    text = content if isinstance(content, str) else _text(content, losses)
    if text is None:
        return None
    return Message(
        content=text,
        role=role_of(role, losses),
        session=session,
        time=time_of(message.get("create_time"), losses),
        metadata=_metadata(about, content, losses),
        source=clean(f"chatgpt:{session}/{key}", losses),
        title=title,
    )


def _text(content: object, losses: Losses) -> str | None:
    """Return the words of a message; None where there are none to take and that is counted."""
    if not isinstance(content, dict):
        return ""
    kind = content.get("content_type")
    if isinstance(kind, str) and kind in _NOT_TAKEN:
        losses.note(_NOT_TAKEN[kind])
        return None
    keys = _WORDS.get(kind) if isinstance(kind, str) else None
    found = dict.fromkeys(_joined(content.get(key), losses) for key in keys or _ANYWHERE)
    text = "\n\n".join(words for words in found if words.strip())
    if keys is None:
        losses.note(f"unknown content type {shown(kind)}")
        return text or None
    return text


def _joined(value: object, losses: Losses) -> str:
    if isinstance(value, list):
        return "\n".join(filter(None, (_part(part, losses) for part in value)))
    return value if isinstance(value, str) else ""


def _part(part: object, losses: Losses) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("content_type") if isinstance(part, dict) else part
    if isinstance(part, dict) and isinstance(kind, str) and kind.endswith("asset_pointer"):
        medium = next((word for word in ("image", "audio", "video") if word in kind), "file")
        losses.note(f"{medium} (placeholder kept)")
        return f"[{medium}: {_pointer(part)}]"
    text = part.get("text") if isinstance(part, dict) else None
    if kind != "audio_transcription" or not isinstance(text, str):
        losses.note(f"unknown part type {shown(kind)}")
    return text if isinstance(text, str) else ""


def _pointer(part: Mapping[str, object]) -> str:
    inner = part.get("audio_asset_pointer")
    pointer = part.get("asset_pointer") or (inner.get("asset_pointer") if isinstance(inner, dict) else None)
    return pointer.rpartition("://")[2] if isinstance(pointer, str) else "unnamed"


def _metadata(about: Mapping[str, object], content: object, losses: Losses) -> dict[str, object]:
    found: dict[str, object] = {"model": name_of(about.get("model_slug"), "model", losses)}
    files = about.get("attachments")
    if isinstance(files, list):
        named = (name_of(file.get("name"), "file name", losses) for file in files if isinstance(file, dict))
        found["attachments"] = [name for name in named if name]
        losses.note("attachment (name kept)", len(files))
    if isinstance(content, dict):
        for key in ("language", "title", "url"):
            found[key] = name_of(content.get(key), key, losses)
    return {key: value for key, value in found.items() if value and value != "unknown"}
