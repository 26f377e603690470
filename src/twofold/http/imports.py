"""Whole histories as the bodies of requests."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import Field

from twofold import history
from twofold.errors import ImportFailed
from twofold.history import Wanted
from twofold.http.door import Door, reply
from twofold.http.problems import documented
from twofold.http.rows import OfProject
from twofold.http.schemas import Out
from twofold.importers import KINDS, Losses
from twofold.memory import Memory
from twofold.messages import check

router = APIRouter()


class LossesOut(Out):
    conversations: int
    messages: int
    first: datetime | None
    last: datetime | None
    skipped: dict[str, int] = Field(description="What is not in the store, how often, by reason")
    placeholders: dict[str, int] = Field(description="What is there by name alone")
    unknown: dict[str, int] = Field(description="Types that no reader knows, which gave what text they held")
    changed: dict[str, int] = Field(description="What was taken otherwise than it stood")


class ImportOut(Out):
    added: int
    updated: int = Field(description="Messages that say something else at their source than before")
    duplicates: int
    kept: int = Field(description="Messages that say something else at their source, and were edited here")
    sessions: int
    waiting: int
    entities: int = Field(description="Entities that are new or have another description")
    losses: LossesOut


@router.post(
    "/import",
    response_model=ImportOut,
    operation_id="importHistory",
    responses=documented(404),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def import_history(
    request: Request,
    memory: Door,
    project: OfProject = None,
    kind: Annotated[str | None, Query(pattern="^({})$".format("|".join(KINDS)))] = None,
    all_branches: Annotated[
        bool, Query(alias="allBranches", description="Also take the abandoned branches of edited conversations, marked")
    ] = False,
) -> Response:
    """Bring in the file that the body is: an account export (JSON or the zip), a session log, OpenAI messages, JSONL.

    It is read once before anything is written: what cannot be read to its end leaves nothing half imported.
    """
    with tempfile.TemporaryDirectory(prefix="twofold-import-") as folder:
        path = Path(folder) / "upload"
        with path.open("wb") as file:
            async for chunk in request.stream():
                file.write(chunk)
        work = partial(_import, memory, path, Wanted(kind, project or None, None, all_branches), request.state.bound)
        # It takes its time, and so it takes none of the threads that everything else goes through.
        return await anyio.to_thread.run_sync(work, limiter=request.app.state.imports)


def _import(memory: Memory, path: Path, wanted: Wanted, bound: bool) -> Response:
    try:
        losses = Losses()
        homes = {check(message).project for message in history.messages([path], wanted, losses)}
        beside = {one.project for one in losses.empty} | {one.project for one in losses.entities}
        homes |= {wanted.project} if wanted.project and beside else beside
        homes.discard(None)
        for home in homes if bound else ():
            memory.catalog.sessions(home, limit=1)  # raises NotFound for one that is out of reach
        done = history.bring_in(memory, [path], wanted)
    except ImportFailed as error:
        raise ImportFailed(_of_body(str(error), path)) from None
    return reply(ImportOut, {**asdict(done.report), "entities": done.entities, "losses": asdict(done.losses)})


def _of_body(sentence: str, path: Path) -> str:
    """What is wrong with a file, said to somebody who sent a body and knows neither our file nor the command line."""
    return (
        sentence.replace(repr(str(path)), "the body").replace(str(path), "the body").replace("--as KIND", "?kind=KIND")
    )
