"""Settings: what each may be, and where its value comes from.

In rising order: the default, the user's TOML file, `TWOFOLD_*` environment variables, what is stored in the
database. The last can be changed while everything runs. This is the only module that reads the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from twofold.errors import InvalidInput

Value = float | int | str


MOST_TEXT = 512  # characters of a setting that is a text
ANY_TEXT = r"[^\x00-\x1f\x7f\ud800-\udfff]*"


@dataclass(frozen=True, slots=True)
class Spec:
    """One setting: its public name, default, what it may be and what it does.

    A text is one whose default is a text and that has no choices; `pattern` is what it must match. What is
    `at_start` comes from the environment or the TOML file alone; a `secret` is never shown.
    """

    name: str
    default: Value
    description: str
    least: float = 0.0
    most: float = 0.0
    choices: tuple[str, ...] = ()
    pattern: str = ""
    at_start: bool = False
    secret: bool = False

    @property
    def allowed(self) -> str:
        """What the setting may be, for a person."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.is_text:
            what = "an http or https address" if self.pattern else "a text"
            return f"{what} of at most {MOST_TEXT} characters"
        kind = "whole number" if isinstance(self.default, int) else "number"
        return f"a {kind} from {self.least:g} to {self.most:g}"

    @property
    def is_text(self) -> bool:
        """Whether the setting is any text."""
        return isinstance(self.default, str) and not self.choices

    @property
    def variable(self) -> str:
        """The environment variable of that name."""
        return "TWOFOLD_" + re.sub(r"(?=[A-Z])", "_", self.name).upper()

    def check(self, value: object) -> Value:
        """The value in the setting's type. Raises InvalidInput naming the setting and what it may be."""
        if self.choices:
            if isinstance(value, str) and value in self.choices:
                return value
        elif self.is_text:
            fits = isinstance(value, str) and len(value) <= MOST_TEXT and re.fullmatch(ANY_TEXT, value)
            if isinstance(value, str) and fits and re.fullmatch(self.pattern or ".*", value):
                return value
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and self.least <= value <= self.most:
            whole = isinstance(self.default, int)
            if not whole or value == int(value):
                return int(value) if whole else float(value)
        shown = "what is kept secret" if self.secret else repr(value)[:80]
        raise InvalidInput(f"{self.name} is {shown}; give {self.allowed}")

    def read(self, text: str) -> Value:
        """The value that a text stands for, as from the environment or the command line."""
        try:
            return self.check(text if isinstance(self.default, str) else float(text))
        except ValueError:
            raise InvalidInput(f"{self.name} is {text!r}; give {self.allowed}") from None


