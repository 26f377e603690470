"""Who may come in: loopback without a token, everybody else with one; what a token opens."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from twofold.tokens import PREFIX, Grant, Tokens

LOOPBACK = ("localhost", "127.0.0.1", "::1")
FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let in."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules of one server. `local` says that it listens on loopback only.

    A request that comes with a foreign Host (DNS rebinding), from a page of another origin or through a proxy
    is treated as one from outside.
    """

    tokens: Tokens
    token: str | None = None
    local: bool = True
    hosts: Collection[str] = ()
    origins: Collection[str] = ()

    def enter(self, headers: Mapping[str, str]) -> Grant | Refusal:
        """What a request of these headers (names in lower case) may see."""
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        secret = secret.strip()
        if scheme.lower() == "bearer" and secret:
            known = self._grant(secret)
            if known is not None:
                return known
            # A client that must name some key is let in where there are none; a key of ours that was taken back is not.
            if self.token or secret.startswith(PREFIX) or self.tokens.exist():
                return Refusal("this token opens nothing here; make one with: twofold token add")
        why = self._outside(headers)
        if why:
            return Refusal(f"{why} needs a token; send it as Authorization: Bearer, make one with: twofold token add")
        return Grant(None)

    def _grant(self, secret: str) -> Grant | None:
        if self.token and hmac.compare_digest(secret.encode("utf-8", "replace"), self.token.encode("utf-8", "replace")):
            return Grant(None)
        return self.tokens.grant(secret)

    def _outside(self, headers: Mapping[str, str]) -> str:
        """What makes a request one from outside; empty where nothing does."""
        if not self.local:
            return "a server that listens on more than loopback"
        host = headers.get("host", "")
        name = _name(host)
        if name not in LOOPBACK and name not in self.hosts:
            return f"a request with the Host {host[:80]!r}"
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and _place(origin) != host.lower():
            return f"a request from the origin {origin[:80]!r}"
        if any(name in headers for name in FORWARDED):
            return "a request through a proxy"
        return ""


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine alone."""
    return host in LOOPBACK or host.startswith("127.")


def _place(origin: str) -> str:
    """Host and port of an origin, empty for `null` and for what is none."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc.lower() if parts.scheme in ("http", "https") else ""


def _name(host: str) -> str:
    """The name in a Host header, without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")
