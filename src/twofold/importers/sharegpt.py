"""Reads conversations in the shape of ShareGPT's data sets: `{"conversations": [{"from", "value"}]}`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, dated, name_of, role_of, said_role, time_of
from twofold.importers.openai import content_text, system
from twofold.types import Message


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages of each conversation; those without an id are called `stem`, `stem-2`, and so on."""
    chain = Chain()
    unnamed = 0
    for entry in entries:
        listed = entry.get("conversations") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(listed, list):
            losses.skip("entry that is not a conversation")
            continue
        session = name_of(entry.get("id"), "id", losses)
        if session is None:
            unnamed += 1
            session = stem if unnamed == 1 else f"{stem}-{unnamed}"
            losses.note("conversation without an id (named after the file)")
        losses.conversations += 1
        if not listed:
            losses.skip("empty conversation")
        title = name_of(entry.get("title"), "title", losses)
        found = [message for turn in listed for message in _message(turn, session, title, chain, losses)]
        yield from dated(found, entry.get("create_time"), losses)


def _message(turn: object, session: str, title: str | None, chain: Chain, losses: Losses) -> Iterator[Message]:
    if not isinstance(turn, dict):
        losses.skip("entry that is not a message")
        return
    said: Mapping[str, object] = turn
    speaker = said.get("from", said.get("role"))
    text = content_text(said.get("value", said.get("content")), losses)
    if text is None:
        return
    role = role_of(speaker, losses)
    word = said_role(speaker)
    yield Message(
        content=text,
        role=role,
        session=session,
        time=time_of(said.get("timestamp"), losses),
        metadata=system(role, text, losses) | ({"role": word} if word else {}),
        source=chain.source(session, None, role, text),
        title=title,
    )
