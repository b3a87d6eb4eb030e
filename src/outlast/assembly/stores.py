"""From a URL to a store."""

from typing import Literal, cast

from outlast.errors import SettingsError
from outlast.stores.base import Store
from outlast.stores.sqlite import SQLiteStore


def open_store(url: str, *, durability: str) -> Store:
    """Return the store that `url` names, not opened yet.

    `sqlite:///runs.db` is a file relative to the working folder, `sqlite:////var/lib/runs.db` an absolute path,
    `sqlite://` memory. Raises `SettingsError`.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or scheme != "sqlite" or (rest and not rest.startswith("/")):
        raise SettingsError(
            "The store's URL is 'sqlite:///runs.db' for a file here, 'sqlite:////path/runs.db' for an absolute "
            "path, or 'sqlite://' for memory."
        )
    path = rest.removeprefix("/")
    if rest and not path:
        raise SettingsError("The store's URL ends where the file's name should be: 'sqlite:///runs.db'.")
    return SQLiteStore(path or None, durability=cast("Literal['process', 'power']", durability))
