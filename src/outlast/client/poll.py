"""Reads a run's log page by page, for networks that hold streams back: each request waits a while for what comes next.

Rules:
1. What comes out is what a stream would have said: events, a gap, and control frames told from the pages.
2. Every answer is a sign of life, so a request waits for less than the heartbeat that is promised here.
3. How a run recovers stands in its status document. It is asked for when there was nothing else to tell, and told as
   the heartbeat of a stream; its head is the place that the pages have come to, never one beyond it.
4. The next page is asked for when the reader comes for it, so a slow one holds one page, and the server nothing.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final, TypeAlias

import httpx2

from outlast.client import answers, problem
from outlast.client.credentials import Credentials
from outlast.client.http import HTTPConnection, path_of, whose
from outlast.client.stream import HTTPStream
from outlast.client.transport import Lost
from outlast.errors import Draining, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import CONTROL_PREFIX, JSON, encode_json
from outlast.supervision.phase import Trouble
from outlast.supervision.profile import HEARTBEAT
from outlast.wire.lines import Last, Lines
from outlast.wire.native import BEAT, DrainReason
from outlast.wire.sse import Message

LINES: Final = "application/x-ndjson"
"""The kind of page that can be read, and bounded, event by event."""
LIMIT: Final = 500
"""Events of a page: a replay of some length takes few requests, and none of them long."""
WAIT: Final = 8
"""Seconds for which a page may wait: less than a heartbeat, with room for the way there and back."""
EMPTY_EVERY: Final = 1.0
"""Seconds between two pages that were to wait for news and brought none: a server that does not wait is not pressed."""
STATUS_EVERY: Final = 10.0
"""Seconds between two looks at the status document: a stream's heartbeats are as far apart."""

AskStatus: TypeAlias = Callable[[], Awaitable[JSON]]
"""Returns the status document of the run. Raises as `HTTPConnection.ask` does."""


class PolledConnection(HTTPConnection):
    """A connection over which streams are polled."""

    async def greet(self) -> None:
        """Ask who is there. Raises `Lost`."""
        await super().greet()
        self.greeting = replace(self.greeting, heartbeat=HEARTBEAT)  # the rhythm is ours, whatever a stream's would be

    def stream(self, run: str, *, owner: str | None, types: str | None) -> "PolledStream":
        """Return a stream of a run's log, not yet open. Raises `InputInvalid` for what is no run's id."""
        path = f"{path_of(run)}{whose(owner)}"
        return PolledStream(*self._streamed(run, owner=owner, types=types), status=lambda: self.ask("GET", path))


class PolledStream(HTTPStream):
    """One stream made of pages, until one of them is not answered."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        address: str,
        credentials: Credentials,
        asked: Mapping[str, str],
        *,
        status: AskStatus,
    ) -> None:
        super().__init__(client, address, credentials, asked)
        self._status = status
        self._place = Cursor(0, None)
        self._lines = Lines()
        self._last: Last | None = None
        self._brought = False
        self._is_idle = False
        self._status_at = self._not_before = -math.inf
        self._due: list[Message] = [_control("hello", heartbeat=HEARTBEAT)]

    @property
    def pause(self) -> float:
        """Seconds that the stream asked its readers to wait before they come again: a page never does."""
        return 0.0

    async def open(self, cursor: Cursor) -> bool:
        """Ask for the first page after `cursor`, whose end tells whether more will come.

        Raises `Lost`, a `Refusal`, and whatever a provider of headers raises.
        """
        self._place = cursor
        async with self._interruptible():
            await self._turn(wait=0)
        return True

    async def _receive(self) -> Sequence[Message]:
        if self._due:
            due, self._due = self._due, []
            return due
        async with self._interruptible():
            if self._chunks is not None:
                with answers.told():
                    chunk = await anext(self._chunks, None)
                return self._take(chunk) if chunk is not None else await self._end()
            if self._is_idle and self._left() <= 0:
                return [await self._beat()]
            await asyncio.sleep(max(0.0, self._not_before - asyncio.get_running_loop().time()))
            await self._turn(wait=min(WAIT, math.ceil(max(1.0, self._left()))))
        return ()

    # ---- pages ------------------------------------------------------------------------------

    async def _turn(self, *, wait: int) -> None:
        """Ask for the next page. A node that closes is told as a stream's word to go."""
        asked = {"after": str(self._place), "limit": str(LIMIT)} | ({"wait": str(wait)} if wait else {})
        self._lines, self._last, self._brought = Lines(), None, False
        self._not_before = asyncio.get_running_loop().time() + (EMPTY_EVERY if wait else 0.0)
        with answers.told():
            await self._request(asked, {"accept": LINES})
            assert self._response is not None, "just asked"
            if self._response.status_code == HTTPStatus.SERVICE_UNAVAILABLE:
                said = problem.refusal(
                    self._response.status_code, await answers.body(self._response, most=problem.MAX_PROBLEM)
                )
                pause = answers.pause(self._response)
                if not isinstance(said, Draining):
                    raise Lost(Trouble.BUSY, pause=pause)
                self._due.append(_control("drain", reason=DrainReason.CLOSING.value, spread=pause))
                return
            await self._hear(LINES)

    def _take(self, chunk: bytes) -> Sequence[Message]:
        lines = self._lines.feed(chunk)
        messages = [line for line in lines if isinstance(line, Message)]
        if messages:
            self._brought, self._not_before = True, -math.inf
        self._last = next((line for line in lines if isinstance(line, Last)), self._last)
        return messages

    async def _end(self) -> Sequence[Message]:
        """Move on to the place where the next page begins, and tell what a stream would tell there."""
        await self.close()
        last = self._last
        if last is None:
            raise Lost(Trouble.BROKEN)
        self._place, self._is_idle = last.next, last.up_to_date and not self._brought
        if last.ended:
            return [_control("end", head=str(last.next))]
        return [_control("caught-up", head=str(last.next))] if last.up_to_date else ()

    # ---- the status document ----------------------------------------------------------------

    def _left(self) -> float:
        return self._status_at + STATUS_EVERY - asyncio.get_running_loop().time()

    async def _beat(self) -> Message:
        try:
            said = await self._status()
        except WireError as error:
            raise Lost(Trouble.FOREIGN) from error
        self._status_at = asyncio.get_running_loop().time()
        if not isinstance(said, dict):
            raise Lost(Trouble.FOREIGN)
        told = {name: said[name] for name in BEAT if name in said}
        return _control("heartbeat", **{**told, "head": str(self._place)})


def _control(name: str, **said: JSON) -> Message:
    return Message(event=CONTROL_PREFIX + name, id=None, data=encode_json(said), content_type=None, retry=None)
