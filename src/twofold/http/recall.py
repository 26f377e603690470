"""Search, recall and context."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import TypeAdapter

from twofold.errors import InvalidInput
from twofold.http.door import JSON, Door, names, reply
from twofold.http.metrics import Metrics
from twofold.http.problems import documented
from twofold.http.rows import OfProject
from twofold.http.schemas import (
    LONGEST_IDS,
    LONGEST_Q,
    MOST_SESSIONS,
    NOT_BLANK,
    ContextIn,
    ContextOut,
    FoundEpisode,
    RecallIn,
    RecallOut,
    Scoped,
    WhyNotIn,
    WhyNotOut,
)
from twofold.memory import Memory
from twofold.messages import MOST_ID
from twofold.recaller import MOST_LIMIT
from twofold.types import Recall

_FOUND = TypeAdapter(list[FoundEpisode])
_IDS = re.compile(r"\s*[0-9]{1,19}\s*(,\s*[0-9]{1,19}\s*)*")

router = APIRouter()


@router.get(
    "/episodes/search",
    response_model=list[FoundEpisode],
    operation_id="searchEpisodes",
    responses=documented(404),
)
def search(
    memory: Door,
    q: Annotated[str, Query(min_length=1, max_length=LONGEST_Q, json_schema_extra=NOT_BLANK)],
    limit: Annotated[int | None, Query(ge=0, le=MOST_LIMIT)] = None,
    session_ids: Annotated[
        str | None,
        Query(
            alias="sessionIds",
            max_length=LONGEST_IDS,
            description="As in 1,2,3; an empty one sees nothing",
            json_schema_extra={"pattern": r"^( *| *[0-9]{1,18} *(, *[0-9]{1,18} *)*)$"},
        ),
    ] = None,
    project: OfProject = None,
) -> Response:
    """Keyword search alone: the episodes that hold the query's words, best first. Stop words alone find nothing."""
    hits = memory.search(q, project=project or None, sessions=_ids(session_ids), limit=limit)
    rows = [{field: getattr(hit.episode, field) for field in _EPISODE} | {"score": hit.score} for hit in hits]
    return Response(_FOUND.dump_json(_FOUND.validate_python(rows), by_alias=True), media_type=JSON)


_EPISODE = [name for name in FoundEpisode.model_fields if name != "score"]


def _ids(listed: str | None) -> list[int] | None:
    """The ids of sessions as a query parameter has them; an empty one names none, a missing one does not restrict."""
    if listed is None:
        return None
    if not listed.strip():
        return []
    ids = [int(part) for part in listed.split(",")] if _IDS.fullmatch(listed) else []
    if not ids or len(ids) > MOST_SESSIONS or max(ids) > MOST_ID:
        raise InvalidInput(f"sessionIds is {listed[:40]!r}; give up to {MOST_SESSIONS:,} ids with commas, as in 1,2,3")
    return ids


@router.post("/recall", response_model=RecallOut, operation_id="recall", responses=documented(404))
def recall(request: Request, memory: Door, body: RecallIn) -> Response:
    """The episodes that fit a query best by meaning and by word, each with its reasons."""
    session, project, sessions = scope_of(memory, body)
    found = memory.recall(
        body.query,
        session=session,
        project=project,
        sessions=sessions,
        limit=body.limit,
        exclude=body.exclude,
        zone=body.zone or None,
        since=body.since,
        before=body.before,
        explain=True,
    )
    metrics: Metrics = request.app.state.metrics
    metrics.recall(found.explanation, len(found), found.degraded)
    return reply(RecallOut, found if body.explain else Recall(found.query, found.hits, found.degraded))


@router.post("/recall/why-not", response_model=WhyNotOut, operation_id="whyNot", responses=documented(404))
def why_not(memory: Door, body: WhyNotIn) -> Response:
    """At which stage a recall loses an episode, and what would have kept it."""
    session, project, sessions = scope_of(memory, body)
    told = memory.why_not(
        body.query,
        body.episode,
        session=session,
        project=project,
        sessions=sessions,
        limit=body.limit,
        exclude=body.exclude,
        zone=body.zone or None,
        since=body.since,
        before=body.before,
    )
    return reply(WhyNotOut, told)


@router.post("/context", response_model=ContextOut, operation_id="context", responses=documented(404))
def context(request: Request, memory: Door, body: ContextIn) -> Response:
    """What an assistant is given for its next turn: recent and recalled episodes and entities, under a budget."""
    session, project = names(memory, body)
    made = memory.context(body.message, session=session, project=project, budget=body.budget, zone=body.zone)
    metrics: Metrics = request.app.state.metrics
    metrics.recall(made.explanation, sum(len(passage.recalled) for passage in made.passages), made.degraded)
    return reply(ContextOut, made)


def scope_of(memory: Memory, body: Scoped) -> tuple[str | None, str | None, list[int] | None]:
    """Session and project by name, or the ids of sessions."""
    session, project = names(memory, body)
    if body.session_id is not None:
        return None, None, [body.session_id] if body.session_ids is None else _both(body)
    if session and body.session_ids is not None:
        raise InvalidInput("session and sessionIds are both given; give one of the two")
    return session, project, body.session_ids


def _both(body: Scoped) -> list[int]:
    raise InvalidInput("sessionId and sessionIds are both given; give one of the two")
