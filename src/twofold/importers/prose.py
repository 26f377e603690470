"""Reads Markdown and plain text: a file is a session, what stands under a heading is a message."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator

from twofold.errors import ImportFailed
from twofold.importers.fields import Losses
from twofold.importers.files import Document
from twofold.types import Message

_HEADING = re.compile(r"(#{1,6})[ \t]+(.*?)[ \t]*#*[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
# The store takes 2 MiB a message; a piece without headings is cut well before.
_MOST_PIECE = 400_000
_MOST_LINE = 100_000


def read(document: Document, losses: Losses) -> Iterator[Message]:
    """Yield the pieces of a text in their order, each with its heading; its source is the way of headings to it."""
    losses.conversations += 1
    way: list[tuple[int, str]] = []
    title: str | None = None
    seen: Counter[str] = Counter()
    for heading, piece in _pieces(document):
        if heading:
            way = [one for one in way if one[0] < heading[0]] + [heading]
            title = title or heading[1][:200] or None
        if not piece.strip():
            continue
        place = " / ".join(name for _, name in way)
        seen[place] += 1
        yield Message(
            content=piece.strip("\n"),
            session=document.stem,
            time=document.time,
            metadata={"heading": place} if place else {},
            source=f"text:{document.stem}#{place}" + (f"~{seen[place]}" if seen[place] > 1 else ""),
            title=title,
        )
    if not seen:
        losses.skip("text that says nothing")


def _pieces(document: Document) -> Iterator[tuple[tuple[int, str] | None, str]]:
    """Yield each piece with the heading that begins it, None for the beginning and for what goes on from before."""
    heading: tuple[int, str] | None = None
    lines: list[str] = []
    size = 0
    fence = ""
    for line in _lines(document):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and not line.strip(" `~\r\n"))):
            fence = "" if fence else mark[1]
        found = None if fence else _HEADING.match(line.rstrip("\r\n"))
        if found or size > _MOST_PIECE:
            if lines:
                yield heading, "".join(lines)
            heading = (len(found[1]), found[2].strip()) if found else None
            lines, size = [], 0
        lines.append(line)
        size += len(line)
    if lines:
        yield heading, "".join(lines)


def _lines(document: Document) -> Iterator[str]:
    """Yield the lines of a text, very long ones in parts. Raises ImportFailed naming the line that is no UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    number = 1
    while True:
        data = document.stream.line(_MOST_LINE)
        try:
            line = decoder.decode(data, final=not data)
        except UnicodeDecodeError:
            raise ImportFailed(f"{document.label}, line {number}: not UTF-8: save the file as UTF-8") from None
        if not data:
            return
        yield line
        number += data.endswith(b"\n")
