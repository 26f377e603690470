"""What the routes share: the door that a request came in by, names for ids, answers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel, TypeAdapter

from twofold.errors import InvalidInput
from twofold.http.schemas import Where
from twofold.memory import Memory
from twofold.pages import Page

JSON = "application/json"


async def _door(request: Request) -> Memory:
    door: Memory = request.state.memory
    return door


Door = Annotated[Memory, Depends(_door)]


def reply(shape: type[BaseModel], value: object, status: int = 200, **headers: str) -> Response:
    """A record as an answer of that shape, made in the thread that looked it up."""
    body = shape.model_validate(value).model_dump_json(by_alias=True)
    return Response(body, status, headers=headers, media_type=JSON)


def reply_page(shape: type[BaseModel], page: Page[Any]) -> Response:
    """A page of records, each of that shape."""
    items = TypeAdapter(list[shape]).validate_python(page.items)  # type: ignore[valid-type]
    body = TypeAdapter(dict[str, Any]).dump_json({"items": items, "next": page.next}, by_alias=True)
    return Response(body, media_type=JSON)


def names(memory: Memory, where: Where) -> tuple[str | None, str | None]:
    """Session and project by name. Raises NotFound for an id that is not there, InvalidInput for two that differ."""
    if where.session_id is None:
        return where.session or None, where.project or None
    found = memory.catalog.session(where.session_id)
    for what, given, known in (("session", where.session, found.name), ("project", where.project, found.project)):
        if given and given != known:
            raise InvalidInput(f"{what} is {given!r}, but sessionId {found.id} names {known!r}; give one of the two")
    return found.name, found.project
