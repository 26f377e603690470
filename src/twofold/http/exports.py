"""What is remembered as the body of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from twofold import export
from twofold.errors import InvalidInput
from twofold.http.door import Door
from twofold.http.problems import documented
from twofold.http.rows import OfProject
from twofold.http.schemas import MOST_ID

PIECE = 64 * 1024  # characters sent at once: each takes a thread for its time

router = APIRouter()


@router.get(
    "/export",
    operation_id="exportHistory",
    response_class=StreamingResponse,
    responses=documented(404)
    | {200: {"content": {kind: {"schema": {"type": "string"}} for kind in set(export.MEDIA_TYPES.values())}}},
)
def export_history(
    memory: Door,
    project: OfProject = None,
    session_id: Annotated[int | None, Query(alias="sessionId", ge=1, le=MOST_ID)] = None,
    episode_id: Annotated[int | None, Query(alias="episodeId", ge=1, le=MOST_ID)] = None,
    kind: Annotated[export.Format, Query(alias="format", description="jsonl is what POST /import takes")] = "jsonl",
    vectors: Annotated[bool, Query(description="Also the vectors, in jsonl")] = False,
) -> StreamingResponse:
    """Write out a project, a session, one episode, or everything in reach, as it is at one moment."""
    if vectors and kind != "jsonl":
        raise InvalidInput(f"{kind} has no place for vectors; leave vectors out, or take the format jsonl")
    session = None if session_id is None else memory.catalog.session(session_id)
    if session and project and session.project != project:
        raise InvalidInput(f"session {session_id} is not in project {project!r}; name one of the two")
    records = memory.archive.export(
        project=session.project if session else project or None,
        session=session.name if session else None,
        episode=episode_id,
        vectors=vectors,
    )
    ending = {"jsonl": "jsonl", "markdown": "md", "openai": "jsonl"}[kind]
    headers = {"Content-Disposition": f'attachment; filename="twofold-export.{ending}"'}
    return StreamingResponse(_pieces(export.text(records, kind)), media_type=export.MEDIA_TYPES[kind], headers=headers)


def _pieces(lines: Iterator[str]) -> Iterable[str]:
    """The lines, many at once; the first ones are read before the answer begins, so that a fault is still an error."""
    gathered = _gathered(lines)
    return chain([next(gathered, "")], gathered)


def _gathered(lines: Iterator[str]) -> Iterator[str]:
    held, size = [], 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= PIECE:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)
