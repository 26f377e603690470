"""What an entity must be before it is stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from twofold import mentions
from twofold import messages as incoming
from twofold.errors import InvalidInput
from twofold.store.entities import Name
from twofold.text import fold
from twofold.types import Entity

MOST_NAME = 200  # characters of a name or an alias
MOST_ALIASES = 20
MOST_DESCRIPTION = 2000  # characters
_TYPE = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Draft:
    """What an entity is to be, checked. The first name is the one that is shown."""

    names: tuple[Name, ...]
    type: str
    description: str

    @property
    def text(self) -> str:
        """What its vector is made of."""
        return _text(self.names[0].text, self.type, self.description)


def check(name: str, aliases: Sequence[str], type_: str, description: str) -> Draft:
    """An entity to be. Raises InvalidInput naming what cannot be stored, its limit and the way out."""
    if isinstance(aliases, str) or not isinstance(aliases, Sequence):
        raise InvalidInput(f"aliases is {str(aliases)[:40]!r}; give a list of names")
    names: dict[str, Name] = {}
    for one in (_checked_name("name", name), *(_checked_name("an alias", alias) for alias in aliases)):
        names.setdefault(one.folded, one)
    if len(names) - 1 > MOST_ALIASES:
        raise InvalidInput(f"aliases holds {len(names) - 1} names, the most is {MOST_ALIASES}; leave some out")
    return Draft(tuple(names.values()), checked_type(type_), _checked_description(description))


def _checked_name(kind: str, text: str) -> Name:
    """A name in single blanks. Raises InvalidInput."""
    shown = " ".join(text.split()) if isinstance(text, str) else ""
    incoming.encoded(kind, shown)
    if len(shown) > MOST_NAME or not fold(shown):
        raise InvalidInput(f"{kind} is {str(text)[:40]!r}; give 1 to {MOST_NAME} characters, not only blanks or marks")
    return mentions.name(shown)


def checked_type(text: str) -> str:
    """A type in lower case. Raises InvalidInput."""
    type_ = text.strip().lower() if isinstance(text, str) else ""
    if not _TYPE.fullmatch(type_):
        raise InvalidInput(
            f"type is {str(text)[:40]!r}; give a word as person or place: a letter, then up to 39 of a-z, 0-9, - and _"
        )
    return type_


def _checked_description(text: str) -> str:
    """A description without blanks around it. Raises InvalidInput."""
    if not isinstance(text, str) or len(text.strip()) > MOST_DESCRIPTION:
        size = f"has {len(text.strip()):,} characters" if isinstance(text, str) else f"is {str(text)[:40]!r}"
        raise InvalidInput(f"description {size}; give a text of at most {MOST_DESCRIPTION:,}")
    incoming.encoded("description", text)
    return text.strip()


def joined(one: str, other: str) -> str:
    """Two descriptions as one; the first where it holds the other or the two are too long."""
    if not one or not other or fold(other) in fold(one):
        return one or other
    both = f"{one}; {other}"
    return both if len(both) <= MOST_DESCRIPTION else one


def text_of(entity: Entity) -> str:
    """What an entity's vector is made of."""
    return _text(entity.name, entity.type, entity.description)


def _text(name: str, type_: str, description: str) -> str:
    return f"{name} ({type_}): {description}" if description else f"{name} ({type_})"
