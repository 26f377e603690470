"""Whatever JSON a file holds, a reader yields storable messages or raises ImportFailed, nothing else."""

from __future__ import annotations

import contextlib
import json
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.errors import ImportFailed
from twofold.importers import KINDS, Losses, read
from twofold.types import ROLES

_NAMES = """
    id conversation_id uuid title name mapping current_node parent message author role content content_type
    parts text result create_time created_at metadata is_visually_hidden_from_conversation attachments
    file_name extracted_content chat_messages sender files messages type tool_calls refusal image_url
    asset_pointer session project time source parent_message_uuid thoughts code user assistant
"""
WORDS = _NAMES.split()

text = st.one_of(st.sampled_from(WORDS), st.text(st.characters(), max_size=6))
scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), text, st.just("2024-01-01T00:00:00"))
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(text, inner, max_size=6)),
    max_leaves=25,
)
nodes = st.fixed_dictionaries(
    {},
    optional={
        "parent": st.one_of(st.sampled_from("abcd"), values),
        "message": st.one_of(
            values,
            st.fixed_dictionaries(
                {"content": values}, optional={"author": values, "metadata": values, "create_time": values}
            ),
        ),
    },
)
conversations = st.fixed_dictionaries(
    {},
    optional={
        "mapping": st.dictionaries(st.sampled_from("abcd"), st.one_of(nodes, values)),
        "current_node": st.one_of(st.sampled_from("abcd"), values),
        "chat_messages": st.lists(
            st.one_of(values, st.dictionaries(st.sampled_from(["uuid", "text", "content", *WORDS]), values))
        ),
        "messages": st.lists(st.dictionaries(st.sampled_from(["role", "content"]), values)),
        "content": values,
        "role": values,
        "session": values,
        "metadata": values,
        "id": values,
        "title": values,
    },
)


def check(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    for kind in (None, *KINDS):
        losses = Losses()
        with contextlib.suppress(ImportFailed):
            for message in read(path, losses, kind=kind):
                assert message.content.strip() and message.session and message.source
                for field in (
                    message.content,
                    message.session,
                    message.title,
                    message.project,
                    message.source,
                ):
                    assert field is None or field.encode() is not None
                assert message.role in ROLES
                assert message.time is None or message.time.utcoffset() == timedelta(0) == UTC.utcoffset(None)
                json.dumps(dict(message.metadata), ensure_ascii=False, allow_nan=False).encode()
        assert all(count > 0 for count in losses.values())
        assert all(reason.isprintable() for reason in losses)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "any.json"


@settings(max_examples=300, deadline=None)
@given(value=values)
def test_any_json_value_is_read_or_refused(path: Path, value: Any) -> None:
    check(path, json.dumps(value).encode())


@settings(max_examples=300, deadline=None)
@given(entries=st.lists(st.one_of(conversations, values), max_size=4), lines=st.booleans())
def test_anything_in_the_shape_of_a_history_is_read_or_refused(path: Path, entries: list[Any], lines: bool) -> None:
    data = "\n".join(map(json.dumps, entries)) if lines else json.dumps(entries)
    check(path, data.encode())


@settings(max_examples=200, deadline=None)
@given(
    data=st.binary(max_size=60),
    head=st.sampled_from([b"", b"[", b"{", b"\x1f\x8b", b"PK\x03\x04", b'{"a":1}\n']),
)
def test_any_bytes_are_read_or_refused(path: Path, data: bytes, head: bytes) -> None:
    check(path, head + data)
