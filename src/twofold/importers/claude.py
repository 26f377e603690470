"""Reads the conversations of a Claude account export, and its projects with their documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import cast

from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, dated, name_of, role_of, said_role, shown, time_of
from twofold.importers.openai import system
from twofold.importers.tree import branch
from twofold.types import Message, Role

_NOT_TAKEN = ("thinking", "redacted_thinking", "tool_use", "tool_result", "token_budget")
_MEDIA = ("image", "document", "audio")


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages of each conversation and project; `stem` names those without an id."""
    unnamed = 0
    chain = Chain()
    for entry in entries:
        listed = entry.get("chat_messages") if isinstance(entry, dict) else None
        is_project = isinstance(entry, dict) and ("docs" in entry or "prompt_template" in entry)
        if not isinstance(entry, dict) or not (isinstance(listed, list) or is_project):
            losses.skip("entry that is not a conversation")
            continue
        session = name_of(entry.get("uuid"), "id", losses)
        if session is None:
            unnamed += 1
            session = stem if unnamed == 1 else f"{stem}-{unnamed}"
            losses.note("conversation without an id (named after the file)")
        losses.conversations += 1
        if isinstance(listed, list):
            messages = _conversation(entry, listed, _Making(session, chain, losses), all_branches)
        else:
            messages = _project(entry, session, losses)
        yield from dated(messages, entry.get("created_at"), losses)


@dataclass(frozen=True, slots=True)
class _Making:
    """What the messages of a conversation are made with."""

    session: str
    chain: Chain
    losses: Losses


def _conversation(
    entry: Mapping[str, object], listed: list[object], making: _Making, all_branches: bool
) -> list[Message]:
    losses = making.losses
    if not listed:
        losses.skip("empty conversation")
    found = [message for message in listed if isinstance(message, dict)]
    losses.skip("entry that is not a message", len(listed) - len(found))
    title = name_of(entry.get("name"), "title", losses)
    seen: set[str] = set()
    way = _last_seen(found, entry.get("current_leaf_message_uuid"))
    messages = [_message(message, title, seen, making) for message in way]
    taken = set(map(id, way))
    others = [message for message in found if id(message) not in taken]
    if not all_branches:
        losses.skip("message on an abandoned branch", len(others))
        return messages
    losses.note("message on an abandoned branch (kept as an alternative)", len(others))
    for other in others:
        message = _message(other, title, seen, making)
        parent = name_of(other.get("parent_message_uuid"), "id", losses)
        mark = {"alternative": True, **({"parent": parent} if parent else {})}
        messages.append(replace(message, metadata={**message.metadata, **mark}))
    return messages


def _message(message: Mapping[str, object], title: str | None, seen: set[str], making: _Making) -> Message:
    session, losses = making.session, making.losses
    role = role_of(message.get("sender"), losses)
    text = _text(message, losses)
    uuid = name_of(message.get("uuid"), "id", losses)
    has_own_id = uuid is not None and uuid not in seen
    source = f"claude:{session}/{uuid}" if has_own_id else making.chain.source(session, None, role, text)
    seen.add(uuid or "")
    metadata = {"id": uuid} if uuid else {}
    if word := said_role(message.get("sender")):
        metadata["role"] = word
    return Message(
        content=text,
        role=role,
        session=session,
        time=time_of(message.get("created_at"), losses),
        metadata={**metadata, **_attachments(message)},
        source=source,
        title=title,
    )


def _last_seen(messages: list[dict[str, object]], leaf: object) -> list[dict[str, object]]:
    """Return the messages of the branch last seen; as they are listed where nothing was edited."""
    keyed = {uuid: message for message in messages if isinstance(uuid := message.get("uuid"), str)}
    parents = {uuid: message.get("parent_message_uuid") for uuid, message in keyed.items()}
    forks = Counter(parent for parent in parents.values() if isinstance(parent, str))
    if len(keyed) < len(messages) or not any(count > 1 for count in forks.values()):
        return messages
    return [keyed[uuid] for uuid in branch(parents, leaf, {uuid: place for place, uuid in enumerate(keyed)})]


