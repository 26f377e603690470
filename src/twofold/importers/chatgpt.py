"""Reads conversations of a ChatGPT account export: the branch last seen of each tree of messages, or all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from twofold.importers.fields import Losses, clean, dated, name_of, role_of, said_role, shown, time_of
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
_MEDIA = ("image", "audio", "video")


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages of each conversation; `stem` names those without an id."""
    unnamed = 0
    for entry in entries:
        mapping = entry.get("mapping") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(mapping, dict):
            losses.skip("entry that is not a conversation")
            continue
        session = name_of(entry.get("id"), "id", losses) or name_of(entry.get("conversation_id"), "id", losses)
        if session is None:
            unnamed += 1
            session = stem if unnamed == 1 else f"{stem}-{unnamed}"
            losses.note("conversation without an id (named after the file)")
        losses.conversations += 1
        messages = _conversation(entry, mapping, session, losses, all_branches)
        yield from dated(messages, entry.get("create_time"), losses)


def _conversation(
    entry: Mapping[str, object], mapping: Mapping[str, object], session: str, losses: Losses, all_branches: bool
) -> list[Message]:
    nodes: dict[str, dict[str, object]] = {key: node for key, node in mapping.items() if isinstance(node, dict)}
    losses.skip("entry that is not a message", len(mapping) - len(nodes))
    parents = {key: node.get("parent") for key, node in nodes.items()}
    way = branch(parents, entry.get("current_node"), {key: _moment(node) for key, node in nodes.items()})
    taken = set(way)
    others = [key for key, node in nodes.items() if node.get("message") and key not in taken]
    if not any(node.get("message") for node in nodes.values()):
        losses.skip("empty conversation")
    title = name_of(entry.get("title"), "title", losses)
    messages = [_message(key, nodes[key].get("message"), session, title, losses) for key in way]
    if all_branches:
        losses.note("message on an abandoned branch (kept as an alternative)", len(others))
        for key in others:
            message = _message(key, nodes[key].get("message"), session, title, losses)
            messages.append(message and _alternative(message, parents[key]))
    else:
        losses.skip("message on an abandoned branch", len(others))
    return [message for message in messages if message is not None]


def _alternative(message: Message, parent: object) -> Message:
    """The message marked as one of an abandoned branch, with the message that it answers."""
    mark = {"alternative": True, **({"parent": clean(parent, Losses())} if isinstance(parent, str) else {})}
    return replace(message, metadata={**message.metadata, **mark})


def _moment(node: Mapping[str, object]) -> float:
    message = node.get("message")
    time = message.get("create_time") if isinstance(message, dict) else None
    return time if isinstance(time, int | float) and time == time else float("-inf")


def _message(key: str, message: object, session: str, title: str | None, losses: Losses) -> Message | None:
    if not message:  # the root of the tree
        return None
    if not isinstance(message, dict):
        losses.skip("entry that is not a message")
        return None
    author, about = message.get("author"), message.get("metadata")
    author = author if isinstance(author, dict) else {}
    about = about if isinstance(about, dict) else {}
    content = message.get("content")
    text = content if isinstance(content, str) else _text(content, losses)
    if text is None:
        return None
    role = role_of(author.get("role"), losses)
    metadata = {"id": clean(key, losses), **_metadata(about, content, losses)}
    if word := said_role(author.get("role")):
        metadata["role"] = word
    if role == "tool" and (tool := name_of(author.get("name"), "name", losses)):
        metadata["tool"] = tool
    if text.strip() and (about.get("is_visually_hidden_from_conversation") or role == "system"):
        losses.note("hidden or system message (kept, not recalled)")
        metadata["hidden"] = True
    return Message(
        content=text,
        role=role,
        session=session,
        time=time_of(message.get("create_time"), losses),
        metadata=metadata,
        source=f"chatgpt:{session}/{metadata['id']}",
        title=title,
    )


def _text(content: object, losses: Losses) -> str | None:
    """Return the words of a message; None where there are none to take and that is counted."""
    if not isinstance(content, dict):
        return ""
    kind = content.get("content_type")
    if isinstance(kind, str) and kind in _NOT_TAKEN:
        losses.skip(_NOT_TAKEN[kind])
        return None
    keys = _WORDS.get(kind) if isinstance(kind, str) else None
    found = dict.fromkeys(_joined(content.get(key), losses) for key in keys or _ANYWHERE)
    text = "\n\n".join(words for words in found if words.strip())
    if keys is None:
        losses.unknown("content type", kind)
        return text or f"[{_plain(kind)}]"
    return text


def _plain(kind: object) -> str:
    """The name of an unknown type, as a placeholder says it."""
    return f"unknown: {shown(kind)[1:-1]}" if isinstance(kind, str) else "unknown"


def _joined(value: object, losses: Losses) -> str:
    if isinstance(value, list):
        return "\n".join(filter(None, (_part(part, losses) for part in value)))
    return value if isinstance(value, str) else ""


def _part(part: object, losses: Losses) -> str:
    if isinstance(part, str):
        return part
    kind = part.get("content_type") if isinstance(part, dict) else part
    if isinstance(part, dict) and isinstance(kind, str) and kind.endswith("asset_pointer"):
        medium = next((word for word in _MEDIA if word in kind), "file")
        losses.placeholder(medium)
        return f"[{medium}: {_pointer(part)}]"
    text = part.get("text") if isinstance(part, dict) else None
    if kind != "audio_transcription" or not isinstance(text, str):
        losses.unknown("part type", kind)
    return text if isinstance(text, str) else f"[{_plain(kind)}]"


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
        losses.note("attachment (name kept)", len(files), "placeholders")
    if isinstance(content, dict):
        for key in ("language", "title", "url"):
            found[key] = name_of(content.get(key), key, losses)
    return {key: value for key, value in found.items() if value and value != "unknown"}
