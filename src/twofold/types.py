"""The nouns of Twofold: frozen records that every layer shares. See ARCHITECTURE.md for the words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from types import MappingProxyType
from typing import Literal

Role = Literal["user", "assistant", "system", "tool"]
ROLES: tuple[Role, ...] = ("user", "assistant", "system", "tool")

_NOTHING: Mapping[str, object] = MappingProxyType({})
_NOTHING_FAILED: Mapping[str, str] = MappingProxyType({})
_NOTHING_LEFT_OUT: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Made:
    """Vectors that a model made of a message before: a row of float16, as the file keeps it, for each of its pieces."""

    model: tuple[str, int, str]  # name, dimension and digest
    rows: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message on its way into the store.

    `source` names the message in the place it came from; a second message with the same `source`
    is the same message. `time` must be aware; None means "as the messages around it". `made` are vectors that it
    has from another store; they are taken where the same model makes those of this one.
    """

    content: str
    role: Role = "user"
    session: str = "default"
    project: str | None = None
    time: datetime | None = None
    metadata: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    source: str | None = None
    title: str | None = None
    made: Made | None = None


@dataclass(frozen=True, slots=True)
class Project:
    """A group of sessions that share one recall pool."""

    id: int
    name: str
    sessions: int
    episodes: int


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation. `first` and `last` are the times of its episodes, None while it has none."""

    id: int
    name: str
    title: str | None
    project: str | None
    episodes: int
    first: datetime | None
    last: datetime | None


@dataclass(frozen=True, slots=True)
class Episode:
    """One stored message. `session` and `project` are names, `title` is the session's; `time` is aware UTC."""

    id: int
    session_id: int
    session: str
    title: str | None
    project: str | None
    role: Role
    content: str
    time: datetime
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Scope:
    """What a search may see: everything, one project, or the given sessions (none of them: nothing).

    `times` are the first moment and the one after the last that it sees, in microseconds since 1970 as the file has
    them; None for all.
    """

    kind: Literal["all", "project", "sessions"]
    ids: tuple[int, ...] = ()
    times: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What one ranking gave to one fused hit.

    `rank` is 1-based, `raw` the retriever's own score (None where the ranking carried none), `value` the
    normalised score that was weighted, `contribution` = `weight` times `value`.
    """

    ranking: str
    rank: int
    raw: float | None
    value: float
    weight: float
    contribution: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled episode. The contributions add up to `score`."""

    episode: Episode
    score: float
    contributions: tuple[Contribution, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """A named thing, as a person, a place or a project.

    It belongs to a project, to a session without a project, or to neither: then every session without a project
    knows it. `mentions` is how many episodes are linked to it.
    """

    id: int
    name: str
    type: str
    description: str
    aliases: tuple[str, ...]
    project: str | None
    session_id: int | None
    mentions: int


@dataclass(frozen=True, slots=True)
class EntityHit:
    """An entity that fits a query; `score` orders one answer and means nothing across answers."""

    entity: Entity
    score: float


@dataclass(frozen=True, slots=True)
class EntityRecall:
    """The entities that fit a query, best first; `degraded` names what failed, and why."""

    query: str
    hits: tuple[EntityHit, ...]
    degraded: Mapping[str, str] = field(default_factory=lambda: _NOTHING_FAILED)


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of one session that a context quotes: recalled episodes with their neighbours, oldest first.

    `recalled` are the ids of the episodes that were recalled; `score` is that of the best of them. `cut` are those
    quoted in part, whose content here is that part.
    """

    episodes: tuple[Episode, ...]
    recalled: tuple[int, ...]
    score: float
    cut: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """What an assistant is given for its next turn.

    `recent` are the last episodes of the session as they were said. `text` quotes the passages and the entities,
    fenced as memory, and is empty where there are none. `tokens` is an estimate for all of it, never above
    `budget`. `left_out` counts what was found and not taken: repeated, over the session's share, over the budget.
    `degraded` names what failed, and why.
    """

    message: str
    recent: tuple[Episode, ...]
    passages: tuple[Passage, ...]
    entities: tuple[EntityHit, ...]
    text: str
    tokens: int
    budget: int
    left_out: Mapping[str, int] = field(default_factory=lambda: _NOTHING_LEFT_OUT)
    degraded: Mapping[str, str] = field(default_factory=lambda: _NOTHING_FAILED)
    explanation: Explanation | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """A key to the service, bound to one project or to none. The secret itself is kept nowhere."""

    id: int
    name: str
    project: str | None
    created: datetime


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a recall was made: what the query became, and what each stage used and took.

    `prior` is where the automatic weights come from, "measured" or "tuned"; empty where they are fixed. `times` are
    the times that the query names, from and to.
    """

    query: str
    kind: str
    terms: tuple[str, ...]
    left_out: tuple[str, ...]
    method: str
    k: float | None
    prior: str
    weights: Mapping[str, float]
    floors: Mapping[str, float]
    windows: Mapping[str, int]
    milliseconds: Mapping[str, float]
    times: tuple[tuple[datetime, datetime], ...] = ()


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Where a recall lost an episode: the stage, a sentence with the way out, and its rank in either retriever.

    `short_by` is how far its score lies below the last that was returned.
    """

    stage: Literal["scope", "excluded", "terms", "window", "cut", "recalled"]
    sentence: str
    keyword_rank: int | None = None
    semantic_rank: int | None = None
    short_by: float | None = None


@dataclass(frozen=True, slots=True)
class Recall:
    """The hits of one recall, best first, as a sequence; `degraded` names retrievers that failed, and why."""

    query: str
    hits: tuple[Hit, ...]
    degraded: Mapping[str, str] = field(default_factory=lambda: _NOTHING_FAILED)
    explanation: Explanation | None = None

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def __getitem__(self, index: int) -> Hit:
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did with the messages that it was given, and to how many sessions they belong.

    `added` are new, `updated` have other words at their source than before, `duplicates` were there already, `kept`
    have other words at their source and were edited here, so that they stay as they are. `waiting` episodes of the
    whole store have no vector yet.
    """

    added: int
    updated: int
    duplicates: int
    kept: int
    sessions: int
    waiting: int


@dataclass(frozen=True, slots=True)
class LossReport:
    """What was read of histories, and all that was not taken as it stood: how often, by reason, in plain words.

    `skipped` is not in the store, `placeholders` are there by name alone, `unknown` types gave what text they held,
    `changed` was taken otherwise than it stood. `first` and `last` are the times of the messages.
    """

    conversations: int
    messages: int
    first: datetime | None
    last: datetime | None
    skipped: Mapping[str, int]
    placeholders: Mapping[str, int]
    unknown: Mapping[str, int]
    changed: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a user said of an episode that a query recalled in a session, a project, or everywhere (both None)."""

    id: int
    query: str
    project: str | None
    session: str | None
    episode: int
    useful: bool
    time: datetime


@dataclass(frozen=True, slots=True)
class Said:
    """A judgement of an export: a word on the message that the other store had there, asked in `place`."""

    query: str
    useful: bool
    time: datetime
    place: Literal["session", "project", "everywhere"]
    message: Message


@dataclass(frozen=True, slots=True)
class Run:
    """One run of `eval` or `tune`, and what it found, as JSON has it."""

    kind: str
    time: datetime
    report: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Week:
    """The Monday that a week begins with, and how many episodes were said in it."""

    start: date
    episodes: int


@dataclass(frozen=True, slots=True)
class Part:
    """Whether a part works, and a sentence on it."""

    state: Literal["ok", "degraded", "down", "off"]
    detail: str


@dataclass(frozen=True, slots=True)
class Build:
    """Vectors of another model that are made beside those in use: how many episodes have one, and how many wait."""

    model: str
    vectors: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Lag:
    """What one index outside the file has still to be told: how many points, the oldest for how many seconds.

    Until it `serves` the file answers alone. `problem` is what this process met when it last tried to tell it.
    """

    engine: str
    kind: Literal["vectors", "words"]
    serves: bool
    waiting: int
    seconds: float
    problem: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """What a store holds. Of the model that it was opened with, `waiting` episodes have no vector yet.

    `current` is the model whose vectors are searched, None where there are none; `building` those that are made beside.
    """

    path: str
    bytes: int
    schema: int
    projects: int
    sessions: int
    episodes: int
    vectors: int
    waiting: int
    model: str | None
    current: str | None = None
    building: Build | None = None
    external_indexes: tuple[Lag, ...] = ()
