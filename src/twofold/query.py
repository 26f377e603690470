"""What kind of question a query is, and what follows from that: rank constant, weights, keyword query.

The table of kinds is FUSION's, described in ARCHITECTURE.md: a query that names exact words leans on the
keyword side and on the first ranks; a long question leans on meaning and on deeper agreement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from twofold.text import query_words

Kind = Literal["phrase", "boolean", "short", "long", "plain"]

SHORT_TOKENS = 2
LONG_TOKENS = 10

_OPERATOR = re.compile(r"\b(?:AND|OR|NOT)\b|\s-\S")

_K: dict[Kind, float] = {"phrase": 10, "boolean": 15, "short": 15, "long": 40, "plain": 20}
_KEYWORD_WEIGHT: dict[Kind, float] = {"phrase": 0.8, "boolean": 0.7, "short": 0.65, "long": 0.3, "plain": 0.5}


@dataclass(frozen=True, slots=True)
class Query:
    """What can be read off a query without looking anything up."""

    token_count: int
    is_phrase: bool
    is_boolean: bool

    @property
    def kind(self) -> Kind:
        """The first row of the table that holds."""
        if self.is_phrase:
            return "phrase"
        if self.is_boolean:
            return "boolean"
        if self.token_count <= SHORT_TOKENS:
            return "short"
        return "long" if self.token_count >= LONG_TOKENS else "plain"


def characterize(text: str) -> Query:
    """Read a query: a phrase stands as a whole between two quotes; a boolean holds AND, OR, NOT or ` -word`."""
    trimmed = text.strip()
    return Query(
        token_count=len(trimmed.split()),
        is_phrase=len(trimmed) > 2 and trimmed[0] == trimmed[-1] and trimmed[0] in "\"'",
        is_boolean=_OPERATOR.search(trimmed) is not None,
    )


def select_k(query: Query) -> float:
    """The rank constant for reciprocal rank fusion under automatic weights."""
    return _K[query.kind]


def select_weights(query: Query) -> dict[str, float]:
    """The weights of the two retrievers under automatic weights; they add up to 1."""
    keyword = _KEYWORD_WEIGHT[query.kind]
    return {"keyword": keyword, "semantic": round(1.0 - keyword, 2)}


def keyword_query(text: str) -> str | None:
    """The words that keyword search looks up, quoted and joined by OR; None when there are none.

    No sign of the user's text survives as query syntax.
    """
    words = query_words(text)
    return " OR ".join(f'"{word}"' for word in words) if words else None