SPECS: Mapping[str, Spec] = {
    spec.name: spec
    for spec in (
        Spec("semanticWeight", 1.0, "weight of the semantic ranking when weights are fixed", 0.0, 5.0),
        Spec("keywordWeight", 0.0, "weight of the keyword ranking when weights are fixed", 0.0, 5.0),
        Spec("weights", "auto", "take weights from the kind of query, or as set", choices=("auto", "fixed")),
        Spec(
            "method",
            "auto",
            "how the rankings are fused; auto is convex, or rrf when weights are fixed",
            choices=("auto", "rrf", "rsf", "dbsf", "convex"),
        ),
        Spec("semanticLimit", 10, "episodes that a recall returns when no limit is given", 1, 200),
        Spec("window", 50, "candidates that each retriever is asked for", 10, 1000),
        Spec("recentLimit", 10, "episodes of the session that a context gives as they were said", 0, 200),
        Spec("tokenBudget", 2000, "tokens that a context may take, estimated", 100, 200_000),
        Spec("sessionShare", 0.5, "part of the recalled text that one session of several may take", 0.1, 1.0),
        Spec("neighbours", 1, "episodes before and after a recalled one that a context quotes with it", 0, 10),
        Spec("entityLimit", 5, "entities that a context holds at most", 0, 50),
        Spec("proposeEntities", "off", "ask the model for entities after a chat turn", choices=("off", "on")),
        Spec(
            "chatProject",
            "chat",
            "project of chats that name neither session nor project, whose memory they share; empty for none",
        ),
        Spec("llmModel", "", "name of the model that chat asks, as its server knows it"),
        Spec(
            "llmBaseUrl",
            "http://127.0.0.1:11434/v1",
            "address of the OpenAI-compatible server that chat asks; the default is Ollama's",
            pattern=r"https?://[^\s/]+(/\S*)?",
            at_start=True,
        ),
        Spec("llmApiKey", "", "key for that server", at_start=True, secret=True),
        Spec("llmTimeout", 120, "seconds that chat waits for the model's next word", 1, 3600),
        Spec(
            "vectors",
            "exact",
            "where vectors are found: in the file, by Qdrant Edge beside it, or a Qdrant server; from the next start",
            choices=("exact", "edge", "qdrant"),
        ),
        Spec(
            "keyword",
            "fts5",
            "where words are searched: in the file, or by the engine that vectors names (edge if exact); from the next "
            "start",
            choices=("fts5", "qdrant"),
        ),
        Spec(
            "quantization",
            "none",
            "how edge and qdrant keep vectors smaller; candidates are compared whole; from the next start",
            choices=("none", "scalar", "binary"),
        ),
        Spec(
            "qdrantUrl",
            "http://127.0.0.1:6333",
            "address of the Qdrant server",
            pattern=r"https?://[^\s/]+(/\S*)?",
            at_start=True,
        ),
        Spec("qdrantApiKey", "", "key for that server", at_start=True, secret=True),
        Spec("qdrantPrefix", "twofold", "what the names of this store's collections begin with", at_start=True),
        Spec("qdrantGrpcPort", 6334, "port for gRPC on that server, 0 to use HTTP alone", 0, 65535, at_start=True),
        Spec("qdrantShards", 1, "shards of a collection that is made", 1, 1024, at_start=True),
        Spec("qdrantReplicas", 1, "copies of each shard of a collection that is made", 1, 16, at_start=True),
        Spec("qdrantTimeout", 10, "seconds that one call to that server may take", 1, 600, at_start=True),
        Spec(
            "embedModel",
            "minilm",
            "model of a store that has no vectors yet: minilm, fastembed:NAME or openai:NAME; others keep their own "
            "(twofold embed --model)",
            at_start=True,
        ),
        Spec(
            "embedBaseUrl",
            "https://api.openai.com/v1",
            "address of the OpenAI-compatible server of a model openai:NAME; none other is asked",
            pattern=r"https?://[^\s/]+(/\S*)?",
            at_start=True,
        ),
        Spec("embedApiKey", "", "key for that server", at_start=True, secret=True),
        Spec(
            "embedTimeout",
            15,
            "seconds that a query waits for that server; a batch of messages waits four times as long",
            1,
            3600,
            at_start=True,
        ),
        Spec(
            "allowDownload",
            "off",
            "whether a model fastembed:NAME may be fetched where it is not on disk",
            choices=("off", "on"),
            at_start=True,
        ),
        Spec("embedThreads", 0, "threads of the embedder, 0 for one a core; taken at the next start", 0, 64),
    )
}


OF_RECALL = ("semanticWeight", "keywordWeight", "weights", "method", "semanticLimit", "window")


def spec(name: str) -> Spec:
    """The setting of that name, written keywordWeight, keyword_weight or KEYWORD_WEIGHT."""
    plain = name.replace("_", "").lower()
    for known in SPECS.values():
        if known.name.lower() == plain:
            return known
    raise InvalidInput(f"there is no setting {name!r}; the settings are {', '.join(SPECS)}")


def checked(changes: Mapping[str, object], *, at_start: bool = False) -> dict[str, Value]:
    """All changes by public name, or InvalidInput before any is taken. A weight that is set means fixed weights."""
    result = {spec(name).name: spec(name).check(value) for name, value in changes.items()}
    for known in () if at_start else map(spec, result):
        if known.at_start:
            raise InvalidInput(
                f"{known.name} cannot be changed while Twofold runs; set {known.variable} or {known.name} in "
                "settings.toml and start again"
            )
    if result.keys() & {"semanticWeight", "keywordWeight"}:
        result.setdefault("weights", "fixed")
    return result


def base() -> dict[str, Value]:
    """The settings before those stored in a database: defaults, then the TOML file, then the environment."""
    values = {name: known.default for name, known in SPECS.items()}
    values.update(_from_toml(platformdirs.user_config_path("twofold") / "settings.toml"))
    from_environment = {}
    for name, known in SPECS.items():
        if os.environ.get(known.variable):
            from_environment[name] = known.read(os.environ[known.variable])
    return values | checked(from_environment, at_start=True)


def token() -> str | None:
    """The service's own token, TWOFOLD_TOKEN."""
    return os.environ.get("TWOFOLD_TOKEN", "").strip() or None


def database() -> Path:
    """The database file when none is named: TWOFOLD_DB, else memories.db in the user's data directory."""
    named = os.environ.get("TWOFOLD_DB")
    return Path(named).expanduser() if named else platformdirs.user_data_path("twofold") / "memories.db"


def _from_toml(path: Path) -> dict[str, Value]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise _no_toml(path, error) from None
    import tomllib  # most users have no such file

    try:
        return checked(tomllib.loads(text), at_start=True)
    except tomllib.TOMLDecodeError as error:
        raise _no_toml(path, error) from None
    except InvalidInput as error:
        raise InvalidInput(f"{path}: {error}") from None


def _no_toml(path: Path, error: Exception) -> InvalidInput:
    return InvalidInput(f"{path} cannot be read as TOML ({error}); mend or remove it")
