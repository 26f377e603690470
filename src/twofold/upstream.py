"""The language model's server, which speaks OpenAI's chat API: Ollama, llama.cpp, vLLM, a hosted one."""

from __future__ import annotations

import ipaddress
import json
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from twofold.errors import ChatError, NoModel
from twofold.settings import SPECS, Value

if TYPE_CHECKING:  # a third of a second, which only who chats shall pay
    from openai import OpenAI

CONNECT_SECONDS = 5.0
REACH_SECONDS = 2.0
MOST_QUOTED = 200  # characters of a server's own words in a message of ours

_OR_NAME = (
    "or name another server with TWOFOLD_LLM_BASE_URL or llmBaseUrl in settings.toml, and the model with "
    "TWOFOLD_LLM_MODEL or the setting llmModel"
)


class Upstream:
    """One server by its base URL, shared by any number of threads; connects at the first question.

    `timeout` is the seconds to wait for its next word, where a call names no other. Nothing is tried twice: whoever
    asks us tries again themselves. No message holds the key.
    """

    def __init__(self, url: str, key: str = "", *, timeout: float = 120.0) -> None:
        self._url = url
        self._key = key
        self._timeout = timeout
        self._made: OpenAI | None = None
        self._making = threading.Lock()

    @classmethod
    def of(cls, settings: Mapping[str, Value]) -> Upstream:
        """The server that the settings of the start name, the key among them."""
        return cls(str(settings["llmBaseUrl"]), str(settings["llmApiKey"]), timeout=float(settings["llmTimeout"]))

    def __enter__(self) -> Upstream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        with self._making:
            if self._made is not None:
                self._made.close()
                self._made = None

    @property
    def url(self) -> str:
        """The base URL without what may be secret in it: a user, a password, a query."""
        parts = urlsplit(self._url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def complete(self, body: Mapping[str, object], *, timeout: float | None = None) -> dict[str, Any]:
        """A whole answer, as the server gave it. Raises NoModel and ChatError."""
        with self._errors(body, timeout):
            answer = self._client().post(
                "/chat/completions",
                cast_to=object,
                body={**body, "stream": False},
                options={"timeout": self._seconds(timeout)},
            )
        return self._object(answer, "choices")

    def stream(self, body: Mapping[str, object], *, timeout: float | None = None) -> Generator[dict[str, Any]]:
        """The chunks of an answer, as the server gave them; closing the iterator hangs up.

        Raises NoModel and ChatError, also in the middle.
        """
        from openai import Stream

        with self._errors(body, timeout):
            stream = self._client().post(
                "/chat/completions",
                cast_to=object,
                body={**body, "stream": True},
                options={"timeout": self._seconds(timeout)},
                stream=True,
                stream_cls=Stream[object],
            )
        try:
            with self._errors(body, timeout, begun=True):
                for chunk in stream:
                    yield self._object(chunk, "choices")
        finally:
            stream.close()

    def models(self, *, timeout: float | None = None) -> list[dict[str, Any]]:
        """The models that the server names, as it describes them. Raises NoModel and ChatError."""
        with self._errors({}, timeout):
            answer = self._client().get("/models", cast_to=object, options={"timeout": self._seconds(timeout)})
        return [model for model in self._object(answer, "data")["data"] if isinstance(model, dict)]

    def reachable(self) -> None:
        """Whether the server answers, within REACH_SECONDS. Raises NoModel and ChatError."""
        self.models(timeout=REACH_SECONDS)

    def _client(self) -> OpenAI:
        from openai import DefaultHttpxClient, OpenAI

        with self._making:
            if self._made is None:
                # A proxy has no way to this machine's own loopback.
                transport = DefaultHttpxClient(trust_env=not _is_loopback(urlsplit(self._url).hostname or ""))
                client = OpenAI(base_url=self._url, api_key=self._key or "none", max_retries=0, http_client=transport)
                # Those of another account, which the package reads from variables of its own.
                client.organization = client.project = None
                self._made = client
            return self._made

    def _seconds(self, timeout: float | None) -> Any:
        from openai import Timeout

        seconds = self._timeout if timeout is None else timeout
        return Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))

    def _object(self, answer: object, key: str) -> dict[str, Any]:
        """The answer, which is an object that holds a list under that key."""
        if isinstance(answer, str):  # JSON that is not said to be JSON
            with self._errors({}, None):
                answer = json.loads(answer)
        if not isinstance(answer, dict) or not isinstance(answer.get(key), list):
            raise ChatError(self._garbage())
        return answer

    def _garbage(self) -> str:
        return f"what {self.url} answered is not OpenAI's chat API; check llmBaseUrl, which mostly ends with /v1"

    @contextmanager
    def _errors(self, body: Mapping[str, object], timeout: float | None, *, begun: bool = False) -> Iterator[None]:
        """The openai package's errors as sentences for a person."""
        import openai

        try:
            yield
        except openai.APITimeoutError:
            seconds = self._timeout if timeout is None else timeout
            kind = ChatError if begun else NoModel
            raise kind(f"{self.url} said nothing for {seconds:g} seconds; raise llmTimeout, {_OR_NAME}") from None
        except openai.APIConnectionError:
            if begun:
                raise ChatError(f"{self.url} broke off in the middle of its answer; ask again") from None
            server = "Ollama" if self._url == SPECS["llmBaseUrl"].default else "it"
            raise NoModel(f"no language model's server answers at {self.url}; start {server}, {_OR_NAME}") from None
        except openai.APIStatusError as error:
            raise self._refused(error.status_code, error.body, body.get("model")) from None
        except openai.APIError as error:
            raise ChatError(f"{self.url} broke off{self._quoted(error.body)}; ask again") from None
        except (ValueError, RecursionError):
            raise ChatError(self._garbage()) from None

    def _refused(self, status: int, body: object, model: object) -> ChatError:
        if status == 404 and model is not None:
            return NoModel(
                f"{self.url} has no model {_line(model)!r}, or is not its address; name another model with "
                "TWOFOLD_LLM_MODEL or the setting llmModel, another server with TWOFOLD_LLM_BASE_URL"
            )
        if status in (401, 403):
            return ChatError(
                f"{self.url} refused the key (status {status}); set the right one with TWOFOLD_LLM_API_KEY or "
                "llmApiKey in settings.toml and start again"
            )
        return ChatError(f"{self.url} gave no answer but status {status}{self._quoted(body)}")

    def _quoted(self, body: object) -> str:
        """What a server says about its error: one line, shortened, without our key."""
        error = body.get("error", body) if isinstance(body, dict) else None
        message = error.get("message") if isinstance(error, dict) else error
        if not isinstance(message, str):
            return ""
        return f": {_line(message.replace(self._key, '***') if self._key else message)}"


def _line(text: object) -> str:
    plain = " ".join("".join(character if character.isprintable() else " " for character in str(text)).split())
    return plain if len(plain) <= MOST_QUOTED else f"{plain[: MOST_QUOTED - 1]}…"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
