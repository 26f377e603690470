"""The shapes of requests and answers, camelCase in JSON."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel

from twofold.entities import MOST_ALIASES, MOST_DESCRIPTION
from twofold.entities import MOST_NAME as MOST_ENTITY_NAME
from twofold.messages import MOST_BYTES, MOST_ID, MOST_NAME
from twofold.recaller import MOST_LIMIT
from twofold.settings import SPECS

MOST_QUERY = 100_000  # characters of a query or of a chat message
MOST_EXCLUDE = 10_000
MOST_SESSIONS = 10_000

Item = TypeVar("Item")

Id = Annotated[int, Field(ge=1, le=MOST_ID)]
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Optional = Annotated[str | None, Field(max_length=MOST_NAME)]  # an empty name means none
Query = Annotated[str, Field(min_length=1, max_length=MOST_QUERY)]
Limit = Annotated[int | None, Field(ge=0, le=MOST_LIMIT)]
Role = Literal["user", "assistant", "system", "tool"]


class In(BaseModel):
    """What comes in: no member that is not known."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Out(BaseModel):
    """What goes out, made from a record of the same members."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class ProjectIn(In):
    name: Name = Field(examples=["house"])


class ProjectOut(Out):
    id: int
    name: str
    sessions: int
    episodes: int


class SessionIn(In):
    name: Name = Field(examples=["repairs"])
    project: Optional = Field(None, description="Made if it is not there", examples=["house"])
    title: Optional = None


class SessionChange(In):
    name: Name | None = None
    title: Optional = Field(None, description="An empty one takes the title away")


class SessionOut(Out):
    id: int
    name: str
    title: str | None
    project: str | None
    episodes: int
    first: datetime | None
    last: datetime | None


class Where(In):
    """A session by id or by name in a project, the sessions of several ids, a project, or everything."""

    session: Optional = Field(None, examples=["repairs"])
    session_id: Id | None = None
    project: Optional = Field(None, examples=["house"])


class Scoped(Where):
    session_ids: list[Id] | None = Field(None, max_length=MOST_SESSIONS, description="An empty list sees nothing")


class EpisodeIn(Where):
    content: str = Field(min_length=1, max_length=MOST_BYTES, examples=["The plumber charged 180."])
    role: Role = "user"
    time: AwareDatetime | None = Field(None, description="With its zone; now where it is not given")
    metadata: dict[str, Any] = Field(default_factory=dict)
    source: Optional = Field(None, description="Its name where it comes from; a session takes each once")


class EpisodeChange(In):
    content: str = Field(min_length=1, max_length=MOST_BYTES)


class EpisodeOut(Out):
    id: int
    session_id: int
    session: str
    title: str | None
    project: str | None
    role: Role
    content: str
    time: datetime
    metadata: dict[str, Any]


class FoundEpisode(EpisodeOut):
    score: float = Field(description="BM25: orders this answer alone")


class Forgotten(Out):
    forgotten: int = Field(description="Episodes that went with it")


class PageOut(Out, Generic[Item]):
    items: list[Item]
    next: str | None = Field(description="The cursor of the next page; null where this is the last")


class RecallIn(Scoped):
    query: Query = Field(examples=["what did the plumber charge?"])
    limit: Limit = Field(None, description="The setting semanticLimit where it is not given")
    exclude: list[Id] = Field(default_factory=list, max_length=MOST_EXCLUDE, description="Left out before ranking")
    explain: bool = False


class WhyNotIn(Scoped):
    query: Query
    episode: Id
    limit: Limit = None
    exclude: list[Id] = Field(default_factory=list, max_length=MOST_EXCLUDE)


class ContributionOut(Out):
    ranking: str
    rank: int
    raw: float | None
    value: float
    weight: float
    contribution: float


class HitOut(Out):
    episode: EpisodeOut
    score: float = Field(description="The sum of its contributions: orders this answer alone")
    contributions: list[ContributionOut]


class ExplanationOut(Out):
    query: str
    kind: str
    terms: list[str]
    left_out: list[str]
    method: str
    k: float | None
    prior: str
    weights: dict[str, float]
    floors: dict[str, float]
    windows: dict[str, int]
    milliseconds: dict[str, float]


class RecallOut(Out):
    query: str
    hits: list[HitOut]
    degraded: dict[str, str] = Field(description="What failed, and why; the rest carried on")
    explanation: ExplanationOut | None


class WhyNotOut(Out):
    stage: Literal["scope", "excluded", "terms", "window", "cut", "recalled"]
    sentence: str
    keyword_rank: int | None
    semantic_rank: int | None
    short_by: float | None


class ContextIn(Where):
    message: Query = Field(examples=["is the plumber paid?"])
    budget: int | None = Field(None, ge=100, le=200_000, description="Tokens; the setting tokenBudget without it")
    zone: str | None = Field(None, max_length=64, examples=["Europe/Zurich"])


class PassageOut(Out):
    episodes: list[EpisodeOut]
    recalled: list[int]
    score: float
    cut: list[int]


class EntityIn(In):
    name: str = Field(min_length=1, max_length=MOST_ENTITY_NAME, examples=["Ada Example"])
    type: str = Field(min_length=1, max_length=40, examples=["person"])
    description: str = Field("", max_length=MOST_DESCRIPTION, examples=["the plumber"])
    aliases: list[str] = Field(default_factory=list, max_length=MOST_ALIASES)
    project: Optional = None
    session_id: Id | None = Field(None, description="A session without a project, which alone knows the entity")


class EntityChange(In):
    name: str | None = Field(None, min_length=1, max_length=MOST_ENTITY_NAME)
    type: str | None = Field(None, min_length=1, max_length=40)
    description: str | None = Field(None, max_length=MOST_DESCRIPTION)
    aliases: list[str] | None = Field(None, max_length=MOST_ALIASES)


class MergeIn(In):
    into: Id = Field(description="The entity that stays")


class EntityOut(Out):
    id: int
    name: str
    type: str
    description: str
    aliases: list[str]
    project: str | None
    session_id: int | None
    mentions: int


class EntityHitOut(Out):
    entity: EntityOut
    score: float


class EntityRecallOut(Out):
    query: str
    hits: list[EntityHitOut]
    degraded: dict[str, str]


class ContextOut(Out):
    message: str
    recent: list[EpisodeOut]
    passages: list[PassageOut]
    entities: list[EntityHitOut]
    text: str = Field(description="Passages and entities, fenced as quoted memory")
    tokens: int
    budget: int
    left_out: dict[str, int]
    degraded: dict[str, str]
    explanation: ExplanationOut | None


class ChatIn(Where):
    message: Query = Field(examples=["what was the gate code?"])
    model: Optional = None
    stream: bool = Field(False, description="Answer as server-sent events")
    zone: str | None = Field(None, max_length=64)


class ChatOut(Out):
    answer: str
    model: str
    session: str
    finish: str | None = Field(description="The model's reason for its end; null where the answer broke off")
    asked: EpisodeOut | None = Field(description="What the user said, as stored")
    answered: EpisodeOut | None
    context: ContextOut


class ImportOut(Out):
    added: int
    duplicates: int
    sessions: int
    waiting: int
    losses: dict[str, int]


class PartOut(Out):
    state: Literal["ok", "degraded", "down", "off"]
    detail: str


class HealthOut(Out):
    status: Literal["ok", "degraded", "down"]
    parts: dict[str, PartOut] = Field(description="Empty for a request that needs a token and has none")


def _of_setting(name: str) -> dict[str, Any]:
    spec = SPECS[name]
    shape: dict[str, Any] = {"description": spec.description, "default": spec.default}
    if spec.choices:
        return shape | {"type": "string", "enum": list(spec.choices)}
    if spec.is_text:
        return shape | {"type": "string", "maxLength": 512}
    kind = "integer" if isinstance(spec.default, int) else "number"
    return shape | {"type": kind, "minimum": spec.least, "maximum": spec.most}


def _settings(names: list[str], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: _of_setting(name) for name in names}} | more


_SHOWN = [name for name, spec in SPECS.items() if not spec.secret]
_CHANGEABLE = [name for name, spec in SPECS.items() if not spec.at_start]

# Checked by `settings.checked`, which knows the ranges; here they are only told.
SettingsChange = Annotated[
    dict[str, Any],
    WithJsonSchema(_settings(_CHANGEABLE, title="SettingsChange", additionalProperties=False)),
]
SettingsOut = Annotated[
    dict[str, Any], WithJsonSchema(_settings(_SHOWN, title="Settings", required=_SHOWN, additionalProperties=False))
]
