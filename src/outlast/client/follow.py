"""Follows one run over however many connections it takes: each event once and in order, a gap told, then the end.

Rules:
1. The cursor is ours, not the connection's. It moves when the reader comes back for the next item, so an exception
   in the reader's code leaves it before the event that was being handled.
2. Nothing of a frame that broke off is used; what comes again after a reconnection is dropped by its number.
3. A number that was skipped is never passed over, not even by an end that is told behind it: the events are asked for
   again, and where the peer skips them a second time it does not keep to the wire, and the follow ends.
4. Silence counts only while we wait for bytes. A slow reader slows the server down and costs no connection.
5. Only proof of life ends a backoff: an event that the reader took, or a heartbeat. A server that accepts and hangs
   up is tried ever more rarely.
6. A gap is handed over with its snapshot, or not at all: where the server only says where that is, it is fetched
   first. A snapshot older than what the reader has taken is passed over, unless the gap is about just that place.
7. With `types` numbers are skipped on purpose. The place moves on with the head that a heartbeat tells, so that a
   reader which comes back does not have the same events left out again.
8. What another try cannot cure ends typed: a refusal, an event too large, bytes that are no frames of ours.
"""

import asyncio
import json
import random
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias
from urllib.parse import quote

import httpx2

from outlast.backoff import JITTER, delay
from outlast.client.link import Headers, HeadersOf, Link, Lost, Trouble, direct
from outlast.client.received import Received, ReceivedEvent, ReceivedGap, event_of, gap_of, with_snapshot
from outlast.errors import CursorInvalid, InputInvalid, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.wire import native
from outlast.wire.sse import FrameTooLarge, Message

