"""Builders for the shapes of the exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twofold.importers import Losses
from twofold.types import Message

Object = dict[str, Any]
Save = Callable[..., Path]
Read = Callable[..., tuple[list[Message], Losses]]


def node(key: str, parent: str | None, text: object = None, role: str = "user", **more: object) -> Object:
    """Return a node of a ChatGPT tree; `text` None makes a node without a message."""
    content = text if isinstance(text, dict) else {"content_type": "text", "parts": [text]}
    message = {"id": key, "author": {"role": role}, "content": content, "create_time": 1700000000.0, **more}
    return {"id": key, "parent": parent, "children": [], "message": None if text is None else message}


def chatgpt(*nodes: Object, current: object = None, **more: object) -> Object:
    """Return a ChatGPT conversation; the last node is the current one unless `current` says another."""
    return {
        "id": "chat-1",
        "title": "Bread",
        "create_time": 1700000000.0,
        "current_node": nodes[-1]["id"] if current is None and nodes else current,
        "mapping": {one["id"]: one for one in nodes},
        **more,
    }


def chatgpt_of(content: object, role: str = "assistant", **more: object) -> Object:
    """Return a conversation of a single message with this content."""
    one = node("a", None, "x", role, **more)
    one["message"]["content"] = content
    return chatgpt(one)


def said(uuid: str, text: object = "", sender: str = "human", **more: object) -> Object:
    """Return a message of a Claude export."""
    return {"uuid": uuid, "sender": sender, "text": text, "created_at": "2024-03-10T09:00:30.000000Z", **more}


def claude(*messages: object, **more: object) -> Object:
    """Return a Claude conversation."""
    times = {"created_at": "2024-03-10T09:00:00Z", "updated_at": "2024-03-10T09:15:00Z"}
    return {"uuid": "talk-1", "name": "Bread", **times, "chat_messages": list(messages), **more}
