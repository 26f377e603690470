"""Projects, sessions and episodes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from fastapi.responses import Response

from twofold.http.door import Door, names, reply, reply_page
from twofold.http.problems import documented
from twofold.http.schemas import (
    MOST_ID,
    NAME_OR_NONE,
    EpisodeChange,
    EpisodeIn,
    EpisodeOut,
    Forgotten,
    PageOut,
    ProjectIn,
    ProjectOut,
    SessionChange,
    SessionIn,
    SessionOut,
)
from twofold.memory import Memory
from twofold.messages import MOST_NAME
from twofold.pages import MOST_PAGE, PAGE

Id = Annotated[int, InPath(ge=1, le=MOST_ID)]
After = Annotated[
    str | None,
    Query(max_length=4096, description="`next` of the page before", json_schema_extra={"format": "cursor"}),
]
PageSize = Annotated[int, Query(alias="limit", ge=1, le=MOST_PAGE)]
OfProject = Annotated[
    str | None, Query(max_length=MOST_NAME, description="Name of a project", json_schema_extra=NAME_OR_NONE)
]
Purge = Annotated[bool, Query(description="Also rewrite the file, so that no deleted text stays on disk")]

router = APIRouter()


def links(**to: str) -> dict[str, object]:
    """OpenAPI links from the id of what an answer holds to operations on it."""
    return {
        name: {"operationId": operation, "parameters": {"id": "$response.body#/id"}} for name, operation in to.items()
    }


def next_page(operation: str) -> dict[int | str, dict[str, object]]:
    """The OpenAPI link from a page of a list to the one after it."""
    return {200: {"links": {"next": {"operationId": operation, "parameters": {"after": "$response.body#/next"}}}}}


@router.get(
    "/projects",
    response_model=PageOut[ProjectOut],
    operation_id="listProjects",
    responses=next_page("listProjects"),
)
def list_projects(memory: Door, after: After = None, limit: PageSize = PAGE) -> Response:
    """Projects by name."""
    return reply_page(ProjectOut, memory.catalog.projects(after=after, limit=limit))


@router.post(
    "/projects",
    status_code=201,
    response_model=ProjectOut,
    operation_id="addProject",
    responses=documented(403, 409)
    | {201: {"links": links(get="getProject", change="changeProject", forget="forgetProject")}},
)
def add_project(memory: Door, body: ProjectIn) -> Response:
    """A new project. One that an episode names is made by itself."""
    return reply(ProjectOut, memory.catalog.add_project(body.name), 201)


@router.get("/projects/{id}", response_model=ProjectOut, operation_id="getProject", responses=documented(404))
def get_project(memory: Door, id: Id) -> Response:
    """One project."""
    return reply(ProjectOut, memory.catalog.project(id))


@router.patch(
    "/projects/{id}", response_model=ProjectOut, operation_id="changeProject", responses=documented(403, 404, 409)
)
def change_project(memory: Door, id: Id, body: ProjectIn) -> Response:
    """Give a project another name."""
    return reply(ProjectOut, memory.catalog.rename_project(id, body.name))


@router.delete("/projects/{id}", response_model=Forgotten, operation_id="forgetProject", responses=documented(404))
def forget_project(memory: Door, id: Id, purge: Purge = False) -> Response:
    """Delete a project with all that hangs on it: sessions, episodes, entities, tokens."""
    return _forgotten(memory, memory.catalog.forget_project(id), purge)


@router.get(
    "/sessions",
    response_model=PageOut[SessionOut],
    operation_id="listSessions",
    responses=documented(404) | next_page("listSessions"),
)
def list_sessions(memory: Door, project: OfProject = None, after: After = None, limit: PageSize = PAGE) -> Response:
    """The sessions of a project, or all; the one that spoke last first."""
    return reply_page(SessionOut, memory.catalog.sessions(project or None, after=after, limit=limit))


@router.post(
    "/sessions",
    status_code=201,
    response_model=SessionOut,
    operation_id="addSession",
    responses=documented(404, 409)
    | {201: {"links": links(get="getSession", change="changeSession", forget="forgetSession")}},
)
def add_session(memory: Door, body: SessionIn) -> Response:
    """A new session. One that an episode names is made by itself."""
    made = memory.catalog.add_session(body.name, project=body.project or None, title=body.title or None)
    return reply(SessionOut, made, 201)


@router.get("/sessions/{id}", response_model=SessionOut, operation_id="getSession", responses=documented(404))
def get_session(memory: Door, id: Id) -> Response:
    """One session."""
    return reply(SessionOut, memory.catalog.session(id))


@router.patch(
    "/sessions/{id}", response_model=SessionOut, operation_id="changeSession", responses=documented(403, 404, 409)
)
def change_session(memory: Door, id: Id, body: SessionChange) -> Response:
    """Give a session another name or title, or move it into another project."""
    changed = memory.catalog.change_session(id, name=body.name, title=body.title)
    if body.project is not None:
        changed = memory.catalog.move_session(id, body.project)
    return reply(SessionOut, changed)


@router.delete("/sessions/{id}", response_model=Forgotten, operation_id="forgetSession", responses=documented(404))
def forget_session(memory: Door, id: Id, purge: Purge = False) -> Response:
    """Delete a session with its episodes."""
    return _forgotten(memory, memory.catalog.forget_session(id), purge)


@router.get(
    "/episodes",
    response_model=PageOut[EpisodeOut],
    operation_id="listEpisodes",
    responses=documented(404) | next_page("listEpisodes"),
)
def list_episodes(
    memory: Door,
    session_id: Annotated[int | None, Query(alias="sessionId", ge=1, le=MOST_ID)] = None,
    project: OfProject = None,
    after: After = None,
    limit: PageSize = PAGE,
) -> Response:
    """The episodes of a session by time, or of a project or everything in the order they were stored."""
    page = memory.catalog.episodes(session=session_id, project=project or None, after=after, limit=limit)
    return reply_page(EpisodeOut, page)


@router.post(
    "/episodes",
    status_code=201,
    response_model=EpisodeOut,
    operation_id="addEpisode",
    responses=documented(404, 409)
    | {201: {"links": links(get="getEpisode", change="changeEpisode", forget="forgetEpisode")}},
)
def add_episode(memory: Door, body: EpisodeIn) -> Response:
    """Store a message; it is on disk and can be found when the answer comes. 409: its source is there already."""
    session, project = names(memory, body)
    stored = memory.add(
        body.content,
        role=body.role,
        session=session,
        project=project,
        time=body.time,
        metadata=body.metadata,
        source=body.source or None,
    )
    return reply(EpisodeOut, stored, 201)


@router.get("/episodes/{id}", response_model=EpisodeOut, operation_id="getEpisode", responses=documented(404))
def get_episode(memory: Door, id: Id) -> Response:
    """One episode."""
    return reply(EpisodeOut, memory.show(episode=id)[0])


@router.patch("/episodes/{id}", response_model=EpisodeOut, operation_id="changeEpisode", responses=documented(404))
def change_episode(memory: Door, id: Id, body: EpisodeChange) -> Response:
    """Give an episode other words; the old ones and their vector are gone at once."""
    return reply(EpisodeOut, memory.edit(id, body.content))


@router.delete("/episodes/{id}", response_model=Forgotten, operation_id="forgetEpisode", responses=documented(404))
def forget_episode(memory: Door, id: Id, purge: Purge = False) -> Response:
    """Delete an episode."""
    return reply(Forgotten, {"forgotten": memory.forget(episode=id, purge=purge)})


def _forgotten(memory: Memory, count: int, purge: bool) -> Response:
    if purge:
        memory.purge()
    return reply(Forgotten, {"forgotten": count})
