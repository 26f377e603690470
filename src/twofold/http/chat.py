"""Chat, the service's own and the OpenAI-compatible one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from fastapi import APIRouter, Header, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import WithJsonSchema
from starlette.background import BackgroundTask

from twofold.chat import OWN_MODEL, Chat, Turn
from twofold.errors import InvalidInput, TwofoldError
from twofold.http.door import JSON, Door, names, reply
from twofold.http.metrics import Metrics
from twofold.http.problems import documented, failure_of, members
from twofold.http.schemas import ChatIn, ChatOut
from twofold.memory import Memory
from twofold.messages import MOST_NAME
from twofold.upstream import Upstream

HEADERS = ("X-Twofold-Session", "X-Twofold-Project")
EVENTS = "text/event-stream"
# An answer may also come in events.
STREAM: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            EVENTS: {
                "itemSchema": {
                    "type": "object",
                    "required": ["data"],
                    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
                }
            }
        }
    }
}
_END = object()

Result = TypeVar("Result")

CompletionIn = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "title": "CompletionIn",
            "type": "object",
            "description": "A request of OpenAI's chat API. What is not listed here is passed on to the model.",
            "required": ["messages"],
            "properties": {
                "model": {"type": ["string", "null"], "description": f"`{OWN_MODEL}` means the setting llmModel"},
                "stream": {"type": ["boolean", "null"], "default": False},
                "messages": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["role"],
                        "properties": {"role": {"type": "string"}},
                    },
                },
                "metadata": {
                    "type": ["object", "null"],
                    "description": "`session` and `project` name where the conversation is stored; not passed on",
                },
            },
        }
    ),
]
_COMPLETION = {"title": "Completion", "type": "object", "required": ["choices"]}
CompletionOut = Annotated[dict[str, Any], WithJsonSchema(_COMPLETION)]
ModelsOut = Annotated[dict[str, Any], WithJsonSchema({"title": "Models", "type": "object", "required": ["data"]})]
SessionHeader = Annotated[str | None, Header(alias=HEADERS[0], max_length=MOST_NAME)]
ProjectHeader = Annotated[str | None, Header(alias=HEADERS[1], max_length=MOST_NAME)]

router = APIRouter()


@router.post(
    "/chat",
    response_model=ChatOut,
    operation_id="chat",
    responses=documented(404, 502) | STREAM,
)
async def chat(request: Request, memory: Door, body: ChatIn) -> Response:
    """A turn: the model is asked with what the memory has to say, and both messages are stored.

    With `stream` the answer comes as events: `delta` with a `text`, then `done` with the turn, or `error` with a
    problem.
    """
    talk = _talk(request, memory)
    session, project = await anyio.to_thread.run_sync(partial(names, memory, body))
    how = {"session": session, "project": project, "zone": body.zone or None, "model": body.model or None}
    if not body.stream:
        turn = await _waited(request, partial(talk.turn, body.message, **how))
        _noted(request, turn)
        answer = reply(ChatOut, turn)
        answer.background = BackgroundTask(_afterwards, request, talk)
        return answer
    return await _streamed(request, talk, partial(talk.stream, body.message, **how), partial(_event, request))


@router.post(
    "/v1/chat/completions",
    response_model=CompletionOut,
    operation_id="complete",
    responses=documented(404, 502) | STREAM,
)
async def complete(
    request: Request,
    memory: Door,
    body: CompletionIn,
    session: SessionHeader = None,
    project: ProjectHeader = None,
) -> Response:
    """OpenAI's chat API with memory: any client has it by changing its base URL.

    The session is named by the header X-Twofold-Session or by `metadata.session`, the project likewise; without one,
    a conversation has a session of its own and goes on in it.
    """
    talk = _talk(request, memory)
    told = _checked(body).pop("metadata", None) or {}
    how = {
        "session": session or _name(told, "session"),
        "project": project or _name(told, "project"),
    }
    left = {name: value for name, value in told.items() if name not in how}
    if left:
        body["metadata"] = left
    if body.get("stream") is not True:
        answer = _plain(await _waited(request, partial(talk.completion, body, **how)))
        answer.headers.update(_where(talk))
        if talk.stored:
            _noted(request, talk.stored)
        answer.background = BackgroundTask(_afterwards, request, talk)
        return answer
    return await _streamed(request, talk, partial(talk.completion_stream, body, **how), _chunk)


@router.get("/v1/models", response_model=ModelsOut, operation_id="listModels", responses=documented(502))
async def list_models(request: Request, memory: Door) -> Response:
    """The models that the upstream has, before them `twofold`, which is that of the setting llmModel."""
    upstream: Upstream = request.app.state.upstream
    models = await _waited(request, upstream.models)
    if memory.settings()["llmModel"]:
        models.insert(0, {"id": OWN_MODEL, "object": "model", "created": 0, "owned_by": OWN_MODEL})
    return _plain({"object": "list", "data": models})


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    """A request that the model's server can be sent. Raises InvalidInput."""
    for name, kind, what in (("stream", bool, "true or false"), ("metadata", dict, "an object")):
        if not isinstance(body.get(name), kind | None):
            raise InvalidInput(f"{name} is {str(body[name])[:40]!r}; give {what}, or leave it out")
    try:
        json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the body cannot be passed on as JSON in UTF-8 ({error}); send plain finite values"
        ) from None
    return body


