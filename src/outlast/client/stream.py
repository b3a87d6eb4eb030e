"""One stream of a run's log as server-sent events: asks for it from a cursor, and turns its bytes into frames.

A stream is used once. It has no deadline of its own: whoever supervises it knows whether its silence means anything,
and interrupts it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import httpx2

from outlast.client import answers
from outlast.client.credentials import Credentials
from outlast.client.transport import Lost
from outlast.log.cursor import Cursor
from outlast.supervision.phase import Trouble
from outlast.wire.sse import FrameTooLarge, Message, Parser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SNAPSHOT_WITHIN: Final = 300.0
"""Seconds for a snapshot: 256 MiB, as much as a log may hold, over a line of 7 Mbit/s."""
SNAPSHOT_STALLS: Final = 15.0
"""Seconds without a byte of a snapshot before it is given up."""


class SSEStream:
    """One stream, from its request to its end; `asked` are the parameters that narrow it."""

    def __init__(
        self, client: httpx2.AsyncClient, address: str, credentials: Credentials, asked: Mapping[str, str]
    ) -> None:
        self._client = client
        self._address = address
        self._credentials = credentials
        self._asked = asked
        self._parser = Parser()
        self._response: httpx2.Response | None = None
        self._chunks: AsyncIterator[bytes] | None = None
        self._oversize: FrameTooLarge | None = None
        self._interrupted: Trouble | None = None
        self._waiting: asyncio.Timeout | None = None

    @property
    def pause(self) -> float:
        """Seconds that the stream asked its readers to wait before they come again; 0 when it did not."""
        return (self._parser.retry or 0) / 1000

    async def open(self, cursor: Cursor) -> bool:
        """Ask for everything after `cursor`; False when nothing more will ever come.

        Raises `Lost`, a `Refusal`, and whatever a provider of headers raises.
        """
        async with self._interruptible():
            with answers.told():
                self._response = await self._credentials.send(lambda headers: self._ask(cursor, headers))
                return await self._judge(self._response)

    async def receive(self) -> Sequence[Message]:
        """Return the frames that the next bytes complete, maybe none. Raises `Lost` and `FrameTooLarge`."""
        assert self._chunks is not None, "opened first"
        if self._oversize is not None:
            raise self._oversize
        async with self._interruptible():
            with answers.told():
                chunk = await anext(self._chunks, None)
        if chunk is None:
            raise Lost(Trouble.ENDED)
        try:
            return self._parser.feed(chunk)
        except FrameTooLarge as error:
            self._oversize = error  # told when the frames before it have been taken
            return error.messages

    async def snapshot(self) -> bytes:
        """Fetch the snapshot of the log, beside the stream. Raises `Lost`, and whatever a provider of headers raises.

        It is asked for where the log is, wherever the server says that it is: credentials go nowhere else.
        """
        try:
            async with asyncio.timeout(SNAPSHOT_WITHIN):
                with answers.told():
                    answer = await self._client.get(
                        f"{self._address}/snapshot",
                        params=self._asked,
                        headers={**await self._credentials.headers(), "accept": "application/json"},
                        timeout=SNAPSHOT_STALLS,
                        follow_redirects=False,
                    )
        except TimeoutError:
            raise Lost(Trouble.SILENT) from None
        if answer.status_code != HTTPStatus.OK:
            raise Lost(Trouble.BUSY, pause=answers.pause(answer))
        return answer.content

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

    async def _ask(self, cursor: Cursor, headers: Mapping[str, str]) -> httpx2.Response:
        ours = {"accept": "text/event-stream", "accept-encoding": "identity", "cache-control": "no-cache"}
        if cursor.seq:
            ours["last-event-id"] = str(cursor)
        request = self._client.build_request(
            "GET", f"{self._address}/events", params=self._asked, headers={**headers, **ours}, timeout=None
        )
        return await self._client.send(request, stream=True, follow_redirects=False)

    async def _judge(self, response: httpx2.Response) -> bool:
        if response.status_code == HTTPStatus.NO_CONTENT:
            return False
        if response.status_code != HTTPStatus.OK:
            raise await answers.verdict(response)
        if not response.headers.get("content-type", "").startswith("text/event-stream"):
            raise Lost(Trouble.FOREIGN)
        self._chunks = response.aiter_bytes()
        return True
