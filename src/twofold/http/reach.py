"""Whether the model's server can be reached, asked at most every few seconds."""

from __future__ import annotations

import threading
import time

from twofold.errors import ChatError
from twofold.types import Part
from twofold.upstream import Upstream

FRESH = 5.0  # seconds that an answer is good for


class UpstreamHealth:
    """The health of an upstream, kept for a moment: health is asked often, and the answer may take a second."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._lock = threading.Lock()
        self._known: Part | None = None
        self._until = 0.0

    def part(self, model: str) -> Part:
        """The state of the model's server; off where no model is set and none answers."""
        with self._lock:
            if self._known is None or time.monotonic() > self._until:
                self._known = self._asked(model)
                self._until = time.monotonic() + FRESH
            return self._known

    def _asked(self, model: str) -> Part:
        try:
            self._upstream.reachable()
        except ChatError as error:
            return Part("degraded" if model else "off", str(error))
        if not model:
            return Part("off", "the server answers, but no model is set; set llmModel")
        return Part("ok", f"the server answers; {model} is asked")
