"""Which episodes name which entities."""

from __future__ import annotations

from collections.abc import Sequence

import apsw


def link(db: apsw.Connection, episodes: Sequence[int]) -> None:
    """Make the mentions of these episodes what their texts say now."""
