"""A made-up history of any size: the sample history's words, a long tail of invented ones, topics by session.

Its vectors can be made up too, so that a large store needs no hours of embedding.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from twofold import samples
from twofold.embed import Embedder, ModelInfo
from twofold.types import Message

SESSION = 20  # messages
PROJECT = 10  # sessions
TAIL = 40_000  # invented words
TOPIC = 40  # of them belong to a session
CENTRES = 500  # about which the made-up vectors lie
SPREAD = 0.9  # length of what is added to a centre: a cosine of about .74 to it, .55 among its own
SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "en", "or", "il")]


class History:
    """Messages and questions, the same for the same seed."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        spoken = Counter(
            word
            for line in samples.path("history.jsonl").read_text(encoding="utf-8").splitlines()
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


class Drawn:
    """Instead of embedding texts, draws the vectors of a History's messages, taken in their order, as a model's own.

    A session's lie about one of CENTRES points, which are where the model itself puts messages of such a history.
    """

    def __init__(self, model: Embedder, seed: int) -> None:
        self._model = model
        texts = [message.content for message in History(seed).messages(CENTRES)]
        self._centres = np.stack([pieces[0] for pieces in model.embed_documents(texts)])
        self._random = np.random.default_rng(seed)
        self._drawn = 0

    @property
    def info(self) -> ModelInfo:
        """The model whose vectors these pass for."""
        return self._model.info

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """The model's own vector, of shape (dimension,)."""
        return self._model.embed_query(text)

    def embed_documents(self, texts: Sequence[str]) -> list[NDArray[np.float32]]:
        """For each text the next vector, of shape (1, dimension) and unit length."""
        sessions = np.arange(self._drawn, self._drawn + len(texts)) // SESSION
        self._drawn += len(texts)
        dimension = self._model.info.dimension
        noise = self._random.standard_normal((len(texts), dimension), dtype=np.float32)
        vectors = self._centres[sessions % CENTRES] + noise * np.float32(SPREAD / dimension**0.5)
        return list((vectors / np.linalg.norm(vectors, axis=1, keepdims=True))[:, np.newaxis])
