"""Everything Twofold raises on purpose.

TwofoldError
├── InvalidInput (ValueError)    a value that cannot be taken: the message names it, its limit and the way out
├── NotFound (LookupError)       a session, project, episode, entity or token that is not there
├── Conflict                     a name that is taken
├── NotAllowed                   what a token bound to one project may not do
├── ImportFailed                 a file that cannot be read as a history or a judged set
├── StoreError                   the file: locked, read-only, full, damaged, no database
│   └── StoreTooNew              written by a newer Twofold
├── EmbedderError                no vector could be made
├── RerankerError                no scores could be made: the order stays as it was
├── MissingExtra (ImportError)   an optional package that is not installed: the message names the extra
├── ModelMismatch                vectors of another model: refused, with the way out
├── EngineError                  a search engine outside the file gave no answer: the file carries on
│   ├── EngineBusy               another process has it, and only one can
│   └── EngineLost               what it held is gone, or can no longer be read: it is made anew from the file
└── ChatError                    the language model gave no answer
    └── NoModel                  none is set, or none can be reached: the message says how to set one
"""

from __future__ import annotations


class TwofoldError(Exception):
    """The root. Its text is one sentence for a person, fit to print as it is."""


class InvalidInput(TwofoldError, ValueError):
    """A value that cannot be taken."""


class NotFound(TwofoldError, LookupError):
    """A session, project, episode, entity or token that is not there."""


class Conflict(TwofoldError):
    """A name that is taken."""


class NotAllowed(TwofoldError):
    """What a token bound to one project may not do."""


class ImportFailed(TwofoldError):
    """A file that cannot be read as a history or a judged set."""


class StoreError(TwofoldError):
    """The database file cannot be opened, read or written."""


class StoreTooNew(StoreError):
    """The file was written by a newer Twofold."""


class EmbedderError(TwofoldError):
    """The embedder could not be loaded or could not embed."""


class RerankerError(TwofoldError):
    """The reranker could not be loaded or could not score."""


class MissingExtra(TwofoldError, ImportError):
    """An optional package is needed and not installed."""


class ModelMismatch(TwofoldError):
    """The store's vectors were made by another model than the one in use."""


class EngineError(TwofoldError):
    """A search engine outside the file cannot be reached, or is damaged."""


class EngineBusy(EngineError):
    """Another process has the engine's folder, and only one can."""


class EngineLost(EngineError):
    """What the engine held is gone, or can no longer be read: it is made anew from the file."""


class ChatError(TwofoldError):
    """The language model gave no answer, or broke off."""


class NoModel(ChatError):
    """No language model is set, or none can be reached."""
