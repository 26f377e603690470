"""The shapes of requests and answers, camelCase in JSON."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from twofold.entities import MOST_ALIASES, MOST_DESCRIPTION
from twofold.entities import MOST_NAME as MOST_ENTITY_NAME
from twofold.messages import MOST_BYTES, MOST_NAME
from twofold.recaller import MOST_LIMIT
from twofold.settings import MOST_TEXT, SPECS

MOST_ID = 2**53 - 1  # what every JSON reader can tell from its neighbours
MOST_QUERY = 100_000  # characters of a query or of a chat message
LONGEST_Q = 8192  # characters of a query in a URL, which a server takes only so much of
LONGEST_IDS = 20_000  # characters of a list of ids there; a body takes more
MOST_EXCLUDE = 10_000
MOST_SESSIONS = 10_000
MOST_DEPTH = 64  # of metadata

Item = TypeVar("Item")

Id = Annotated[int, Field(ge=1, le=MOST_ID)]
# What is told only is checked below, where the sentence for a person is made.
PLAIN = r"[^\x00-\x1f\x7f]*"
VISIBLE = r"[^\s\x1c-\x1f\x85]"  # what Python holds for no blank, in other readers' patterns as well
NOT_BLANK = {"pattern": VISIBLE}
NAME_OR_NONE = {"pattern": f"^$|{VISIBLE}"}
TYPE_OF_ENTITY = {"pattern": r"^\s*[A-Za-z][A-Za-z0-9_-]{0,39}\s*$"}
TYPE_OR_NONE = {"pattern": r"^$|^\s*[A-Za-z][A-Za-z0-9_-]{0,39}\s*$"}
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME, json_schema_extra=NOT_BLANK)]
Optional = Annotated[
    Annotated[str, Field(max_length=MOST_NAME, json_schema_extra=NAME_OR_NONE)] | None,
    Field(),  # an empty name means none
]
Query = Annotated[str, Field(min_length=1, max_length=MOST_QUERY, json_schema_extra=NOT_BLANK)]
Content = Annotated[str, Field(min_length=1, max_length=MOST_BYTES, json_schema_extra=NOT_BLANK)]
Zone = Annotated[Annotated[str, Field(max_length=64, json_schema_extra={"format": "iana-zone"})] | None, Field()]
EntityName = Annotated[str, Field(min_length=1, max_length=MOST_ENTITY_NAME, json_schema_extra=NOT_BLANK)]
EntityType = Annotated[str, Field(min_length=1, max_length=40, json_schema_extra=TYPE_OF_ENTITY)]
Limit = Annotated[int | None, Field(ge=0, le=MOST_LIMIT)]
Role = Literal["user", "assistant", "system", "tool"]


def _moment(value: object) -> object:
    """A number is no time, whatever pydantic makes of it."""
    if value is not None and not isinstance(value, str):
        raise ValueError("give a time as text, as in 2026-03-14T09:30:00+01:00")
    return value


def _in_utc(value: datetime | None) -> datetime | None:
    try:
        return value and value.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("give a time that is in the years 1 to 9999 in UTC too") from None


def _kept(value: dict[str, Any]) -> dict[str, Any]:
    """Metadata that can be given back: in UTF-8, and in answers that nest it deeper still."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("give whole characters; there is half of one (a lone surrogate)") from None
    except RecursionError:
        pass  # told below
    layer: list[Any] = [value]
    for _ in range(MOST_DEPTH):
        layer = [inner for one in layer for inner in (one.values() if isinstance(one, dict) else one)]
        layer = [one for one in layer if isinstance(one, (dict, list))]
        if not layer:
            return value
    raise ValueError(f"give values that are nested at most {MOST_DEPTH} deep")


Time = Annotated[
    Annotated[AwareDatetime, Field(strict=False)] | None, BeforeValidator(_moment), AfterValidator(_in_utc)
]
Metadata = Annotated[dict[str, Any], AfterValidator(_kept)]


class In(BaseModel):
    """What comes in: no member that is not known, and no text where a number is due."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", strict=True)


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
    project: Optional = Field(None, description="Moves it into this project; an empty one into none")


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
    content: Content
    role: Role = "user"
    time: Time = Field(None, description="With its zone; now where it is not given")
    metadata: Metadata = Field(default_factory=dict)
    source: Optional = Field(None, description="Its name where it comes from; a session takes each once")


class EpisodeChange(In):
    content: Content


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
    zone: Zone = Field(None, description="The asker's, in which `yesterday` is read", examples=["Europe/Zurich"])
    since: Time = Field(None, description="Only what was said from then on")
    before: Time = Field(None, description="Only what was said before then")
    explain: bool = False


class WhyNotIn(Scoped):
    query: Query
    episode: Id
    limit: Limit = None
    exclude: list[Id] = Field(default_factory=list, max_length=MOST_EXCLUDE)
    zone: Zone = None
    since: Time = None
    before: Time = None


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
    times: list[tuple[datetime, datetime]] = Field(description="The times that the query names, from and to")


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
    zone: Zone = Field(None, examples=["Europe/Zurich"])


class PassageOut(Out):
    episodes: list[EpisodeOut]
    recalled: list[int]
    score: float
    cut: list[int]


class EntityIn(In):
    name: EntityName = Field(examples=["Ada Example"])
    type: EntityType = Field(examples=["person"])
    description: str = Field("", max_length=MOST_DESCRIPTION, examples=["the plumber"])
    aliases: list[EntityName] = Field(default_factory=list, max_length=MOST_ALIASES)
    project: Optional = None
    session_id: Id | None = Field(None, description="A session without a project, which alone knows the entity")


class EntityChange(In):
    name: EntityName | None = None
    type: EntityType | None = None
    description: str | None = Field(None, max_length=MOST_DESCRIPTION)
    aliases: list[EntityName] | None = Field(None, max_length=MOST_ALIASES)


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


class FeedbackIn(Where):
    query: Query = Field(description="As it was asked", examples=["what did the plumber charge?"])
    episode: Id
    useful: bool


class FeedbackOut(Out):
    id: int
    query: str
    project: str | None
    session: str | None
    episode: int
    useful: bool
    time: datetime


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
    zone: Zone = None


class ChatOut(Out):
    answer: str
    model: str
    session: str
    finish: str | None = Field(description="The model's reason for its end; null where the answer broke off")
    asked: EpisodeOut | None = Field(description="What the user said, as stored")
    answered: EpisodeOut | None
    context: ContextOut


class PartOut(Out):
    state: Literal["ok", "degraded", "down", "off"]
    detail: str


class HealthOut(Out):
    status: Literal["ok", "degraded", "down"]
    parts: dict[str, PartOut] = Field(
        description="None without a token where one is due, no details for one bound to a project"
    )


def _of_setting(name: str) -> dict[str, Any]:
    spec = SPECS[name]
    shape: dict[str, Any] = {"description": spec.description, "default": spec.default}
    if spec.choices:
        return shape | {"type": "string", "enum": list(spec.choices)}
    if spec.is_text:
        return shape | {"type": "string", "maxLength": MOST_TEXT, "pattern": f"^({spec.pattern or PLAIN})$"}
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
