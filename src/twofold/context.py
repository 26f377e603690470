"""Context assembly."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twofold.entities import Entities
from twofold.recaller import Recaller
from twofold.retrieve import Retriever
from twofold.scopes import Reach
from twofold.settings import Value
from twofold.store import Store
from twofold.types import Context
from twofold.vectors import VectorIndex


@dataclass(frozen=True, slots=True)
class Held:
    """What a caller has already and shall not get again: episodes by id, messages by their words."""

    ids: Collection[int] = ()
    texts: Collection[str] = ()


class Assembler:
    def __init__(
        self,
        store: Store,
        recaller: Recaller,
        retriever: Retriever,
        vectors: VectorIndex | None,
        entities: Entities,
        reach: Reach,
    ) -> None:
        self._store = store

    def context(
        self,
        message: str,
        *,
        session: str | None,
        project: str | None,
        budget: int | None,
        zone: str | None,
        held: Held,
        settings: Mapping[str, Value],
    ) -> Context:
        raise NotImplementedError
