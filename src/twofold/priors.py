"""The prior of a store: measured until one is set, kept with those before it so that the last can be taken back."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import apsw

from twofold.errors import InvalidInput
from twofold.retrieve import Prior
from twofold.store import rows

METHODS = ("rrf", "rsf", "dbsf", "convex")

# Two names among the stored settings that are nobody's to set by hand.
TUNED = "prior"
BEFORE = "priorsBefore"  # the latest last; null is the measured one


def read(db: apsw.Connection) -> Prior | None:
    """The prior that was set; None where the measured one counts."""
    stored = rows.read_settings(db).get(TUNED)
    return Prior(**stored) if stored else None


def write(db: apsw.Connection, prior: Prior) -> None:
    """Set a prior, and keep the one before. Raises InvalidInput for one that no recall could be made with."""
    half = abs(prior.words_share) / 2.0  # the share moves by so much
    if prior.method not in METHODS or not half <= prior.keyword <= 1.0 - half:
        raise InvalidInput(
            f"{prior} cannot be used; give one of {', '.join(METHODS)} and a keyword share that stays within 0 and 1"
        )
    stored = rows.read_settings(db)
    before: list[Any] = stored.get(BEFORE, [])
    rows.write_settings(db, {TUNED: asdict(prior), BEFORE: [*before, stored.get(TUNED)]})


def take_back(db: apsw.Connection) -> None:
    """Bring the prior before the last one back. Raises InvalidInput where none was set."""
    before: list[Any] = rows.read_settings(db).get(BEFORE, [])
    if not before:
        raise InvalidInput("there is nothing to undo: this store has the prior that it began with")
    rows.write_settings(db, {TUNED: before[-1], BEFORE: before[:-1]})
