"""Holds links to many servers, each with its own supervisor, under names of the application's choosing.

Rules:
1. Servers know nothing of each other: what becomes of one link touches no other.
2. The same server added again under the same name, with the same options, keeps its link; anything else replaces it.
3. What is removed takes everything with it that it owned. Once this is closed, nothing begins any more.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self, Unpack

from outlast.client.client import Client
from outlast.client.connect import Options, connect
from outlast.errors import ClientClosed


@dataclass(frozen=True, slots=True)
class _Entry:
    """A server: what it was added with, its client, and what ends that."""

    asked: tuple[str | tuple[str, ...], Options]
    client: Client
    context: AbstractAsyncContextManager[Client]


class Registry(Mapping[str, Client]):
    """Clients by name: `async with outlast.Registry() as servers:`. Source: M1."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._is_open = False
        self._changing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Begin; there is no server yet."""
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Let go of every server."""
        async with self._changing:  # without a deadline: what is under way there ends at once
            self._is_open = False
            for name in list(self._entries):
                await self._end(name)

    async def add(self, name: str, url: str | Sequence[str], **options: Unpack[Options]) -> Client:
        """Hold a link to a server and return its client; `url` and the options are as in `connect`.

        Raises `ClientClosed` once the registry is closed, and what `connect` raises.
        """
        asked = (url if isinstance(url, str) else tuple(url), options)
        async with self._changing:  # without a deadline, as above
            if not self._is_open:
                raise ClientClosed("This registry is closed.")
            before = self._entries.get(name)
            if before is not None and before.asked == asked:
                return before.client
            await self._end(name)
            context = connect(url, **options)
            client = await context.__aenter__()
            self._entries[name] = _Entry(asked, client, context)
            return client

    async def remove(self, name: str) -> None:
        """Let go of a server and of all that hung on it. Harmless for a name that nobody has."""
        async with self._changing:  # without a deadline, as above
            await self._end(name)

    async def _end(self, name: str) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            await entry.context.__aexit__(None, None, None)

    def __getitem__(self, name: str) -> Client:
        """Return the client of a server. Raises `KeyError`."""
        return self._entries[name].client

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order in which they were added."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Return how many servers there are."""
        return len(self._entries)
