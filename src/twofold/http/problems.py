"""Errors as `application/problem+json` (RFC 9457): every status, with a stable type and one sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.exceptions import HTTPException

from twofold import errors

MEDIA_TYPE = "application/problem+json"
TYPE = "urn:twofold:problem:"
LONGEST_VALUE = 80  # characters of a refused value that are shown

_BY_ERROR: tuple[tuple[type[errors.TwofoldError], int, str], ...] = (
    (errors.InvalidInput, 422, "invalid-input"),
    (errors.NotFound, 404, "not-found"),
    (errors.Conflict, 409, "conflict"),
    (errors.NotAllowed, 403, "not-allowed"),
    (errors.ImportFailed, 422, "import-failed"),
    (errors.StoreError, 503, "store"),
    (errors.NoModel, 503, "no-model"),
    (errors.ChatError, 502, "chat"),
    (errors.EmbedderError, 503, "embedder"),
    (errors.RerankerError, 503, "reranker"),
    (errors.ModelMismatch, 503, "model-mismatch"),
    (errors.TwofoldError, 503, "unavailable"),
)
_BY_STATUS = {
    400: "malformed",
    401: "unauthorized",
    404: "no-route",
    405: "method-not-allowed",
    413: "too-large",
    415: "unsupported-media-type",
    422: "invalid-input",
    500: "internal",
}


class FieldProblem(BaseModel):
    """What is wrong with one field of a request."""

    field: str = Field(description="Where it stands, e.g. body.limit")
    message: str


class Problem(BaseModel):
    """An error: RFC 9457, with the request's id."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    type: str = Field(description="Stable name of the kind of error", examples=[TYPE + "not-found"])
    title: str = Field(examples=["Not Found"])
    status: int = Field(examples=[404])
    detail: str = Field(examples=["there is no session 12; sessions lists the ids"])
    request_id: str
    errors: list[FieldProblem] | None = None
    error: dict[str, Any] | None = Field(None, description="The same as OpenAI's clients read it, below /v1")


@dataclass(frozen=True, slots=True)
class Failure:
    """An error on its way out."""

    status: int
    slug: str
    detail: str
    fields: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] | None = None


def failure_of(error: errors.TwofoldError) -> Failure:
    """How an error of Twofold is answered."""
    status, slug = next((status, slug) for kind, status, slug in _BY_ERROR if isinstance(error, kind))
    return Failure(status, slug, str(error))


def response(failure: Failure, scope: Mapping[str, Any]) -> Response:
    """The answer to a request, given by its ASGI scope."""
    body = members(failure, str(scope.get("state", {}).get("request_id", "")))
    if str(scope.get("path", "")).startswith("/v1/"):
        body["error"] = {"message": failure.detail, "type": failure.slug, "code": failure.slug, "param": None}
    # What is quoted of a request may hold half a character, which UTF-8 has no place for.
    data = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return Response(data, failure.status, headers=failure.headers, media_type=MEDIA_TYPE)


def members(failure: Failure, request_id: str) -> dict[str, Any]:
    """The problem's members as JSON has them."""
    body: dict[str, Any] = {
        "type": TYPE + failure.slug,
        "title": HTTPStatus(failure.status).phrase,
        "status": failure.status,
        "detail": failure.detail,
        "requestId": request_id,
    }
    if failure.fields:
        body["errors"] = [{"field": field, "message": message} for field, message in failure.fields]
    return body


def body_too_large(most: int) -> Failure:
    """A body of more bytes than its route takes."""
    return Failure(413, "too-large", f"the body is too large, the most is {most:,} bytes; send less at a time")


async def on_twofold_error(request: Request, error: Exception) -> Response:
    """What Twofold raised on purpose."""
    assert isinstance(error, errors.TwofoldError)
    return response(failure_of(error), request.scope)


async def on_http_error(request: Request, error: Exception) -> Response:
    """What the framework refused: no such route, another method, a body that is too large or broken."""
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = _taken(request) or headers.get("Allow", "")
    details = {
        400: "the body cannot be read as JSON; send one JSON value in UTF-8, not nested a thousand deep",
        404: f"there is no {path[:LONGEST_VALUE]!r}; /openapi.json lists the routes",
        405: f"{path[:LONGEST_VALUE]!r} does not take {request.method}; /openapi.json lists what it takes",
    }
    slug = _BY_STATUS.get(error.status_code, "refused")
    detail = details.get(error.status_code, str(error.detail))
    return response(Failure(error.status_code, slug, detail, headers=headers), request.scope)


def _taken(request: Request) -> str:
    """The methods that the path takes; each is a route of its own, of which the framework names but the first."""
    pattern = getattr(request.scope.get("route"), "path", "")
    return ", ".join(sorted(method.upper() for method in request.app.openapi()["paths"].get(pattern, {})))


async def on_invalid_request(request: Request, error: Exception) -> Response:
    """A request that is not of the shape that its route takes: every field of it is named."""
    assert isinstance(error, RequestValidationError)
    if any(one["loc"] == ("body",) and isinstance(one.get("input"), bytes) for one in error.errors()):
        kind = request.headers.get("content-type", "")[:LONGEST_VALUE]
        sentence = f"the body's Content-Type is {kind!r}; send it as application/json"
        return response(Failure(415, "unsupported-media-type", sentence), request.scope)
    fields = [(".".join(str(part) for part in one["loc"]), _sentence(one)) for one in error.errors()]
    shown = "; ".join(f"{field}: {message}" for field, message in fields[:3])
    return response(Failure(422, "invalid-input", shown, fields), request.scope)


def _sentence(one: Mapping[str, Any]) -> str:
    """What is wrong with a field: the value, and what it may be."""
    message = str(one["msg"]).removeprefix("Value error, ")  # pydantic's word before ours
    message = message[:1].lower() + message[1:]
    value = one.get("input")
    if one["type"] in ("missing", "json_invalid") or isinstance(value, (dict, list)):
        return message
    if isinstance(value, float) and not math.isfinite(value):
        return f"{value}: {message}"
    return f"{str(value)[:LONGEST_VALUE]!r}: {message}"


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problems that a route can answer with, for its OpenAPI entry; the document moves them to their media type."""
    return {
        status: {"description": HTTPStatus(status).phrase, "model": Problem, "content": {MEDIA_TYPE: {}}}
        for status in sorted(statuses)
    }
