"""The vectors of the file as points for an engine."""

from __future__ import annotations

from collections.abc import Collection

import apsw
import numpy as np

from twofold.engines import Point
from twofold.store import vectors as stored
from twofold.store.outbox import Target


def points(db: apsw.Connection, target: Target, ids: Collection[int]) -> dict[int, Point]:
    """Those of the given vectors of the target's model that are there."""
    found = stored.located(db, target.model or 0, ids)
    return {
        id_: Point(id_, session, project, np.frombuffer(blob, dtype=np.float16).astype(np.float32))
        for id_, session, project, blob in found
    }