def _name(metadata: dict[str, Any], what: str) -> str | None:
    value = metadata.get(what)
    return value if isinstance(value, str) and value else None


def _talk(request: Request, memory: Memory) -> Chat:
    return Chat(memory, request.app.state.upstream)


async def _waited(request: Request, work: Callable[[], Result]) -> Result:
    """What a turn gives. It waits for a model, in a thread that no request for the store goes without."""
    return await anyio.to_thread.run_sync(work, limiter=request.app.state.chats)


async def _streamed(
    request: Request,
    talk: Chat,
    begin: Callable[[], Iterator[Any]],
    encoded: Callable[[Any], str],
) -> Response:
    """An answer in events. What fails before the first is a problem with its status."""
    items = begin()
    first = await _waited(request, lambda: next(items, _END))

    async def events() -> AsyncIterator[str]:
        item = first
        try:
            while item is not _END:
                yield encoded(item)
                item = await _waited(request, lambda: next(items, _END))
            if encoded is _chunk:
                yield "data: [DONE]\n\n"
        except TwofoldError as error:
            yield _error(request, error)
        finally:
            # Also where the client has gone: what was said so far is stored.
            with anyio.CancelScope(shield=True):
                close: Callable[[], None] = getattr(items, "close", lambda: None)
                await _waited(request, close)
            if talk.stored:
                _noted(request, talk.stored)

    return StreamingResponse(
        events(),
        media_type=EVENTS,
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no", **_where(talk)},
        background=BackgroundTask(_afterwards, request, talk),
    )


def _event(request: Request, item: str | Turn) -> str:
    """A server-sent event of the service's own chat."""
    if isinstance(item, Turn):
        return f"event: done\ndata: {ChatOut.model_validate(item).model_dump_json(by_alias=True)}\n\n"
    return f"event: delta\ndata: {json.dumps({'text': item}, ensure_ascii=False)}\n\n"


def _chunk(item: dict[str, Any]) -> str:
    """A chunk as OpenAI's clients read it."""
    return f"data: {json.dumps(item)}\n\n"


def _error(request: Request, error: TwofoldError) -> str:
    """A failure in the middle of a stream, whose status is long sent."""
    problem = members(failure_of(error), request.state.request_id)
    if request.url.path.startswith("/v1/"):
        return f"data: {json.dumps({'error': {'message': str(error), 'type': problem['type']}})}\n\n"
    return f"event: error\ndata: {json.dumps(problem)}\n\n"


def _plain(value: object) -> Response:
    """An upstream's answer, in ASCII: what it says may hold half characters."""
    return Response(json.dumps(value), media_type=JSON)


def _where(talk: Chat) -> dict[str, str]:
    """The session that a turn belongs to, for a header, where a header can hold it."""
    session = talk.session
    return {HEADERS[0]: session} if session and session.isascii() and session.isprintable() else {}


def _noted(request: Request, turn: Turn) -> None:
    metrics: Metrics = request.app.state.metrics
    context = turn.context
    metrics.recall(context.explanation, sum(len(one.recalled) for one in context.passages), context.degraded)


async def _afterwards(request: Request, talk: Chat) -> None:
    """Ask the model for entities, if it shall be."""
    turn = talk.stored
    if turn:
        await _waited(request, partial(talk.propose, turn))
