"""Arrays are parsed through a window of the file: what comes out is what the whole would give, or its fault."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from twofold.errors import ImportFailed
from twofold.importers.entries import entries
from twofold.importers.files import Document, Stream

parsing = import_module("twofold.importers.entries")  # whose name in the package is its function's

values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=40)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=4)),
    max_leaves=20,
)


def document(data: bytes) -> Document:
    return Document("'x'", "x", Stream(io.BytesIO(data), "'x'"), datetime(2024, 1, 1, tzinfo=UTC))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A window of few bytes, so that every value is cut by its edges."""
    monkeypatch.setattr(parsing, "_LOOK", 7)
    monkeypatch.setattr(parsing, "_CHUNK", 5)


@pytest.mark.usefixtures("narrow")
@settings(max_examples=400)
@given(
    array=st.lists(values, max_size=6),
    indent=st.sampled_from([None, 0, 3]),
    ascii_only=st.booleans(),
    bom=st.booleans(),
)
@example(array=[123456789012345678901234567890, 1.5e300, "é\U0001f600\\u00e9", {"a" * 30: [[[]]]}], indent=1,
         ascii_only=False, bom=True)  # fmt: skip
def test_an_array_gives_its_elements_however_the_window_cuts_them(
    array: list[Any], indent: int | None, ascii_only: bool, bom: bool
) -> None:
    text = json.dumps(array, indent=indent, ensure_ascii=ascii_only) + "\n "
    found = entries(document((b"\xef\xbb\xbf" if bom else b"") + text.encode("utf-8", "surrogatepass")), lines=False)
    assert list(found.values) == array


@pytest.mark.usefixtures("narrow")
@settings(max_examples=400)
@given(array=st.lists(values, min_size=1, max_size=4), data=st.data())
def test_a_cut_array_gives_its_first_elements_and_then_its_place(array: list[Any], data: st.DataObject) -> None:
    text = json.dumps(array).encode()
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    got: list[Any] = []
    with pytest.raises(ImportFailed, match="'x', line 1, column"):
        for value in entries(document(cut), lines=False).values:
            got.append(value)
    whole = array[: len(got)]
    assert got[:-1] == whole[:-1]
    # Of a number at the cut there is only a part.
    assert not got or got[-1] == whole[-1] or isinstance(whole[-1], int | float)


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"a": 1},\n {"b": }]', "line 2, column 8: not JSON (Expecting value)"),
        ("[1,\n\n 2 3]", "line 3, column 4: not JSON (Expecting ',' delimiter)"),
        ("[1]\n[2]", "line 2, column 1: not JSON (Extra data)"),
        ('["' + "é" * 50 + '",\n tru]', "line 2, column 2: not JSON (Expecting value)"),
        ("[1,]", "column 4: not JSON (Expecting value)"),
        ("[", "column 2: not JSON (Expecting value)"),
    ],
)
def test_a_fault_is_named_by_line_and_column_wherever_the_window_stands(text: str, says: str) -> None:
    with pytest.raises(ImportFailed) as caught:
        list(entries(document(text.encode()), lines=False).values)
    assert says in str(caught.value)


def test_an_entry_over_the_limit_is_refused_before_it_fills_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MOST_ENTRY", 1 << 20)
    fitting, long = json.dumps(["x" * (1 << 19)]), '["' + "x" * (3 << 20) + '"]'
    three = f"[{fitting[1:-1]},{fitting[1:-1]},{fitting[1:-1]}]"
    assert len(list(entries(document(three.encode()), lines=False).values)) == 3
    for text in (long, '{"a": ' + long + "}", '{"a": 1}\n{"a": ' + long + "}\n"):
        with pytest.raises(ImportFailed, match="of more than 1,048,576 bytes"):
            list(entries(document(text.encode()), lines=False).values)


def test_only_the_window_is_held_of_a_long_array() -> None:
    class Endless:
        """An array without an end, of which each element is a megabyte."""

        given = 0

        def readline(self, size: int) -> bytes:
            return self.read(size)

        def read(self, size: int) -> bytes:
            self.given += 1
            return (b"[" if self.given == 1 else b'"' + b"x" * (1 << 20) + b'",')[: max(size, 1 << 21)]

    raw = Endless()
    found = entries(Document("'x'", "x", Stream(raw, "'x'"), datetime(2024, 1, 1, tzinfo=UTC)), lines=False)
    for number, value in enumerate(found.values, start=1):
        assert value == "x" * (1 << 20)
        assert raw.given <= number + 4
        if number == 50:
            break
