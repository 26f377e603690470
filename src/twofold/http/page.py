"""The page for a person who wants to look: static files, without data, with a policy that lets nothing else in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "page"
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPEN = "/page/"  # below which everything is answered without a token


class _Files(StaticFiles):
    """Files with the page's headers."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(HEADERS)
        return response


async def _page(request: Request) -> Response:
    return FileResponse(FOLDER / "index.html", headers=HEADERS)


def routes() -> list[BaseRoute]:
    """The page at / and its parts below OPEN."""
    return [Route("/", _page), Mount(OPEN.rstrip("/"), _Files(directory=FOLDER))]
