"""Twofold: long-term memory for AI assistants that recalls by meaning and by word, and shows why."""

from twofold.errors import TwofoldError
from twofold.memory import Memory
from twofold.types import Contribution, Episode, Hit, Message, Project, Recall, Scope, Session

__version__ = "0.1.0"

__all__ = [
    "Contribution",
    "Episode",
    "Hit",
    "Memory",
    "Message",
    "Project",
    "Recall",
    "Scope",
    "Session",
    "TwofoldError",
]