def _project(entry: Mapping[str, object], session: str, losses: Losses) -> list[Message]:
    """Return a project's instructions, its description and its documents as the messages of a session."""
    title = name_of(entry.get("name"), "title", losses)
    found: list[Message] = []
    prompt, description, docs = (entry.get(key) for key in ("prompt_template", "description", "docs"))
    for part, role, value in (("instructions", "system", prompt), ("description", "user", description)):
        if isinstance(value, str) and value.strip():
            metadata = {"part": part, **system(cast(Role, role), value, losses)}
            found.append(
                Message(value, cast(Role, role), session, None, None, metadata, f"claude:{session}/{part}", title)
            )
    listed = docs if isinstance(docs, list) else []
    taken: Counter[str] = Counter()
    for doc in listed:
        text = doc.get("content") if isinstance(doc, dict) else None
        if not isinstance(doc, dict) or not isinstance(text, str):
            losses.skip("document that is not text")
            continue
        name = name_of(doc.get("filename"), "file name", losses) or "unnamed"
        key = name_of(doc.get("uuid"), "id", losses) or name
        taken[key] += 1
        source = f"claude:{session}/{key}" + (f"~{taken[key]}" if taken[key] > 1 else "")
        time = time_of(doc.get("created_at"), losses)
        content = f"[document: {name}]\n{text}"
        found.append(Message(content, "user", session, None, time, {"document": name}, source, title))
    if not found:
        losses.skip("empty project")
    return found


def _text(message: Mapping[str, object], losses: Losses) -> str:
    """Return the words of the blocks, else the message's own, and the text of what was attached.

    The blocks come first: where a tool was used, `text` says "This block is not supported" in its place.
    """
    own, blocks = message.get("text"), message.get("content")
    if not isinstance(blocks, list):
        blocks = [blocks] if isinstance(blocks, str) else []
    words = "\n\n".join(filter(None, (_block(block, losses) for block in blocks)))
    if not words.strip():
        words = own if isinstance(own, str) else ""
    return "\n\n".join(filter(None, (words, *_attached(message, losses))))


def _block(block: object, losses: Losses) -> str:
    if isinstance(block, str):
        return block
    kind = block.get("type") if isinstance(block, dict) else block
    if kind in _NOT_TAKEN:
        losses.skip(f"{str(kind).replace('_', ' ')} block (not taken)")
        return ""
    text = block.get("text") if isinstance(block, dict) else None
    if kind in _MEDIA:
        losses.placeholder(str(kind))
        return f"[{kind}]"
    if kind != "text":
        losses.unknown("block type", kind)
    if isinstance(text, str):
        return text
    return f"[unknown: {shown(kind)[1:-1]}]" if isinstance(kind, str) else "[unknown]"


def _attached(message: Mapping[str, object], losses: Losses) -> Iterator[str]:
    taken: set[str] = set()
    for key in ("attachments", "files"):
        for name, text in _files(message.get(key), losses):
            if text:
                yield f"[attachment: {name}]\n{text}"
            elif name not in taken:
                losses.placeholder("file")
                yield f"[file: {name}]"
            taken.add(name)


def _files(listed: object, losses: Losses) -> Iterator[tuple[str, str]]:
    for file in listed if isinstance(listed, list) else ():
        if not isinstance(file, dict):
            losses.skip("attachment that is not a file (left out)")
            continue
        text = file.get("extracted_content")
        name = name_of(file.get("file_name"), "file name", losses) or "unnamed"
        yield name, text if isinstance(text, str) and text.strip() else ""


def _attachments(message: Mapping[str, object]) -> dict[str, object]:
    quiet = Losses()  # the names were counted where their text was taken
    names = [name for key in ("attachments", "files") for name, _ in _files(message.get(key), quiet)]
    return {"attachments": list(dict.fromkeys(names))} if names else {}
