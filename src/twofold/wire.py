"""Messages and answers as OpenAI's chat API has them: dictionaries of the world outside, read with care."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twofold import quoting
from twofold.errors import ChatError, InvalidInput
from twofold.messages import MOST_BYTES

Body = Mapping[str, Any]

_OTHER_SHAPE = "the language model's server gave what is no answer of a chat; check llmBaseUrl"
_OF_SYSTEM = ("system", "developer")


def messages_of(body: object) -> list[dict[str, Any]]:
    """The conversation that a request holds. Raises InvalidInput."""
    messages = body.get("messages") if isinstance(body, Mapping) else None
    if not isinstance(messages, list) or not messages:
        raise InvalidInput("messages is missing or empty; give a list of messages, each with a role and a content")
    for place, message in enumerate(messages, start=1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise InvalidInput(f"message {place} has no role; give an object with a role and a content")
    return messages


def text_of(message: Mapping[str, Any]) -> str:
    """The words of a message; of a content in parts, its text parts."""
    content = message.get("content")
    if content is None:
        content = message.get("refusal")
    if isinstance(content, list):
        texts = (part.get("text", part.get("refusal")) for part in content if isinstance(part, dict))
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def last_of_user(messages: Sequence[Mapping[str, Any]]) -> str:
    """The words of the last message that is the user's, "" where there is none."""
    return next((text_of(message) for message in reversed(messages) if message["role"] == "user"), "")


def has_history(messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether anything was said before the last message."""
    return any(message["role"] not in _OF_SYSTEM for message in messages[:-1])


def said(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """What tells a conversation from others: of each message the role, the words and the ids of tool calls.

    White space does not count, since clients trim it, nor do system messages, which hold the time of day.
    """
    return [
        (message["role"], " ".join(text_of(message).split()), *_calls(message.get("tool_calls")))
        for message in messages
        if message["role"] not in _OF_SYSTEM
    ]


def until_last_answer(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The conversation up to the assistant's last message: what was there when we answered last."""
    places = [place for place, message in enumerate(messages, start=1) if message["role"] == "assistant"]
    return list(messages[: places[-1]]) if places else []


def with_memory(
    messages: Sequence[Mapping[str, Any]], memory: str, recent: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The conversation after the quoted memory, which joins a leading system message, and the recent messages."""
    leading = 1 if messages[0]["role"] in _OF_SYSTEM else 0
    head, rest = list(messages[:leading]), messages[leading:]
    if memory and head and isinstance(head[0].get("content"), str):
        head = [{**head[0], "content": f"{head[0]['content']}\n\n{memory}".strip()}]
    elif memory:
        head = [{"role": "system", "content": memory}, *head]
    return [*head, *recent, *rest]


@dataclass(slots=True)
class Answer:
    """The first choice of an answer, as far as it has come."""

    parts: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    finish: str | None = None

    @property
    def text(self) -> str:
        """Its words."""
        return "".join(self.parts)

    @property
    def begun(self) -> bool:
        """Whether anything of it is there."""
        return bool(self.parts or self.calls or self.finish)

    def said(self) -> tuple[str, ...]:
        """The answer as `said` will have it when it comes back."""
        return ("assistant", " ".join(self.text.split()), *self.calls)

    def take(self, chunk: Mapping[str, Any]) -> str:
        """Take what a chunk brings; returns its words. Raises ChatError for what is no chunk of an answer."""
        return self._take(chunk, "delta")

    def take_whole(self, completion: Mapping[str, Any]) -> None:
        """Take an answer that came at once. Raises ChatError for what is none."""
        if not completion["choices"]:
            raise ChatError(_OTHER_SHAPE)
        self._take(completion, "message")
        self.finish = self.finish or "stop"

    def _take(self, answer: Mapping[str, Any], part: str) -> str:
        for choice in answer["choices"]:
            message = choice.get(part) if isinstance(choice, dict) else None
            if not isinstance(message, dict):
                raise ChatError(_OTHER_SHAPE)
            if not choice.get("index"):
                text = text_of(message)
                self.parts += [text] if text else []
                self.calls += _calls(message.get("tool_calls"))
                if isinstance(choice.get("finish_reason"), str):
                    self.finish = choice["finish_reason"]
                return text
        return ""


def storable(text: str) -> str:
    """Words from outside as they can be stored, "" where there are none: without what they quote from the memory."""
    plain = quoting.unquoted(mended(text)).strip()
    return plain.encode()[:MOST_BYTES].decode(errors="ignore")


def mended(text: str) -> str:
    """The text with halves of characters put together, and a sign in the place of a half that is alone."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _calls(calls: object) -> list[str]:
    """The ids of tool calls; of one that comes in pieces, the first alone has it."""
    found = [call.get("id") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return [id_ for id_ in found if isinstance(id_, str) and id_]
