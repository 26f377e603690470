"""What the logs of coding agents have in common: many calls of tools between few words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from twofold.importers.fields import Losses, TooLarge, shown
from twofold.types import Message

# A log is held in memory until its end, which tells what of it was abandoned. Calls and results of tools, which are
# most of one, do not count.
MOST_CHARACTERS = 256 * 1024**2
PER_LINE = 1000  # what a line takes beside its words

_MEDIA = ("image", "document", "audio")

Line = TypeVar("Line")


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a log: its message, empty where it only calls tools, and the names of these."""

    message: Message
    tools: tuple[str, ...] = ()


def folded(said: Iterable[Said]) -> Iterator[Message]:
    """Yield the messages that say something; the last of a turn names the tools that were used in it.

    A turn of tools alone is one message that names them.
    """
    turn: list[Said] = []
    for one in said:
        if one.message.role == "assistant":
            turn.append(one)
        elif one.message.content.strip():
            yield from _turn(turn)
            turn = []
            yield one.message
    yield from _turn(turn)


def _turn(turn: Sequence[Said]) -> Iterator[Message]:
    tools = list(dict.fromkeys(name for one in turn for name in one.tools))
    words = [one.message for one in turn if one.message.content.strip()]
    if not tools:
        yield from words
        return
    if not words:
        words = [replace(turn[0].message, content=f"[tools: {', '.join(tools)}]")]
    yield from words[:-1]
    yield replace(words[-1], metadata={**words[-1].metadata, "tools": tools})


def bounded(lines: Iterable[Line], words: Callable[[Line], int]) -> Iterator[Line]:
    """Yield lines that say so many characters each, as long as memory can hold them. Raises TooLarge."""
    size = 0
    for line in lines:
        size += words(line) + PER_LINE
        if size > MOST_CHARACTERS:
            raise TooLarge(f"a session log of more than {MOST_CHARACTERS:,} characters without its tools: split it")
        yield line


def blocks(content: object, losses: Losses) -> tuple[str, tuple[str, ...]]:
    """Return the words of a message's content, a string or a list of blocks, and the tools that it calls."""
    listed = content if isinstance(content, list) else [content]
    words: list[str] = []
    tools: list[str] = []
    for block in listed:
        kind = block.get("type", "text" if "text" in block else None) if isinstance(block, dict) else None
        if isinstance(block, str):
            words.append(block)
        elif isinstance(block, dict) and kind in ("tool_use", "server_tool_use"):
            tools.append(tool_name(block.get("name"), losses))
        elif isinstance(block, dict):
            words.append(_block(block, kind, losses))
        elif block is not None:
            losses.unknown("block type", block)
    return "\n\n".join(filter(None, words)), tuple(tools)


def tool_name(name: object, losses: Losses) -> str:
    """Return how a tool is called that a log says was called, and count the call."""
    losses.note("tool call (name kept)", kind="placeholders")
    return shown(name)[1:-1] if isinstance(name, str) and name.isprintable() else "unnamed"


def _block(block: dict[str, object], kind: object, losses: Losses) -> str:
    text = block.get("text")
    if kind in ("text", "input_text", "output_text") and isinstance(text, str):
        if text.lstrip().startswith("<system-reminder>"):
            losses.skip("reminder to the model (not taken)")
            return ""
        return text
    if isinstance(kind, str) and kind.endswith("tool_result"):
        losses.skip("tool result (not taken)")
        return ""
    if kind in ("thinking", "redacted_thinking"):
        losses.skip("thinking block (not taken)")
        return ""
    medium = next((word for word in _MEDIA if isinstance(kind, str) and word in kind), None)
    if medium:
        losses.placeholder(medium)
        return f"[{medium}]"
    losses.unknown("block type", kind)
    if isinstance(text, str):
        return text
    return f"[unknown: {shown(kind)[1:-1]}]" if isinstance(kind, str) else "[unknown]"
