"""Whole histories as the bodies of requests."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

import anyio
import anyio.from_thread
import anyio.to_thread
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import Field

from twofold import history
from twofold.errors import ImportFailed, TwofoldError
from twofold.history import Wanted
from twofold.http.door import Door
from twofold.http.problems import documented, failure_of, members
from twofold.http.rows import OfProject
from twofold.http.schemas import Out
from twofold.importers import KINDS, Losses
from twofold.memory import Memory
from twofold.messages import check

LINES = "application/x-ndjson"
PAUSE = 0.1  # seconds between two lines on the progress
Tell: TypeAlias = Callable[[str, int], None]

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

    It is read once before anything is written: what cannot be read to its end leaves nothing half imported. Who accepts
    application/x-ndjson is told of the progress, a line at a time, the last one with `done` or `problem`.
    """
    with ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="twofold-import-"))) / "upload"
        with path.open("wb") as file:
            async for chunk in request.stream():
                file.write(chunk)
        work = partial(_import, memory, path, Wanted(kind, project or None, None, all_branches), request.state.bound)
        if LINES in request.headers.get("accept", ""):
            return StreamingResponse(_told(work, request, stack.pop_all()), media_type=LINES)
        # It takes its time, and so it takes none of the threads that everything else goes through.
        done = await anyio.to_thread.run_sync(work, limiter=request.app.state.imports)
        return Response(done, media_type="application/json")


async def _told(work: Callable[[Tell], str], request: Request, folder: ExitStack) -> AsyncIterator[str]:
    """Lines on the progress of an import, and what came of it; the folder goes at the end."""
    sending, receiving = anyio.create_memory_object_stream[str](math.inf)
    last = 0.0

    def tell(stage: str, messages: int) -> None:
        nonlocal last
        if time.monotonic() - last >= PAUSE:
            last = time.monotonic()
            anyio.from_thread.run_sync(sending.send_nowait, json.dumps({"stage": stage, "messages": messages}) + "\n")

    async def run() -> None:
        with sending:
            try:
                done = await anyio.to_thread.run_sync(work, tell, limiter=request.app.state.imports)
                line = f'{{"done": {done}}}'
            except TwofoldError as error:
                line = json.dumps({"problem": members(failure_of(error), request.state.request_id)})
            sending.send_nowait(line + "\n")

    with folder, receiving:
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            async for line in receiving:
                yield line


def _import(memory: Memory, path: Path, wanted: Wanted, bound: bool, tell: Tell | None = None) -> str:
    """Bring a file in, telling what is done; what came of it, as JSON."""
    tell = tell or (lambda stage, messages: None)
    try:
        losses = Losses()
        homes: set[str | None] = set()
        for number, message in enumerate(history.messages([path], wanted, losses)):
            homes.add(check(message).project)
            tell("reading", number)
        beside = {one.project for one in losses.empty} | {one.project for one in losses.entities}
        homes |= {wanted.project} if wanted.project and beside else beside
        homes.discard(None)
        for home in homes if bound else ():
            memory.catalog.sessions(home, limit=1)  # raises NotFound for one that is out of reach
        done = history.bring_in(
            memory,
            [path],
            wanted,
            reading=lambda messages, _: tell("storing", messages),
            embedding=lambda made: tell("making vectors", made),
        )
    except ImportFailed as error:
        raise ImportFailed(_of_body(str(error), path)) from None
    told = {**asdict(done.report), "entities": done.entities, "losses": asdict(done.losses)}
    return ImportOut.model_validate(told).model_dump_json(by_alias=True)


def _of_body(sentence: str, path: Path) -> str:
    """What is wrong with a file, said to somebody who sent a body and knows neither our file nor the command line."""
    return (
        sentence.replace(repr(str(path)), "the body").replace(str(path), "the body").replace("--as KIND", "?kind=KIND")
    )
