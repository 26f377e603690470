"""An embedding model on a server that speaks OpenAI's API (`/v1/embeddings`): OpenAI, Ollama, vLLM, TEI, llama.cpp."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from twofold.embed import ModelInfo, unit
from twofold.embed.pieces import by_bytes
from twofold.embed.prefixes import prefixes
from twofold.errors import EmbedderError

if TYPE_CHECKING:  # a third of a second, which only who asks a server shall pay
    from openai import OpenAI

NAME = "openai:"
BATCH = 32  # pieces of one request
RETRIES = 2  # of a request of many texts; for one text somebody waits, and can do without
PATIENCE = 4.0  # times as long as for one text is waited for many
CONNECT_SECONDS = 5.0
AWAY_SECONDS = 10.0  # a server that did not answer is left alone: every recall would wait for it again
MOST_QUOTED = 200  # characters of a server's own words in a message of ours

Vector = NDArray[np.float32]


class RemoteEmbedder:
    """Embeds texts of any length as unit vectors, by the model of that name on the server at that base URL.

    `dimensions` asks for vectors of another length than the model's own; `known` is the length where it is known, else
    the server is asked once. One text waits `timeout` seconds for its vector. One instance serves any number of
    threads. No message holds the key.
    """

    def __init__(
        self,
        model: str,
        url: str,
        key: str = "",
        *,
        dimensions: int = 0,
        known: int = 0,
        timeout: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._model = model
        self._url = url
        self._key = key
        self._asked = dimensions
        self._dimension = dimensions or known
        self._timeout = timeout
        self._clock = clock
        self._query, self._document = prefixes(model)
        self._lock = threading.Lock()
        self._client: OpenAI | None = None
        self._away: tuple[float, str] = (float("-inf"), "")  # until when it is left alone, and why

    @property
    def digest(self) -> str:
        """What tells this model from others of its name: the server, the length asked for, the prefixes."""
        identity = [self.url.rstrip("/"), self._model, self._asked, self._query, self._document]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]

    @property
    def info(self) -> ModelInfo:
        """The model's identity; a server is asked for a vector where its length is not known. Raises EmbedderError."""
        if not self._dimension:
            self._dimension = len(self._ask(["length"])[0])
        name = NAME + self._model + (f"@{self._asked}" if self._asked else "")
        return ModelInfo(name, self._dimension, self.digest)

    def embed_query(self, text: str) -> Vector:
        """One vector of shape (dimension,): of a text that takes several pieces, their mean at unit length."""
        vectors = self._embed([text], self._query)[0]
        return vectors[0] if len(vectors) == 1 else unit(vectors.mean(axis=0))

    def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """For each text its pieces, shape (pieces, dimension): what is too long is cut in pieces, never dropped."""
        return self._embed(texts, self._document)

    def _embed(self, texts: Sequence[str], prefix: str) -> list[Vector]:
        cut = [_pieces(text) for text in texts]
        # Servers refuse a text of nothing; it has no direction anyhow.
        flat = [prefix + piece for pieces in cut for piece in pieces if piece.strip()]
        made: list[Vector] = []
        for start in range(0, len(flat), BATCH):
            made += self._ask(flat[start : start + BATCH])
        rows, nothing = iter(made), np.zeros(self.info.dimension, dtype=np.float32)
        return [np.stack([next(rows) if piece.strip() else nothing for piece in pieces]) for pieces in cut]

    def _ask(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of a few texts at unit length. Raises EmbedderError."""
        until, reason = self._away
        if self._clock() < until:
            raise EmbedderError(reason)
        body: dict[str, object] = {"model": self._model, "input": list(texts), "encoding_format": "float"}
        if self._asked:
            body["dimensions"] = self._asked
        with self._errors():
            answer = self._connected().post("/embeddings", cast_to=object, body=body, options=self._options(len(texts)))
            if isinstance(answer, str):  # JSON that is not said to be JSON
                answer = json.loads(answer)
        vectors = _vectors(answer, len(texts))
        if vectors is None:
            raise EmbedderError(self._garbage())
        for vector in vectors:
            if self._dimension and len(vector) != self._dimension:
                raise EmbedderError(
                    f"{self.url} gave vectors of {len(vector)} dimensions for {self._model}, not of "
                    f"{self._dimension}; none was used, check which model answers there"
                )
        with np.errstate(all="ignore"):  # what is not finite is nobody's direction, and its reader's to leave out
            return [unit(vector) for vector in vectors]

    def _options(self, texts: int) -> Any:
        from openai import Timeout

        many = texts > 1
        seconds = self._timeout * (PATIENCE if many else 1.0)
        return {
            "timeout": Timeout(seconds, connect=min(seconds, CONNECT_SECONDS)),
            "max_retries": RETRIES if many else 0,
        }

    @property
    def url(self) -> str:
        """The base URL without what may be secret in it: a user, a password, a query."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def _connected(self) -> OpenAI:
        from openai import DefaultHttpxClient, OpenAI

        with self._lock:
            if self._client is None:
                # A proxy has no way to this machine's own loopback.
                transport = DefaultHttpxClient(trust_env=not _is_loopback(urlsplit(self._url).hostname or ""))
                client = OpenAI(base_url=self._url, api_key=self._key or "none", http_client=transport)
                # Those of another account, which the package reads from variables of its own.
                client.organization = client.project = None
                self._client = client
                weakref.finalize(self, client.close)
            return self._client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """The openai package's errors as sentences for a person."""
        import openai

        try:
            yield
        except openai.APITimeoutError:
            raise self._is_away(
                f"the embedding server {self.url} did not answer in time; raise embedTimeout ({self._timeout:g} "
                "seconds), or name another server with TWOFOLD_EMBED_BASE_URL"
            ) from None
        except openai.APIConnectionError:
            raise self._is_away(
                f"no embedding server answers at {self.url}; start it, or name another with TWOFOLD_EMBED_BASE_URL"
            ) from None
        except openai.APIStatusError as error:
            raise EmbedderError(self._refused(error.status_code, error.body)) from None
        except (openai.APIError, ValueError, RecursionError):
            raise EmbedderError(self._garbage()) from None

    def _garbage(self) -> str:
        return (
            f"what {self.url} answered is not OpenAI's embeddings API; check embedBaseUrl, which mostly ends with /v1"
        )

    def _is_away(self, reason: str) -> EmbedderError:
        self._away = (self._clock() + AWAY_SECONDS, reason)
        return EmbedderError(reason)

    def _refused(self, status: int, body: object) -> str:
        said = body.get("error", body) if isinstance(body, dict) else None
        said = said.get("message") if isinstance(said, dict) else said
        quoted = f": {_line(said.replace(self._key, '***') if self._key else said)}" if isinstance(said, str) else ""
        if status == 404:
            return (
                f"{self.url} has no embedding model {self._model!r}, or is not its address{quoted}; check the name "
                "and TWOFOLD_EMBED_BASE_URL"
            )
        if status in (401, 403):
            return (
                f"{self.url} refused the key (status {status}); set the right one with TWOFOLD_EMBED_API_KEY or "
                "embedApiKey in settings.toml"
            )
        return f"the embedding server {self.url} gave no vectors but status {status}{quoted}"


def _pieces(text: str) -> list[str]:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise EmbedderError(
            f"the text has half a character (a lone surrogate) at position {error.start}: remove it"
        ) from error
    return by_bytes(text)


def _vectors(answer: object, texts: int) -> list[Vector] | None:
    """The vectors of an answer in the order of the texts; None where it is no such answer."""
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or len(data) != texts:
        return None
    try:
        placed = {int(entry.get("index", place)): entry["embedding"] for place, entry in enumerate(data)}
        vectors = [np.array(placed[place], dtype=np.float32) for place in range(texts)]
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    return vectors if all(vector.ndim == 1 and len(vector) for vector in vectors) else None


def _line(text: str) -> str:
    plain = " ".join("".join(character if character.isprintable() else " " for character in text).split())
    return plain if len(plain) <= MOST_QUOTED else f"{plain[: MOST_QUOTED - 1]}…"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
