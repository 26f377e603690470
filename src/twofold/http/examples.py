"""One example of each main body and answer, by the name of its schema."""

from __future__ import annotations

from typing import Any

_EPISODE: dict[str, Any] = {
    "id": 12,
    "sessionId": 3,
    "session": "repairs",
    "title": "Repairs",
    "project": "house",
    "role": "user",
    "content": "The plumber charged 180, travel included.",
    "time": "2026-03-14T08:30:00Z",
    "metadata": {"channel": "phone"},
}
_ENTITY: dict[str, Any] = {
    "id": 4,
    "name": "Ada Example",
    "type": "person",
    "description": "the plumber",
    "aliases": ["Ms Example"],
    "project": "house",
    "sessionId": None,
    "mentions": 2,
}
_HIT: dict[str, Any] = {
    "episode": _EPISODE,
    "score": 0.91,
    "contributions": [
        {"ranking": "semantic", "rank": 1, "raw": 0.62, "value": 0.95, "weight": 0.5, "contribution": 0.475},
        {"ranking": "keyword", "rank": 1, "raw": 4.1, "value": 0.87, "weight": 0.5, "contribution": 0.435},
    ],
}
_CONTEXT: dict[str, Any] = {
    "message": "is the plumber paid?",
    "recent": [],
    "passages": [{"episodes": [_EPISODE], "recalled": [12], "score": 0.91, "cut": []}],
    "entities": [{"entity": _ENTITY, "score": 0.8}],
    "text": "<twofold-memory>...</twofold-memory>",
    "tokens": 64,
    "budget": 2000,
    "leftOut": {},
    "degraded": {},
    "explanation": None,
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "ProjectIn": {"name": "house"},
    "ProjectOut": {"id": 1, "name": "house", "sessions": 2, "episodes": 40},
    "WindowsIn": {"query": "what did the plumber charge?", "project": "house"},
    "SessionIn": {"name": "repairs", "project": "house", "title": "Repairs"},
    "SessionChange": {"title": "Repairs of 2026"},
    "SessionOut": {
        "id": 3,
        "name": "repairs",
        "title": "Repairs",
        "project": "house",
        "episodes": 7,
        "first": "2026-03-01T18:00:00Z",
        "last": "2026-03-14T08:30:00Z",
    },
    "EpisodeIn": {
        "content": "The plumber charged 180, travel included.",
        "session": "repairs",
        "project": "house",
        "time": "2026-03-14T09:30:00+01:00",
        "metadata": {"channel": "phone"},
    },
    "EpisodeChange": {"content": "The plumber charged 190, travel included."},
    "EpisodeOut": _EPISODE,
    "FoundEpisode": {**_EPISODE, "score": 4.1},
    "RecallIn": {"query": "what did the plumber charge?", "project": "house", "limit": 5},
    "RecallOut": {"query": "what did the plumber charge?", "hits": [_HIT], "degraded": {}, "explanation": None},
    "WhyNotIn": {"query": "what did the plumber charge?", "episode": 12, "project": "house"},
    "WhyNotOut": {
        "stage": "cut",
        "sentence": "it ranks 6th, and 5 were asked for",
        "keywordRank": 6,
        "semanticRank": 9,
        "shortBy": 0.02,
    },
    "ContextIn": {"message": "is the plumber paid?", "session": "today", "project": "house", "zone": "Europe/Zurich"},
    "ContextOut": _CONTEXT,
    "EntityIn": {"name": "Ada Example", "type": "person", "description": "the plumber", "project": "house"},
    "EntityChange": {"aliases": ["Ms Example"]},
    "EntityOut": _ENTITY,
    "EntityRecallOut": {"query": "who mends pipes?", "hits": [{"entity": _ENTITY, "score": 0.8}], "degraded": {}},
    "MergeIn": {"into": 4},
    "FeedbackIn": {"query": "what did the plumber charge?", "episode": 12, "useful": True, "project": "house"},
    "FeedbackOut": {
        "id": 9,
        "query": "what did the plumber charge?",
        "project": "house",
        "session": None,
        "episode": 12,
        "useful": True,
        "time": "2026-03-20T10:00:00Z",
    },
    "ChatIn": {"message": "what did the plumber charge?", "session": "today", "project": "house"},
    "ChatOut": {
        "answer": "180, travel included.",
        "model": "llama3.2",
        "session": "today",
        "finish": "stop",
        "asked": {**_EPISODE, "id": 41, "session": "today", "content": "what did the plumber charge?"},
        "answered": {**_EPISODE, "id": 42, "session": "today", "role": "assistant", "content": "180, travel included."},
        "context": _CONTEXT,
    },
    "ImportOut": {
        "added": 40,
        "updated": 1,
        "duplicates": 0,
        "kept": 0,
        "sessions": 2,
        "waiting": 0,
        "entities": 0,
        "losses": {
            "conversations": 2,
            "messages": 41,
            "first": "2026-03-01T18:00:00Z",
            "last": "2026-03-14T08:30:00Z",
            "skipped": {"empty message": 2},
            "placeholders": {"image (placeholder kept)": 1},
            "unknown": {},
            "changed": {},
        },
    },
    "HealthOut": {
        "status": "ok",
        "parts": {
            "store": {"state": "ok", "detail": "the file can be read"},
            "externalIndex": {"state": "off", "detail": "every index is in the file"},
        },
    },
    "Problem": {
        "type": "urn:twofold:problem:not-found",
        "title": "Not Found",
        "status": 404,
        "detail": "there is no session 12; sessions lists the ids",
        "requestId": "5f2b8a51c8a54c1c8f0a4e0f7a1d9b3e",
    },
}
