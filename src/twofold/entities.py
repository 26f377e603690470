"""Entities."""

from __future__ import annotations

from twofold.embed import Embedder
from twofold.keyword import KeywordIndex
from twofold.scopes import Reach
from twofold.store import Store


class Entities:
    def __init__(self, store: Store, keyword: KeywordIndex, embedder: Embedder | None, reach: Reach) -> None:
        self._store = store

    def embed_missing(self) -> int:
        return 0
