"""What kind of history an entry belongs to, seen from its keys."""

from __future__ import annotations

from collections.abc import Mapping

from twofold.importers.codex import LINES as CODEX_LINES
from twofold.importers.exported import MARK

_BY_KEY = {"mapping": "chatgpt", "chat_messages": "claude", "prompt_template": "claude"}
_CLAUDE_CODE = frozenset(
    {"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "progress"}
)
# Of other files of an account export: ratings of messages.
_NO_MESSAGE = frozenset({"rating", "evaluation_name"})


def kind_of(value: object, lines: bool) -> str | None:
    """Return the kind of history that an entry is of, None where none is seen; `lines` as in `Entries`."""
    if not isinstance(value, dict):
        return None
    if MARK in value:
        return "jsonl"
    for key, kind in _BY_KEY.items():
        if key in value:
            return kind
    if isinstance(value.get("docs"), list) and "uuid" in value:
        return "claude"
    return _log(value) or _of_messages(value, lines)


def _log(value: Mapping[str, object]) -> str | None:
    type_ = value.get("type")
    type_ = type_ if isinstance(type_, str) else ""
    if ("payload" in value and type_ in CODEX_LINES) or ("instructions" in value and "timestamp" in value):
        return "codex"
    if type_ in ("entity", "relation") and ("entityType" in value or "relationType" in value):
        return "mcp-memory"
    if "sessionId" in value and (type_ == "session_metadata" or "projectHash" in value or "startTime" in value):
        return "gemini"
    if type_ in _CLAUDE_CODE and value.keys() & {"sessionId", "parentUuid", "leafUuid", "snapshot"}:
        return "claude-code"
    return None


def _of_messages(value: Mapping[str, object], lines: bool) -> str | None:
    if isinstance(value.get("conversations"), list):
        return "sharegpt"
    if "messages" in value:
        return "openai"
    if ("content" not in value and "role" not in value) or value.keys() & _NO_MESSAGE:
        return None
    return "jsonl" if lines or "session" in value or "source" in value else "openai"
