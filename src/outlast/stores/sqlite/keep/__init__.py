"""What a client keeps over its own death, in one SQLite file."""

from outlast.stores.sqlite.keep.file import Keep

__all__ = ["Keep"]
