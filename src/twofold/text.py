"""Text to terms: one pipeline for what is indexed and for what is asked.

A term is what the keyword index stores and what a query looks up. Words are case-folded, stripped of
diacritics and reduced to their English stem; identifiers give their whole and their parts; scripts written
without spaces give single characters and pairs of neighbours; emoji are terms of their own. Terms hold only
a-z, 0-9, `_`, `+`, `#` and characters beyond ASCII, so that FTS5's `ascii` tokenizer splits exactly at the
blanks between them and no text of a user can ever be read as query syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import Stemmer

# Raised whenever the same text would give other terms than before: an index made by another version of the
# pipeline is rebuilt when the store is opened.
ANALYSER = 1

# Only words that hardly ever carry a question's meaning: `time`, `good`, `way`, `don` stay searchable.
STOP_WORDS = frozenset(
    (
        "a about am an and any are as at be been being but by can could did do does doing for from had has have "
        "having he her hers him his how i if in into is it its itself me my no nor not of on one or our ours she "
        "should so some such than that the their theirs them then there these they this those to too us was we "
        "were what when where which who whom whose why will with would you your yours"
    ).split()
)

LONGEST_TERM = 64  # characters; a longer word is known by its beginning, on both sides alike
MOST_PARTS = 8  # a compound of more parts (a path, an address) is known by its parts alone

# Marks that complete a letter in the scripts where they carry the vowel or the voice.
_MARKS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0900-\u0903\u093a-\u094f\u0951-\u0957\u0962\u0963"
    "\u0981-\u0983\u09bc-\u09d7\u0a01-\u0a03\u0a3c-\u0a51\u0a70\u0a71\u0a81-\u0a83\u0abc-\u0acd"
    "\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bd7\u0c00-\u0c04\u0c3c-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6"
    "\u0d00-\u0d03\u0d3b-\u0d57\u0d81-\u0d83\u0dca-\u0ddf\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc"
    "\u0711\u0730-\u074a\u07a6-\u07b0\u07eb-\u07f3\u1920-\u193b\u1ab0-\u1ace\u1b00-\u1b04\u1b34-\u1b44\u1dc0-\u1dff"
    "\u20d0-\u20dc\u20e1\u20e5-\u20f0\ua980-\ua983\ua9b3-\ua9c0\ufe20-\ufe2f"
    "\u0ec8-\u0ece\u0f35\u0f37\u0f39\u0f90-\u0fbc\u0f71-\u0f84\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u3099\u309a"
)
# Thai, Lao, Tibetan, Burmese, Khmer; kana; Han with its extensions; Hangul, whose words carry their particles.
_UNSPACED = (
    "\u0e01-\u0e30\u0e32\u0e33\u0e40-\u0e46\u0e81-\u0eb0\u0eb2\u0eb3\u0ebd-\u0ec6\u0edc-\u0edf\u0f40-\u0f6c"
    "\u1000-\u102a\u103f\u1050-\u1055\u1780-\u17b3\u3005-\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa"
    "\u30fc-\u30ff\u3105-\u312f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7a3"
    "\U00020000-\U0003ffff"
)
_EMOJI = (
    "\u00a9\u00ae\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2934\u2935\u3030"
    "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
)
# With its marks, all of them: some of the ranges hold letters too, and two ways to read one would cost 2^n.
_LETTER = rf"(?:[^\W_][{_MARKS}]*+)"

# A compound is letters and numbers joined by single signs: user_id, POL-358, v1.2.3, a/b, grammar::fa.
_JOINT = r"(?:[_\-./:@'’&=%+#\\]|::|->)"
_TAIL = r"(?:\+\+|#(?!\w))?"
_CHUNK = re.compile(rf"{_LETTER}+(?:{_JOINT}{_LETTER}+)*{_TAIL}|[{_EMOJI}]")
_ASCII_CHUNK = re.compile(rf"[A-Za-z0-9]+(?:{_JOINT}[A-Za-z0-9]+)*{_TAIL}")
_WORD = re.compile(rf"{_LETTER}+")
_JOINED_BY_APOSTROPHE = re.compile(rf"{_LETTER}+(?:['’]{_LETTER}+)+")
_CAMEL_STEP = re.compile(r"[a-z0-9][A-Z]|[A-Z][A-Z][a-z]")
_CAMEL_PART = re.compile(r"[A-Z]+(?![^A-Z0-9])|[A-Z]?[^A-Z0-9]+|[0-9]+")
_DIACRITICS = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670]")
_IS_MARK = re.compile(f"[{_MARKS}]")
_TAIL_ENDS = re.compile(r"\+\+|#(?!\w)")
_SIGNS = str.maketrans({"‘": "'", "’": "'", "‐": "-"})
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u0640\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]"
)

_stem = Stemmer.Stemmer("english").stemWord  # has a cache of its own


class _Unspaced(NamedTuple):
    """Patterns for scripts written without spaces: a run of one script, a letter with its marks, a letter."""

    segment: re.Pattern[str]
    unit: re.Pattern[str]
    letter: re.Pattern[str]


@cache
def _unspaced() -> _Unspaced:
    """Made when the first such letter may be met: they take longer to compile than all others."""
    return _Unspaced(
        re.compile(rf"(?:[{_UNSPACED}][{_MARKS}]*)+|[^{_UNSPACED}]+"),
        re.compile(rf"[{_UNSPACED}][{_MARKS}]{{0,31}}"),  # so that a pair is no longer than LONGEST_TERM
        re.compile(f"[{_UNSPACED}]"),
    )


class _Word(NamedTuple):
    """One word as a person sees it, and its terms. `weak` words are left out of a query that has others."""

    surface: str
    indexed: tuple[str, ...]
    asked: tuple[str, ...]
    weak: bool = False


def index_terms(text: str) -> list[str]:
    """The terms of a text, in its order, repeated as often as they occur."""
    return [term for word in compounds(text) for term in terms_of(word)]


def compounds(text: str) -> list[str]:
    """The words of a text, those that signs join as one; what is no word is left out."""
    if text.isascii():
        return _ASCII_CHUNK.findall(text)
    return _CHUNK.findall(_INVISIBLE.sub("", unicodedata.normalize("NFKC", text)))


def terms_of(compound: str) -> tuple[str, ...]:
    """The terms that one of `compounds` is indexed by."""
    return tuple(term for word in _analyse(compound) for term in word.indexed)


def query_words(text: str) -> list[str]:
    """The distinct words of a query that are looked up: no stop words, single characters only if alone."""
    return list(dict.fromkeys(word.surface for word in _asked(text) if word.surface))


def query_terms(text: str) -> list[str]:
    """The distinct terms that a query looks up, in its order; empty when it has nothing to look up."""
    return list(dict.fromkeys(term for word in _asked(text) for term in word.asked))


def fold(text: str) -> str:
    """The form in which names are compared: one case, no diacritics or invisible marks, single blanks."""
    if text.isascii():
        return " ".join(text.lower().split())
    seen = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text)).translate(_SIGNS)
    return " ".join(_fold(seen).split())


def stands_in(name: str, text: str) -> bool:
    """Whether a name stands in a text, both folded, as a word or words of its own.

    Scripts written without spaces have no edges of words: there it may stand anywhere.
    """
    place = text.find(name) if name else -1
    while place >= 0:
        if _is_edge(text, place) and _is_edge(text, place + len(name)):
            return True
        place = text.find(name, place + 1)
    return False


def _is_edge(text: str, place: int) -> bool:
    """Whether a word may end before a place and another begin there."""
    if place in (0, len(text)):
        return True
    if _IS_MARK.match(text[place]):
        return False
    before = place - 1
    while before > 0 and _IS_MARK.match(text[before]):
        before -= 1
    if text[before].isalnum() and _TAIL_ENDS.match(text, place):
        return False  # C is not named where C++ or C# is
    return not (_is_spaced(text[before]) and _is_spaced(text[place]))


def _is_spaced(character: str) -> bool:
    return character.isalnum() and (character.isascii() or not _unspaced().letter.match(character))


def _asked(text: str) -> list[_Word]:
    words = [word for chunk in compounds(text) for word in _analyse(chunk) if word.asked]
    strong = [word for word in words if not word.weak]
    return strong if any(word.surface for word in strong) else words


def _analyse(chunk: str) -> tuple[_Word, ...]:
    return _analyse_short(chunk) if len(chunk) <= LONGEST_TERM else _words_of(chunk)


def _words_of(chunk: str) -> tuple[_Word, ...]:
    """A chunk's words; last, without a surface of its own, the compound as a whole."""
    parts = _WORD.findall(chunk)
    if not parts:
        return (_Word(chunk, (chunk,), (chunk,)),)  # an emoji
    words = [word for part in parts for word in _words_of_part(part)]
    whole = _whole(chunk, parts)
    if whole:
        words.append(_Word("", (whole,), (whole,)))
    return tuple(words)


