"""One stream of a run's log over HTTP, and the usual one: server-sent events, asked for from a cursor.

A stream is used once. It has no deadline of its own: whoever supervises it knows whether its silence means anything,
and interrupts it.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx2

from outlast.client import answers
from outlast.client.credentials import Credentials
from outlast.client.discretion import discreet
from outlast.client.transport import Lost
from outlast.log.cursor import Cursor
from outlast.log.event import JSON_TYPE
from outlast.supervision.phase import Trouble
from outlast.wire.sse import FrameTooLarge, Message, Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

EVENT_STREAM: Final = "text/event-stream"
"""The kind of answer that is a stream."""
SNAPSHOT_WITHIN: Final = 300.0
"""Seconds for a snapshot: 256 MiB, as much as a log may hold, over a line of 7 Mbit/s."""
MOST_SNAPSHOT: Final = 512 * 1024 * 1024
"""Bytes of a snapshot that are read: twice what a log may hold, for what JSON adds to it."""
SNAPSHOT_STALLS: Final = 15.0
"""Seconds without a byte of a snapshot before it is given up."""


class HTTPStream(ABC):
    """What every stream over HTTP is made of; `asked` are the parameters that narrow it."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, credentials: Credentials, asked: Mapping[str, str]
    ) -> None:
        self._client = client
        self._address = address
        self._credentials = credentials
        self._asked = asked
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._interrupted: Trouble | None = None
        self._waiting: asyncio.Timeout | None = None
        self._oversize: FrameTooLarge | None = None

    async def receive(self) -> Sequence[Message]:
        """Return the frames that the next bytes complete, maybe none. Raises `Lost`, a `Refusal`, `FrameTooLarge`."""
        if self._oversize is not None:
            raise self._oversize
        try:
            return await self._receive()
        except FrameTooLarge as error:
            self._oversize = error  # told when the frames before it have been taken
            return error.messages

    @abstractmethod
    async def _receive(self) -> Sequence[Message]:
        """Return what `receive` does. Raises `FrameTooLarge` as soon as it is found."""

    async def snapshot(self) -> bytes:
        """Fetch the snapshot of the log, beside the stream.

        It is asked for where the log is, wherever the server says that it is: credentials go nowhere else. Raises
        `Lost`, the `Refusal` that is answered, and whatever a provider of headers raises.
        """
        try:
            async with asyncio.timeout(SNAPSHOT_WITHIN):
                return await self._snapshot()
        except TimeoutError:
            raise Lost(Trouble.SILENT) from None

    async def _snapshot(self) -> bytes:
        async def ask(headers: Mapping[str, str]) -> httpx2.Response:
            request = self._client.build_request(
                "GET",
                f"{self._address}/snapshot",
                params=self._asked,
                headers={**headers, "accept": JSON_TYPE},
                timeout=SNAPSHOT_STALLS,
            )
            with discreet():
                return await self._client.send(request, stream=True, follow_redirects=False)

        with answers.told():
            answer = await self._credentials.send(ask)
            if answer.status_code != HTTPStatus.OK:
                raise await answers.verdict(answer, known=True)
            return await answers.body(answer, most=MOST_SNAPSHOT)

    def interrupt(self, trouble: Trouble) -> None:
        """Let `open` or `receive` raise `Lost` with this trouble, now or when it is called next."""
        self._interrupted = trouble
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(asyncio.get_running_loop().time())

    async def close(self) -> None:
        """Let go of the stream. Harmless twice."""
        response, self._response, self._chunks = self._response, None, None
        if response is not None:
            with contextlib.suppress(httpx2.RequestError):  # it is of no use any more, broken or not
                await response.aclose()

    @contextlib.asynccontextmanager
    async def _interruptible(self) -> AsyncGenerator[None, None]:
        if self._interrupted is not None:
            raise Lost(self._interrupted)
        try:
            async with asyncio.timeout(None) as self._waiting:
                yield
        except TimeoutError:
            assert self._interrupted is not None, "nothing else runs out"
            raise Lost(self._interrupted) from None
        finally:
            self._waiting = None

    async def _request(self, asked: Mapping[str, str], ours: Mapping[str, str]) -> None:
        """Ask for events. Raises what `Credentials.send` raises."""
        always = {"accept-encoding": "identity", "cache-control": "no-cache"}
        params = {**self._asked, **asked}

        async def ask(headers: Mapping[str, str]) -> httpx2.Response:
            request = self._client.build_request(
                "GET", f"{self._address}/events", params=params, headers={**headers, **always, **ours}, timeout=None
            )
            with discreet():
                return await self._client.send(request, stream=True, follow_redirects=False)

        self._response = await self._credentials.send(ask)

    async def _hear(self, media_type: str) -> None:
        """Begin with the answer. Raises `Lost` and the `Refusal` that it is, and `Lost` for another kind of answer."""
        assert self._response is not None, "asked for before"
        if self._response.status_code != HTTPStatus.OK:
            raise await answers.verdict(self._response, known=True)
        if not self._response.headers.get("content-type", "").startswith(media_type):
            raise Lost(Trouble.FOREIGN)
        # We asked for the bytes as they are; who packs them all the same is understood, and costs every piece a layer.
        is_packed = "content-encoding" in self._response.headers
        self._chunks = self._response.aiter_bytes() if is_packed else self._response.aiter_raw()


class SSEStream(HTTPStream):
    """A stream of server-sent events, from its request to its end."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, credentials: Credentials, asked: Mapping[str, str]
    ) -> None:
        super().__init__(client, address, credentials, asked)
        self._parser = Parser()

    @property
    def pause(self) -> float:
        """Seconds that the stream asked its readers to wait before they come again; 0 when it did not."""
        return (self._parser.retry or 0) / 1000

    async def open(self, cursor: Cursor) -> bool:
        """Ask for everything after `cursor`; False when nothing more will ever come.

        Raises `Lost`, a `Refusal`, and whatever a provider of headers raises.
        """
        place = {"last-event-id": str(cursor)} if cursor.seq else {}
        async with self._interruptible():
            with answers.told():
                await self._request({}, {"accept": EVENT_STREAM, **place})
                if self._response is not None and self._response.status_code == HTTPStatus.NO_CONTENT:
                    return False
                await self._hear(EVENT_STREAM)
        return True

    async def _receive(self) -> Sequence[Message]:
        assert self._chunks is not None, "opened first"
        async with self._interruptible():
            with answers.told():
                chunk = await anext(self._chunks, None)
        if chunk is None:
            raise Lost(Trouble.ENDED)
        return self._parser.feed(chunk)
