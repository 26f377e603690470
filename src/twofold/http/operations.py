"""Settings, health and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import TypeAdapter

from twofold.errors import InvalidInput
from twofold.http import metrics
from twofold.http.door import JSON, Door, reply
from twofold.http.problems import documented
from twofold.http.reach import UpstreamHealth
from twofold.http.schemas import HealthOut, SettingsChange, SettingsOut
from twofold.memory import Memory
from twofold.settings import SPECS
from twofold.types import Part

_SETTINGS = TypeAdapter(SettingsOut)

router = APIRouter()


@router.get("/settings", response_model=SettingsOut, operation_id="getSettings")
def get_settings(memory: Door) -> Response:
    """All settings as they are now."""
    return Response(_SETTINGS.dump_json(memory.settings()), media_type=JSON)


@router.patch("/settings", response_model=SettingsOut, operation_id="changeSettings", responses=documented(403))
def change_settings(memory: Door, body: SettingsChange) -> Response:
    """Change what is given, all or nothing; it acts from the next request on and stays. A weight fixes the weights."""
    for name in body:
        if name not in SPECS:
            raise InvalidInput(f"there is no setting {name[:40]!r}; the settings are {', '.join(SPECS)}")
    return Response(_SETTINGS.dump_json(memory.settings(body)), media_type=JSON)


@router.get("/health", response_model=HealthOut, operation_id="health", responses={503: {"model": HealthOut}})
def health(request: Request) -> Response:
    """Whether each part works. 503 where store or keyword index do not; without the others the rest goes on."""
    memory: Memory = request.app.state.memory
    upstream: UpstreamHealth = request.app.state.upstream_health
    parts = memory.health() | {"modelUpstream": upstream.part(str(memory.settings()["llmModel"]))}
    status = _overall(parts)
    if request.state.anonymous:
        parts = {}
    elif request.state.bound:  # details count what is in the whole store
        parts = {name: Part(part.state, "") for name, part in parts.items()}
    return reply(HealthOut, {"status": status, "parts": parts}, 503 if status == "down" else 200)


def _overall(parts: dict[str, Part]) -> str:
    if any(parts[name].state == "down" for name in ("store", "keywordIndex")):
        return "down"
    return "degraded" if any(part.state in ("degraded", "down") for part in parts.values()) else "ok"


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={**documented(403), 200: {"content": {metrics.MEDIA_TYPE: {"schema": {"type": "string"}}}}},
)
def prometheus(request: Request, memory: Door) -> Response:
    """What Prometheus reads."""
    memory.status()  # not for a token that is bound to one project
    known: metrics.Metrics = request.app.state.metrics
    return Response(known.text(), media_type=metrics.MEDIA_TYPE)