_analyse_short = lru_cache(maxsize=1 << 15)(_words_of)


def _whole(chunk: str, parts: list[str]) -> str | None:
    """The term for a compound: its parts joined by `_`, whatever signs joined them; `c++` and `c#` as such."""
    tail = "++" if chunk.endswith("++") else "#" if chunk.endswith("#") else ""
    compound = 1 < len(parts) <= MOST_PARTS and not _JOINED_BY_APOSTROPHE.fullmatch(chunk)
    whole = "_".join(map(_fold, parts)) + tail
    return whole if (compound or (tail and len(parts) == 1)) and len(whole) <= LONGEST_TERM else None


def _words_of_part(part: str) -> Iterator[_Word]:
    """The words of one run of letters and numbers, cut where its script changes between spaced and not."""
    if part.isascii():
        yield _spaced_word(part)
        return
    for segment in _unspaced().segment.findall(part):
        if _unspaced().letter.match(segment):
            yield _unspaced_word(_fold(segment))
        else:
            yield _spaced_word(segment)


def _spaced_word(part: str) -> _Word:
    folded = _fold(part)[:LONGEST_TERM]
    terms = () if folded in STOP_WORDS else (_term(folded),)
    if folded in STOP_WORDS or not _CAMEL_STEP.search(part):
        return _Word(folded, terms, terms, weak=len(folded) == 1)
    pieces = [_fold(piece)[:LONGEST_TERM] for piece in _CAMEL_PART.findall(part)]
    indexed = tuple(_term(piece) for piece in pieces if piece and piece not in STOP_WORDS)
    return _Word(folded, terms + indexed, terms + tuple(t for t in indexed if len(t) > 1))


def _unspaced_word(run: str) -> _Word:
    """Single characters and pairs of neighbours; a query of two characters or more asks for its pairs."""
    units = _unspaced().unit.findall(run)
    pairs = tuple(a + b for a, b in pairwise(units))
    return _Word(run, (*units, *pairs), pairs or tuple(units))


def _term(folded: str) -> str:
    """The English stem of a word of plain letters; anything else as it stands."""
    return _stem(folded) if folded.isascii() and folded.isalpha() else folded


def _fold(word: str) -> str:
    """Lower case without diacritics, in one normal form."""
    if word.isascii():
        return word.lower()
    bare = _DIACRITICS.sub("", unicodedata.normalize("NFKD", word.casefold()))
    return unicodedata.normalize("NFKC", bare)
