"""What the page asks for beside the routes of everybody: windows to fuse anew, weeks, neighbours, status, samples."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import Field

from twofold import history, samples
from twofold.errors import NotAllowed
from twofold.history import Wanted
from twofold.http.door import Door, reply
from twofold.http.problems import documented
from twofold.http.recall import scope_of
from twofold.http.rows import Id, OfProject
from twofold.http.schemas import MOST_ID, ExplanationOut, Out, Scoped, Time, Zone
from twofold.http.schemas import Limit as HitLimit
from twofold.http.schemas import Query as QueryText

MOST_AROUND = 20

router = APIRouter()

Pairs = list[tuple[int, float]]


class WindowsIn(Scoped):
    query: QueryText = Field(examples=["what did the plumber charge?"])
    limit: HitLimit = None
    zone: Zone = None
    since: Time = None
    before: Time = None


class FusionOut(Out):
    weights: dict[str, float]
    k: float | None
    floors: dict[str, float] | None
    completed: dict[str, Pairs] | None


class CandidateOut(Out):
    id: int
    session_id: int
    session: str
    title: str | None
    project: str | None
    role: str
    time: str
    text: str = Field(description="The part around the matching words")
    cut: bool
    marks: list[tuple[int, int]] = Field(description="Matching stretches of `text`, in UTF-16 code units")


class WindowsOut(Out):
    explanation: ExplanationOut
    rankings: dict[str, Pairs] = Field(description="What each retriever brought: ids with raw scores, best first")
    auto: dict[str, FusionOut] = Field(description="What each method fuses by under automatic weights")
    fixed: FusionOut = Field(description="What convex fusion completes by under weights that are set")
    method: str = Field(description="The method that `auto` means")
    fused: Pairs = Field(description="The hits under the present settings")
    candidates: list[CandidateOut]
    degraded: dict[str, str]


class WeekOut(Out):
    start: date
    episodes: int


class StatusOut(Out):
    bytes: int
    schema_: int = Field(serialization_alias="schema", validation_alias="schema")
    projects: int
    sessions: int
    episodes: int
    vectors: int
    waiting: int
    model: str | None
    current: str | None


class RunOut(Out):
    kind: str
    time: str
    report: dict[str, Any]


class SampleOut(Out):
    added: int


@router.post("/recall/windows", response_model=WindowsOut, operation_id="recallWindows", responses=documented(404))
def recall_windows(memory: Door, body: WindowsIn) -> Response:
    """Both windows of a query with all that another fusion of them needs, and the hits of now."""
    session, project, sessions = scope_of(memory, body)
    found = memory.lookout.windows(
        body.query,
        session=session,
        project=project,
        sessions=sessions,
        limit=body.limit,
        zone=body.zone or None,
        since=body.since,
        before=body.before,
    )
    candidates = [
        {
            **{
                name: getattr(one.episode, name) for name in ("id", "session_id", "session", "title", "project", "role")
            },
            "time": one.episode.time.isoformat(),
            "text": one.text,
            "cut": one.cut,
            "marks": one.marks,
        }
        for one in found.candidates
    ]
    told = {name: getattr(found, name) for name in WindowsOut.model_fields if name != "candidates"}
    return reply(WindowsOut, {**told, "candidates": candidates})


@router.get("/timeline", response_model=list[WeekOut], operation_id="timeline", responses=documented(404))
def timeline(
    memory: Door,
    project: OfProject = None,
    session_id: Annotated[int | None, Query(alias="sessionId", ge=1, le=MOST_ID)] = None,
    zone: Annotated[
        str | None, Query(max_length=64, description="Whose Mondays", json_schema_extra={"format": "iana-zone"})
    ] = None,
) -> list[WeekOut]:
    """How many episodes were said in each week that has some, the first week first."""
    found = memory.catalog.weeks(project=project or None, session=session_id, zone=zone or None)
    return [WeekOut(start=week.start, episodes=week.episodes) for week in found]


@router.get("/episodes/{id}/around", operation_id="episodesAround", responses=documented(404))
def episodes_around(memory: Door, id: Id, count: Annotated[int, Query(ge=1, le=MOST_AROUND)] = 2) -> list[CandidateOut]:
    """An episode with those before and after it in its session, in order."""
    return [
        CandidateOut(
            id=one.id,
            session_id=one.session_id,
            session=one.session,
            title=one.title,
            project=one.project,
            role=one.role,
            time=one.time.isoformat(),
            text=one.content,
            cut=False,
            marks=[],
        )
        for one in memory.catalog.around(id, count)
    ]


@router.get("/status", response_model=StatusOut, operation_id="status", responses=documented(403))
def status(memory: Door) -> Response:
    """What the store holds, and how many episodes wait for a vector."""
    found = memory.status()
    return reply(StatusOut, {name: getattr(found, name.rstrip("_")) for name in StatusOut.model_fields})


@router.get("/runs", response_model=list[RunOut], operation_id="listRuns", responses=documented(403))
def list_runs(memory: Door) -> list[RunOut]:
    """The last runs of `twofold eval` and `twofold tune`, the newest first."""
    return [RunOut(kind=run.kind, time=run.time.isoformat(), report=dict(run.report)) for run in memory.runs.last()]


@router.post("/sample", response_model=SampleOut, operation_id="addSample", responses=documented(403))
def add_sample(memory: Door) -> Response:
    """Bring in the sample history that comes with Twofold, to try things out."""
    if memory.is_bound:
        raise NotAllowed("a token that is bound to one project cannot bring in the samples, which have their own")
    done = history.bring_in(memory, [samples.path("history.jsonl")], Wanted())
    return reply(SampleOut, {"added": done.report.added})
