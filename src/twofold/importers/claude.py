"""Reads conversations of a Claude account export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, dated, name_of, role_of, shown, time_of
from twofold.importers.tree import branch
from twofold.types import Message

_NOT_TAKEN = ("thinking", "redacted_thinking", "tool_use", "tool_result", "token_budget")


def read(entries: Iterable[object], stem: str, losses: Losses) -> Iterator[Message]:
    """Yield the messages of each conversation; `stem` names those without an id."""
    unnamed = 0
    chain = Chain()
    for entry in entries:
        listed = entry.get("chat_messages") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(listed, list):
            losses.note("entry that is not a conversation")
            continue
        session = name_of(entry.get("uuid"), "id", losses)
        if session is None:
            unnamed += 1
            session = stem if unnamed == 1 else f"{stem}-{unnamed}"
            losses.note("conversation without an id (named after the file)")
        yield from dated(_conversation(entry, listed, session, chain, losses), entry.get("created_at"), losses)


def _conversation(
    entry: Mapping[str, object], listed: list[object], session: str, chain: Chain, losses: Losses
) -> list[Message]:
    if not listed:
        losses.note("empty conversation")
    found = [message for message in listed if isinstance(message, dict)]
    losses.note("entry that is not a message", len(listed) - len(found))
    title = name_of(entry.get("name"), "title", losses)
    seen: set[str] = set()
    messages = []
    for message in _last_seen(found, entry.get("current_leaf_message_uuid"), losses):
        role = role_of(message.get("sender"), losses)
        text = _text(message, losses)
        uuid = name_of(message.get("uuid"), "id", losses)
        source = chain.source(session, None, role, text) if uuid is None or uuid in seen else f"claude:{session}/{uuid}"
        seen.add(uuid or "")
        messages.append(
            Message(
                content=text,
                role=role,
                session=session,
                time=time_of(message.get("created_at"), losses),
                metadata=_metadata(message, losses),
                source=source,
                title=title,
            )
        )
    return messages


def _last_seen(messages: list[dict[str, object]], leaf: object, losses: Losses) -> list[dict[str, object]]:
    """Return the messages of the branch last seen; as they are listed where nothing was edited."""
    keyed = {uuid: message for message in messages if isinstance(uuid := message.get("uuid"), str)}
    parents = {uuid: message.get("parent_message_uuid") for uuid, message in keyed.items()}
    forks = Counter(parent for parent in parents.values() if isinstance(parent, str))
    if len(keyed) < len(messages) or not any(count > 1 for count in forks.values()):
        return messages
    way = branch(parents, leaf, {uuid: place for place, uuid in enumerate(keyed)})
    losses.note("message on an abandoned branch", len(messages) - len(way))
    return [keyed[uuid] for uuid in way]


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
        losses.note(f"{str(kind).replace('_', ' ')} block (not taken)")
        return ""
    text = block.get("text") if isinstance(block, dict) else None
    if kind != "text":
        losses.note(f"unknown block type {shown(kind)}")
    return text if isinstance(text, str) else ""


def _attached(message: Mapping[str, object], losses: Losses) -> Iterator[str]:
    taken: set[str] = set()
    for key in ("attachments", "files"):
        for name, text in _files(message.get(key), losses):
            if text:
                yield f"[attachment: {name}]\n{text}"
            elif name not in taken:
                losses.note("file (placeholder kept)")
                yield f"[file: {name}]"
            taken.add(name)


def _files(listed: object, losses: Losses) -> Iterator[tuple[str, str]]:
    for file in listed if isinstance(listed, list) else ():
        if not isinstance(file, dict):
            losses.note("attachment that is not a file (left out)")
            continue
        text = file.get("extracted_content")
        name = name_of(file.get("file_name"), "file name", losses) or "unnamed"
        yield name, text if isinstance(text, str) and text.strip() else ""


def _metadata(message: Mapping[str, object], losses: Losses) -> dict[str, object]:
    quiet = Losses()  # the names were counted where their text was taken
    names = [name for key in ("attachments", "files") for name, _ in _files(message.get(key), quiet)]
    return {"attachments": list(dict.fromkeys(names))} if names else {}
