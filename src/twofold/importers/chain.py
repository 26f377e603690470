"""Names for messages that carry no id of their own."""

from __future__ import annotations

from hashlib import sha256


class Chain:
    """Makes the `source` of each message from what it says and from all before it in its session.

    So a file that grew at its end keeps the sources it had, and two equal messages of one session have two.
    """

    def __init__(self) -> None:
        self._links: dict[str, bytes] = {}

    def source(self, session: str, project: str | None, role: str, content: str) -> str:
        """Return the source of the next message of `session`."""
        link = sha256(self._links.get(session, b""))
        for field in (session, project or "", role, content):
            data = field.encode("utf-8", "surrogatepass")
            link.update(len(data).to_bytes(8, "big"))
            link.update(data)
        self._links[session] = link.digest()
        return f"sha256:{link.hexdigest()}"
