"""A reranker that needs no model: for tests, of Twofold's users as well."""

from __future__ import annotations

from collections.abc import Sequence


class OverlapReranker:
    """Scores a text by how many of the query's words it holds, whatever their case."""

    @property
    def name(self) -> str:
        return "word-overlap"

    def score(self, query: str, texts: Sequence[str]) -> list[float]:
        wanted = set(query.lower().split())
        return [float(len(wanted & set(text.lower().split()))) for text in texts]
