"""Which parts of a text match a query's terms, so that they can be shown."""

from __future__ import annotations

import re
from collections.abc import Collection

from twofold.text import index_terms

_WORD = re.compile(r"\w+(?:['’]\w+)*")

Span = tuple[int, int]


def marks(text: str, terms: Collection[str]) -> list[Span]:
    """The matching stretches as (start, end) in UTF-16 code units, as browsers count, sorted and disjoint.

    A word matches as a whole by its stem; in scripts without spaces the terms themselves are marked.
    """
    wanted = frozenset(terms)
    found: list[Span] = []
    for word in _WORD.finditer(text):
        held = [term for term in index_terms(word[0]) if term in wanted]
        if not held:
            continue
        inner = [] if word[0].isascii() else _inner(word[0], held)
        found += [(word.start() + start, word.start() + end) for start, end in inner] or [word.span()]
    return _in_utf16(text, _merged(found))


def _inner(word: str, terms: Collection[str]) -> list[Span]:
    """Where terms stand within a run of letters that is longer than they are."""
    low = word.lower()
    if len(low) != len(word):
        return []
    return [hit.span() for term in terms if len(term) < len(low) for hit in re.finditer(re.escape(term), low)]


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _in_utf16(text: str, spans: list[Span]) -> list[Span]:
    if text.isascii():
        return spans
    result, units, at = [], 0, 0
    for start, end in spans:
        units += len(text[at:start].encode("utf-16-le")) // 2
        first = units
        units += len(text[start:end].encode("utf-16-le")) // 2
        result.append((first, units))
        at = end
    return result
