"""Reads the knowledge graph of the MCP reference memory server: entities with observations, and relations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from twofold.drafts import MOST_DESCRIPTION, MOST_NAME
from twofold.importers.fields import Found, Losses, TooLarge, clean, name_of
from twofold.types import Message

# A graph is held in memory until its relations, which may come last, are known.
MOST_ENTITIES = 100_000
MOST_CHARACTERS = 64 * 1024**2

_NOT_IN_A_TYPE = re.compile(r"[^a-z0-9_-]+")
_KEYS = {"entity": {"type", "name", "entityType", "observations"}, "relation": {"type", "from", "to", "relationType"}}


@dataclass(slots=True)
class _Node:
    """What a graph says of one entity: its kind and its facts."""

    type: str = ""
    facts: dict[str, None] = field(default_factory=dict)


def read(entries: Iterable[object], stem: str, losses: Losses, all_branches: bool) -> Iterator[Message]:
    """Yield for each entity one message with all that is known of it, and leave the entity itself in `losses`."""
    nodes = _graph(entries, losses)
    losses.conversations += bool(nodes)
    for name, node in nodes.items():
        facts = list(node.facts)
        losses.entities += _entity(name, node, losses)
        kind = f" ({node.type})" if node.type else ""
        yield Message(
            content="\n".join([f"{name}{kind}", *(f"- {fact}" for fact in facts)]),
            session=stem,
            metadata={"entity": name, **({"entityType": node.type} if node.type else {})},
            source=f"mcp-memory:{name if len(name) <= MOST_NAME else sha256(name.encode()).hexdigest()}",
        )


def _graph(entries: Iterable[object], losses: Losses) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    size = 0
    for entry in entries:
        type_ = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(entry, dict) or not isinstance(type_, str) or type_ not in _KEYS:
            losses.skip("line that is neither an entity nor a relation")
            continue
        for key in entry:
            if key not in _KEYS[type_]:
                losses.unknown("key", key)
        size += (_put_entity if type_ == "entity" else _put_relation)(nodes, entry, losses)
        if size > MOST_CHARACTERS or len(nodes) > MOST_ENTITIES:
            raise TooLarge(
                f"a memory of more than {MOST_ENTITIES:,} entities or {MOST_CHARACTERS:,} characters: split the file"
            )
    return nodes


def _put_entity(nodes: dict[str, _Node], entry: Mapping[str, object], losses: Losses) -> int:
    """Add an entity to the graph; returns how much it takes."""
    name = name_of(entry.get("name"), "name", losses)
    if name is None:
        losses.skip("entity without a name")
        return 0
    node = nodes.setdefault(name, _Node())
    node.type = node.type or name_of(entry.get("entityType"), "type", losses) or ""
    listed = entry.get("observations")
    facts = listed if isinstance(listed, list) else [listed]
    size = len(name)
    for fact in facts:
        if isinstance(fact, str) and fact.strip():
            node.facts[clean(fact.strip(), losses)] = None
            size += len(fact)
        elif fact is not None:
            losses.skip("empty observation" if isinstance(fact, str) else "observation that is not text")
    return size


def _put_relation(nodes: dict[str, _Node], entry: Mapping[str, object], losses: Losses) -> int:
    """Add a relation to what is known of the entity that it starts from; returns how much it takes."""
    start, end = name_of(entry.get("from"), "name", losses), name_of(entry.get("to"), "name", losses)
    relation = name_of(entry.get("relationType"), "relation", losses)
    if not (start and end and relation):
        losses.skip("relation without both ends and a type")
        return 0
    for name in (start, end):
        if name not in nodes:
            losses.note("entity that only a relation names (made)")
            nodes[name] = _Node()
    fact = f"{relation} {end}"
    nodes[start].facts[fact] = None
    return len(fact) + len(start) + len(end)


def _entity(name: str, node: _Node, losses: Losses) -> list[Found]:
    """The entity, its description cut to what one may have; the message has all of it."""
    if len(" ".join(name.split())) > MOST_NAME:
        losses.note(f"entity with a name of over {MOST_NAME} characters (kept as a message alone)")
        return []
    type_ = _NOT_IN_A_TYPE.sub("-", node.type.lower()).strip("-_0123456789")[:40].rstrip("-_")
    if node.type and type_ != node.type.strip().lower():
        losses.note("type of an entity (written with a-z, 0-9, - and _)")
    description = "; ".join(node.facts)
    if len(description) > MOST_DESCRIPTION:
        losses.note(f"description of an entity (cut to {MOST_DESCRIPTION:,} characters; its message has all of it)")
        description = description[: MOST_DESCRIPTION - 1].rstrip() + "…"
    return [Found(name, type_ or "thing", description)]
