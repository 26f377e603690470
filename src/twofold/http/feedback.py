"""Feedback on hits."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from twofold.http.door import Door, names, reply, reply_page
from twofold.http.problems import documented
from twofold.http.rows import After, Id, OfProject, PageSize, links, next_page
from twofold.http.schemas import FeedbackIn, FeedbackOut, Forgotten, PageOut
from twofold.pages import PAGE

router = APIRouter()


@router.post(
    "/feedback",
    status_code=201,
    response_model=FeedbackOut,
    operation_id="addFeedback",
    responses=documented(404) | {201: {"links": links(remove="removeFeedback")}},
)
def add_feedback(memory: Door, body: FeedbackIn) -> Response:
    """Say whether an episode was useful to a query; a later word on the same takes the place of the earlier."""
    session, project = names(memory, body)
    return reply(
        FeedbackOut,
        memory.feedback.add(body.query, body.episode, body.useful, session=session, project=project),
        201,
    )


@router.get(
    "/feedback",
    response_model=PageOut[FeedbackOut],
    operation_id="listFeedback",
    responses=documented(404) | next_page("listFeedback"),
)
def list_feedback(memory: Door, project: OfProject = None, after: After = None, limit: PageSize = PAGE) -> Response:
    """What was said of hits, the newest first."""
    return reply_page(FeedbackOut, memory.feedback.page(project=project or None, after=after, limit=limit))


@router.delete("/feedback/{id}", response_model=Forgotten, operation_id="removeFeedback", responses=documented(404))
def remove_feedback(memory: Door, id: Id) -> Response:
    """Take a word back."""
    memory.feedback.remove(id)
    return reply(Forgotten, {"forgotten": 0})
