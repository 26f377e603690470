"""Reads session logs of Claude Code: the main chain, what subagents said beside it, tools by name alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twofold.importers.agentlog import Said, blocks, bounded, folded
from twofold.importers.chain import Chain
from twofold.importers.fields import Losses, clean, dated, name_of, role_of, shown, time_of
from twofold.types import Message

_TITLES = {"summary": "summary", "custom-title": "customTitle", "ai-title": "aiTitle"}
# What the program puts into a user's mouth: commands, their output, its own remarks.
_NOT_SAID = ("<command-", "<local-command-", "<bash-", "<user-memory-input>", "Caveat: The messages below")
_HIDING = ("isMeta", "isCompactSummary", "isApiErrorMessage", "isVisibleInTranscriptOnly")
_KEPT = (("cwd", "cwd"), ("gitBranch", "branch"), ("agentId", "agent"))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with what ties it to the others."""

    said: Said
    uuid: str | None
    parent: str | None
    group: tuple[str, bool, str]  # its session, whether it is beside the main chain, whose line it is

    @property
    def is_prompt(self) -> bool:
        """Whether a person said it, who may have said it anew since."""
        message = self.said.message
        return message.role == "user" and bool(message.content.strip()) and not message.metadata.get("hidden")


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield the messages of each session of a log; `stem` names lines without a session."""
    titles: list[str] = []
    lines = list(bounded(_lines(entries, stem, losses, titles), lambda line: len(line.said.message.content)))
    dropped = _abandoned(lines)
    groups: dict[tuple[str, bool, str], list[Said]] = defaultdict(list)
    for place, line in enumerate(lines):
        if place in dropped and not all_branches:
            continue
        said = line.said
        if place in dropped:
            mark = {"alternative": True, **({"parent": line.parent} if line.parent else {})}
            said = replace(said, message=replace(said.message, metadata={**said.message.metadata, **mark}))
        groups[line.group].append(said)
    count = sum(bool(lines[place].said.message.content.strip()) for place in dropped)
    if all_branches:
        losses.note("message on an abandoned branch (kept as an alternative)", count)
    else:
        losses.skip("message on an abandoned branch", count)
    losses.conversations += len({session for session, _, _ in groups})
    title = titles[-1] if titles else None
    for said_in_group in groups.values():
        messages = [replace(message, title=title) for message in folded(said_in_group)]
        yield from dated(messages, None, losses)


def _lines(entries: Iterable[object], stem: str, losses: Losses, titles: list[str]) -> Iterator[_Line]:
    chain = Chain()
    for entry in entries:
        if not isinstance(entry, dict):
            losses.skip("line that is not an object")
            continue
        type_ = entry.get("type")
        if isinstance(type_, str) and type_ in _TITLES:
            title = name_of(entry.get(_TITLES[type_]), "title", losses)
            titles += [title] if title else []
        elif type_ in ("user", "assistant", "system"):
            yield _line(entry, type_, stem, chain, losses)
        else:
            losses.skip(f"line of type {shown(type_)} (no message)")


def _line(entry: Mapping[str, object], type_: str, stem: str, chain: Chain, losses: Losses) -> _Line:
    inner = entry.get("message")
    inner = inner if isinstance(inner, dict) else {"content": inner if isinstance(inner, str) else entry.get("content")}
    text, tools = blocks(inner.get("content"), losses)
    role = role_of(inner.get("role", type_), losses)
    session = name_of(entry.get("sessionId"), "session", losses) or stem
    uuid = name_of(entry.get("uuid"), "id", losses)
    is_aside = entry.get("isSidechain") is True
    metadata: dict[str, object] = {"id": uuid} if uuid else {}
    if model := name_of(inner.get("model"), "model", losses):
        metadata["model"] = model
    for key, kept in _KEPT:
        if isinstance(value := entry.get(key), str) and value.strip():
            metadata[kept] = clean(value, losses)
    if is_aside:
        metadata["sidechain"] = True
    if text.strip() and (type_ == "system" or text.lstrip().startswith(_NOT_SAID) or any(map(entry.get, _HIDING))):
        losses.note("hidden or system message (kept, not recalled)")
        metadata["hidden"] = True
    message = Message(
        content=text,
        role=role,
        session=session,
        time=time_of(entry.get("timestamp"), losses),
        metadata=metadata,
        source=f"claude-code:{session}/{uuid}" if uuid else chain.source(session, None, role, text),
    )
    parent = entry.get("parentUuid") or entry.get("logicalParentUuid")
    return _Line(
        Said(message, tools),
        uuid,
        clean(parent, losses) if isinstance(parent, str) else None,
        (session, is_aside, str(metadata.get("agent", ""))),
    )


def _abandoned(lines: Sequence[_Line]) -> set[int]:
    """The places of prompts that were said anew at the same point, and of all that followed on them.

    Other forks are no choices: a call of two tools at once has two results.
    """
    last: dict[tuple[str, object], int] = {}
    for place, line in enumerate(lines):
        if line.is_prompt and line.parent:
            last[line.parent, line.group] = place
    dropped: set[int] = set()
    gone: set[str] = set()
    for place, line in enumerate(lines):
        anew = line.is_prompt and line.parent and last[line.parent, line.group] != place
        if anew or (line.parent in gone and line.parent):
            dropped.add(place)
            if line.uuid:
                gone.add(line.uuid)
    return dropped
