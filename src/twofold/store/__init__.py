"""The SQLite file: connections and transactions, numbered migrations, and the rows."""

from twofold.store.connection import Store

__all__ = ["Store"]