BASE: Final = 0.5
"""Seconds before the second try: a server that restarts is often back by then."""
CAP: Final = 8.0
"""Seconds between tries at most: a person is looking at the screen."""
LONGEST_PAUSE: Final = 300.0
"""Seconds a server may ask us to stay away: more is a mistake."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connecting:
    """A try is under way; `attempt` counts from 1 since the last proof of life."""

    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """The server is speaking; `beat` is its newest heartbeat over this connection, empty before one came."""

    beat: Mapping[str, JSON]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """There is no stream; the next try, number `attempt`, comes in `seconds`."""

    trouble: Trouble
    seconds: float
    attempt: int


LinkState: TypeAlias = Connecting | Live | Waiting


async def follow(
    url: str,
    run: str,
    *,
    owner: str | None = None,
    after: Cursor | str | None = None,
    types: Collection[str] | None = None,
    headers: Headers | HeadersOf | None = None,
    client: httpx2.AsyncClient | None = None,
    on_state: Callable[[LinkState], None] | None = None,
    jitter: Callable[[], float] = random.random,
) -> AsyncGenerator[Received, None]:
    """Yield the events of `run` after the cursor `after`, each once and in order, until its terminal event.

    `url` is where Outlast's routes are, such as `http://127.0.0.1:8400`. `owner` names whose run it is, where that is
    not whom the request speaks for; the server's `authorize` decides. A lost connection is made again, for as long as
    it takes; events that cannot be served are told as a `ReceivedGap`, whose snapshot replaces what was read so far.
    With `types` only events of these types come, and the terminal event. `headers` may be a callable, sync or async: it
    is asked before every try, and once more after a 401. `on_state` hears what becomes of the connection.

    Raises the `Refusal` that the server answered (`RunNotFound`, `Unauthenticated`, …), `InputInvalid` for an
    impossible url, header or run id, `FrameTooLarge` for an event that no try can bring, and `WireError` for a peer
    that does not keep to the wire. Source: R2, R3, R4, R12, the native wire.
    """
    address = _address(url, run)
    cursor = after if isinstance(after, Cursor) else Cursor.parse(after or "")
    async with AsyncExitStack() as stack:
        used = client if client is not None else await stack.enter_async_context(direct())
        connect = partial(Link, used, address, owner=owner, types=None if types is None else ",".join(types))
        reader = _Reader(connect, cursor, headers, on_state or _unheard, jitter, is_dense=types is None)
        stack.push_async_callback(reader.close)
        while (received := await reader.next()) is not None:
            yield received
            reader.take(received)


def _address(url: str, run: str) -> str:
    try:
        base = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise InputInvalid("This is no url; one looks like http://127.0.0.1:8400.") from error
    if base.scheme not in {"http", "https"} or not base.host:
        raise InputInvalid("A url begins with http:// or https:// and names a host, such as http://127.0.0.1:8400.")
    if run in {"", ".", ".."}:
        raise InputInvalid("This is no run's id.")
    return f"{url.rstrip('/')}/runs/{quote(run, safe='')}"


def _unheard(_state: LinkState) -> None:
    """Tell nobody."""


@dataclass(frozen=True, slots=True)
class _Unbridged:
    """A gap whose snapshot is still to be fetched."""

    gap: ReceivedGap


class _Reader:
    """One reader's place in a log, and what has become of its connections."""

    def __init__(
        self,
        connect: Callable[[], Link],
        cursor: Cursor,
        headers: Headers | HeadersOf | None,
        tell: Callable[[LinkState], None],
        jitter: Callable[[], float],
        *,
        is_dense: bool,
    ) -> None:
        self._connect = connect
        self._is_dense = is_dense
        self._cursor = cursor
        self._headers = headers
        self._tell = tell
        self._jitter = jitter
        self._link: Link | None = None
        self._lost: Lost | None = None  # found among frames, acted on before the next ones are asked for
        self._over = False
        self._accepted: Iterator[Received | _Unbridged] = iter(())
        self._failures = 0
        self._skipped_at: Cursor | None = None

    async def next(self) -> Received | None:
        """Return what comes next that the reader has not taken yet; None when nothing more will come."""
        while True:
            for accepted in self._accepted:
                received = await self._fetch(accepted) if isinstance(accepted, _Unbridged) else accepted
                if received is not None:
                    return received
            messages = await self._receive()
            if messages is None:
                return None
            self._accepted = self._accept(messages)

    async def _receive(self) -> Sequence[Message] | None:
        """Return the next frames, over however many connections; None when nothing more will come.

        Without a deadline: a run may be silent for as long as it likes, and a server away.
        """
        while not self._over:
            try:
                link = self._link or await self._open()
                if self._lost is not None:
                    raise self._lost
                if not self._over:
                    return await link.receive()
            except Lost as lost:
                await self._wait(lost)
            except FrameTooLarge as error:
                sentence = f"The event after {self._cursor} is larger than this reader takes."
                raise FrameTooLarge(sentence, last_id=error.last_id, messages=()) from None
        return None

    def _accept(self, messages: Sequence[Message]) -> Iterator[Received | _Unbridged]:
        """Yield what the reader has not taken yet; nothing more once the connection turned out to be of no use."""
        for message in messages:
            if self._over or self._lost is not None:
                return
            control = native.control_from_frame(message)
            received = self._read(message) if control is None else self._hear(control)
            if received is not None:
                yield received

    def take(self, received: Received) -> None:
        """Move behind what the reader has taken."""
        self._cursor = received.cursor
        if isinstance(received, ReceivedEvent):
            self._failures = 0
            self._over = received.is_terminal
        else:
            self._over = received.is_end

    async def _fetch(self, unbridged: _Unbridged) -> ReceivedGap | None:
        """Return the gap with its snapshot; None when that cannot be had now. The stream waits meanwhile."""
        assert self._link is not None, "it told the gap"
        try:
            said = json.loads(await self._link.snapshot(self._headers))
            gap = with_snapshot(unbridged.gap, said)
        except Lost as lost:
            self._lost = lost
        except (ValueError, RecursionError) as error:
            raise WireError("A snapshot is not JSON.") from error
        else:
            if gap.cursor.seq >= unbridged.gap.cursor.seq:
                return gap
            self._lost = Lost(Trouble.FOREIGN)  # something between us and the server keeps what is out of date
        return None

    async def close(self) -> None:
        """Let go of the connection. Harmless twice."""
        link, self._link, self._lost = self._link, None, None
        if link is not None:
            await link.close()

    async def _open(self) -> Link:
        self._tell(Connecting(attempt=self._failures + 1))
        self._link = link = self._connect()
        self._over = not await link.open(self._cursor, self._headers)
        return link

    async def _wait(self, lost: Lost) -> None:
        asked = max(lost.pause, self._link.pause if self._link else 0.0)
        await self.close()
        self._failures += 1
        jitter = self._jitter()
        floor = min(asked, LONGEST_PAUSE) * (1 + JITTER * jitter)  # never earlier than asked, and not all at once
        seconds = max(floor, delay(self._failures, base=BASE, cap=CAP, jitter=jitter))
        self._tell(Waiting(trouble=lost.trouble, seconds=seconds, attempt=self._failures + 1))
        await asyncio.sleep(seconds)

    def _read(self, message: Message) -> ReceivedEvent | None:
        """Return a stored event when it is the next one."""
        received = event_of(message)
        if received is None or received.seq <= self._cursor.seq:
            return None
        if received.seq == self._cursor.seq + 1 or not self._is_dense:
            return received
        self._ask_again()
        return None

    def _ask_again(self) -> None:
        """Lose the connection that left something out. Raises `WireError` where another one left out the same."""
        if self._skipped_at == self._cursor:
            raise WireError(f"The peer left out what follows {self._cursor}, and did so again when asked for it.")
        self._skipped_at = self._cursor
        self._lost = Lost(Trouble.SKIPPED)

    def _hear(self, control: native.Control) -> ReceivedGap | _Unbridged | None:
        """Take in a control frame; one that this version does not know says nothing to it (M3)."""
        match control.name:
            case "hello":
                self._tell(Live(beat={}))
                if self._link is not None:
                    self._link.expect(control.said.get("heartbeat"))
            case "heartbeat":
                self._tell(Live(beat=control.said))
                self._failures = 0
                self._move_to(control.said.get("head"))
            case "caught-up":
                self._move_to(control.said.get("head"))
            case "drain":
                self._lost = Lost(Trouble.DRAINING, pause=_share(control.said.get("spread"), self._jitter()))
            case "end":
                self._end_at(control.said.get("head"))
            case "gap":
                return self._gap(control.said)
            case _:
                pass
        return None

    def _gap(self, said: Mapping[str, JSON]) -> ReceivedGap | _Unbridged | None:
        gap = gap_of(said)
        if gap.requested.seq != self._cursor.seq and gap.cursor.seq <= self._cursor.seq:
            return None
        return _Unbridged(gap) if "snapshot" not in said and "snapshot_url" in said else gap

    def _end_at(self, head: JSON) -> None:
        """Be over, unless the terminal event, which every view shows, was left out on the way."""
        if _place(head).seq > self._cursor.seq:
            self._ask_again()
        else:
            self._over = True

    def _move_to(self, head: JSON) -> None:
        """Move behind what was left out: all that we asked for has come, up to there."""
        place = _place(head)
        if not self._is_dense and place.seq > self._cursor.seq:
            self._cursor = place


def _place(head: JSON) -> Cursor:
    """Return the place that a control frame tells; the start of the log where it tells none."""
    with suppress(CursorInvalid):
        return Cursor.parse(head if isinstance(head, str) else "")
    return Cursor(0, None)


def _share(spread: object, jitter: float) -> float:
    return jitter * spread if isinstance(spread, int | float) and spread > 0 else 0.0
