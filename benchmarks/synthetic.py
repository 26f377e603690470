"""A made-up history of any size: the sample history's words, a long tail of invented ones, topics by session."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from pathlib import Path

from twofold import Message

SAMPLE = Path(__file__).parents[1] / "examples" / "history.jsonl"
SESSION = 20  # messages
PROJECT = 10  # sessions
TAIL = 40_000  # invented words
TOPIC = 40  # of them belong to a session
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "en", "or", "il")]


class History:
    """Messages and questions, the same for the same seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        spoken = Counter(
            word
            for line in SAMPLE.read_text(encoding="utf-8").splitlines()
            for word in json.loads(line)["content"].split()
        )
        self._words, counts = zip(*sorted(spoken.items()), strict=True)
        self._counts = list(accumulate(counts))
        self._tail = sorted(
            {"".join(self._random.choices(SYLLABLES, k=self._random.randint(2, 3))) for _ in range(TAIL)}
        )
        self._tail_weights = list(accumulate(1 / (rank + 50) for rank in range(len(self._tail))))

    def messages(self, count: int) -> Iterator[Message]:
        """`count` messages of 5 to 60 words, session by session."""
        start = datetime(2020, 1, 1, tzinfo=timezone.utc)
        topic: list[str] = []
        for number in range(count):
            session = number // SESSION
            if number % SESSION == 0:
                topic = self._random.choices(self._tail, cum_weights=self._tail_weights, k=TOPIC)
            yield Message(
                self._text(topic),
                role="assistant" if number % 2 else "user",
                session=f"session-{session}",
                project=f"project-{session // PROJECT}",
                time=start + timedelta(minutes=7 * number),
                source=str(number),
            )

    def _text(self, topic: list[str]) -> str:
        length = min(60, max(5, int(self._random.lognormvariate(3.0, 0.5))))
        common = self._random.choices(self._words, cum_weights=self._counts, k=length)
        return " ".join(self._random.choice(topic) if self._random.random() < 0.2 else word for word in common)

    def question(self, text: str) -> str:
        """A question of six words of a message, in a frame of common ones."""
        words = self._random.sample(text.split(), k=min(6, len(text.split())))
        return f"when did we say {' '.join(words)}?"
