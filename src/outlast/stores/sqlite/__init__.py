"""The embedded engine: runs and logs in one SQLite file, or in memory."""

from outlast.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
