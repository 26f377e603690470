"""The OpenAPI document: what FastAPI makes of the routes, and what it cannot know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI

from twofold.http.examples import EXAMPLES
from twofold.http.problems import MEDIA_TYPE, Problem, documented

JSON = "application/json"
BEARER = {"type": "http", "scheme": "bearer", "description": "Made with: twofold token add. Loopback needs none."}


class Service(FastAPI):
    """FastAPI that documents problems under their own media type, the token, and examples."""

    def openapi(self) -> dict[str, Any]:
        """The document, made once."""
        if self.openapi_schema is None:
            document = super().openapi()
            for operation in _operations(document):
                _complete(operation)
            parts = document["components"]
            parts["securitySchemes"] = {"token": BEARER}
            parts["schemas"]["Problem"]["description"] = Problem.__doc__
            for name, example in EXAMPLES.items():
                parts["schemas"][name]["examples"] = [example]
            document["security"] = [{}, {"token": []}]
        assert self.openapi_schema is not None
        return self.openapi_schema


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _complete(operation: dict[str, Any]) -> None:
    """Document what follows from the body of a request, and problems as what they are."""
    answers = operation["responses"]
    if JSON in operation.get("requestBody", {}).get("content", {}):
        problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
        answers["415"] = {"description": documented(415)[415]["description"], "content": {MEDIA_TYPE: problem}}
    for answer in answers.values():
        content = answer.get("content", {})
        if MEDIA_TYPE in content and JSON in content:
            content[MEDIA_TYPE] = content.pop(JSON)
