"""Entities."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from twofold.http.door import Door, reply, reply_page
from twofold.http.problems import documented
from twofold.http.rows import After, Id, OfProject, PageSize, links, next_page
from twofold.http.schemas import (
    LONGEST_Q,
    MOST_ID,
    NAME_OR_NONE,
    NOT_BLANK,
    TYPE_OR_NONE,
    EntityChange,
    EntityIn,
    EntityOut,
    EntityRecallOut,
    EpisodeOut,
    Forgotten,
    MergeIn,
    PageOut,
)
from twofold.messages import MOST_NAME
from twofold.pages import PAGE
from twofold.recaller import MOST_LIMIT

router = APIRouter()


@router.get(
    "/entities",
    response_model=PageOut[EntityOut],
    operation_id="listEntities",
    responses=documented(404) | next_page("listEntities"),
)
def list_entities(
    memory: Door,
    project: OfProject = None,
    session_id: Annotated[int | None, Query(alias="sessionId", ge=1, le=MOST_ID)] = None,
    type: Annotated[str | None, Query(max_length=40, json_schema_extra=TYPE_OR_NONE)] = None,
    after: After = None,
    limit: PageSize = PAGE,
) -> Response:
    """Entities by name."""
    page = memory.entities.page(
        project=project or None, session=session_id, type=type or None, after=after, limit=limit
    )
    return reply_page(EntityOut, page)


@router.post(
    "/entities",
    status_code=201,
    response_model=EntityOut,
    operation_id="addEntity",
    responses=documented(404, 409)
    | {201: {"links": links(get="getEntity", change="changeEntity", mentions="listMentions", forget="forgetEntity")}},
)
def add_entity(memory: Door, body: EntityIn) -> Response:
    """A new entity, linked to the episodes that name it."""
    made = memory.entities.add(
        body.name,
        body.type,
        description=body.description,
        aliases=body.aliases,
        project=body.project or None,
        session=body.session_id,
    )
    return reply(EntityOut, made, 201)


@router.get(
    "/entities/search", response_model=EntityRecallOut, operation_id="searchEntities", responses=documented(404)
)
def search_entities(
    memory: Door,
    q: Annotated[str, Query(min_length=1, max_length=LONGEST_Q, json_schema_extra=NOT_BLANK)],
    project: OfProject = None,
    session: Annotated[str | None, Query(max_length=MOST_NAME, json_schema_extra=NAME_OR_NONE)] = None,
    limit: Annotated[int, Query(ge=0, le=MOST_LIMIT)] = 10,
) -> Response:
    """The entities that fit a query by meaning and by name, best first."""
    return reply(
        EntityRecallOut, memory.entities.search(q, session=session or None, project=project or None, limit=limit)
    )


@router.get("/entities/{id}", response_model=EntityOut, operation_id="getEntity", responses=documented(404))
def get_entity(memory: Door, id: Id) -> Response:
    """One entity."""
    return reply(EntityOut, memory.entities.get(id))


@router.patch("/entities/{id}", response_model=EntityOut, operation_id="changeEntity", responses=documented(404, 409))
def change_entity(memory: Door, id: Id, body: EntityChange) -> Response:
    """Change what is given; a new name links the episodes anew."""
    return reply(EntityOut, memory.entities.change(id, **body.model_dump(exclude_none=True)))


@router.delete("/entities/{id}", response_model=Forgotten, operation_id="forgetEntity", responses=documented(404))
def forget_entity(memory: Door, id: Id) -> Response:
    """Delete an entity; the episodes that mention it stay."""
    memory.entities.forget(id)
    return reply(Forgotten, {"forgotten": 0})


@router.get(
    "/entities/{id}/episodes",
    response_model=PageOut[EpisodeOut],
    operation_id="listMentions",
    responses=documented(404) | next_page("listMentions"),
)
def list_mentions(memory: Door, id: Id, after: After = None, limit: PageSize = PAGE) -> Response:
    """The episodes that mention an entity, by time."""
    return reply_page(EpisodeOut, memory.entities.episodes(id, after=after, limit=limit))


@router.post(
    "/entities/{id}/merge", response_model=EntityOut, operation_id="mergeEntity", responses=documented(404, 409)
)
def merge_entity(memory: Door, id: Id, body: MergeIn) -> Response:
    """Put an entity into another, which takes its names and its mentions."""
    return reply(EntityOut, memory.entities.merge(id, body.into))
