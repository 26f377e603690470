"""Who may come in: loopback without a token, everybody else with one; what a token opens."""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from twofold.tokens import PREFIX, Grant, Tokens

FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip")
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/?#@\\\s]+))(?::[0-9]{1,5})?")  # an address or a name, and a port


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a request is not let in."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Gate:
    """The rules of one server. `local` says that who asks from this machine needs none.

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
        if self.token and hmac.compare_digest(_bytes(secret), _bytes(self.token)):
            return Grant(None)
        return self.tokens.grant(secret)

    def _outside(self, headers: Mapping[str, str]) -> str:
        """What makes a request one from outside; empty where nothing does."""
        if not self.local:
            return "every request to this server"
        host = headers.get("host", "")
        name = _name(host)
        if not name or (not is_loopback(name) and name not in map(_name, self.hosts)):
            return f"a request with the Host {host[:80]!r}"
        origin = headers.get("origin")
        ours = (f"http://{host}".lower(), f"https://{host}".lower(), *self.origins)
        if origin is not None and origin not in ours:
            return f"a request from the origin {origin[:80]!r}"
        if any(name in headers for name in FORWARDED):
            return "a request through a proxy"
        return ""


def is_loopback(host: str) -> bool:
    """Whether a name or an address leads to this machine alone. Of the names only localhost does for certain."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _name(host: str) -> str:
    """The name or address in a Host header, without the port; empty for what is no such header."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower().removesuffix(".") if found else ""


def _bytes(secret: str) -> bytes:
    return secret.encode("utf-8", "surrogatepass")
