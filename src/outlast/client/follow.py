"""Follows one run over however many links it takes: each event once and in order, a gap told, then the end.

Rules:
1. The cursor is ours, not the connection's: it is behind everything that was handed over.
2. Nothing of a frame that broke off is used; what comes again after a reconnection is dropped by its number.
3. A number that was skipped is never passed over, not even by an end that is told behind it: the events are asked for
   again, and where the peer skips them a second time it does not keep to the wire, and the follow ends.
4. The supervisor alone connects. This asks it for the link, and moves when that is another one. A stream that breaks
   on a link that lives is asked for again by itself, ever more rarely while nothing comes of it; where it breaks twice
   the link is asked whether it is there.
5. Silence counts only while the link lives and we wait for bytes: two heartbeats without one, and the stream is asked
   for again (R6). What nobody comes for stays with the server, and its silence means nothing (R9).
6. A gap is handed over with its snapshot, or not at all: where the server only says where that is, it is fetched
   first. A snapshot older than what was handed over is passed over, unless the gap is about just that place.
7. With `types` numbers are skipped on purpose. The place moves on with the head that a heartbeat tells, so that a
   reader which comes back does not have the same events left out again.
8. What another try cannot cure ends typed: a refusal, an event too large, bytes that are no frames of ours.
"""

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from outlast.client.pages import Pages
from outlast.client.received import Asked, Received, ReceivedEvent, ReceivedGap, event_of, gap_of, with_snapshot
from outlast.client.record import RunRecord, noted
from outlast.client.supervisor import SETTLED, Established, Supervisor
from outlast.client.transport import Lost, Stream
from outlast.errors import OutlastError, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.supervision import inputs
from outlast.supervision.ladder import Ladder, advice
from outlast.supervision.phase import Phase, Trouble
from outlast.supervision.profile import (
    GRACE,
    HEARTBEAT,
    LATE,
    LONGEST_HEARTBEAT,
    SHORTEST_HEARTBEAT,
    SILENT_BEATS,
    Profile,
)
from outlast.wire import native
from outlast.wire.sse import FrameTooLarge, Message

MUTE_AFTER: Final = 3.0
"""Seconds without a byte of a stream that was granted, after which its link is asked why: `hello` comes at once."""
PROMPT_EVERY: Final = 1.0
"""Seconds between two streams that are asked for again at once: one that speaks and ends is no reason to hurry."""
CHECKED: Final = 2
"""Streams in a row that broke, up to which the link is asked whether it is there: the connections of a server that is
killed die one after the other, and the next stream may be asked for over one whose end has not come yet."""
SHORTEST_SPREAD: Final = 1.0
"""Seconds over which a reader comes back that is sent away: a server that says none is not come back to at once."""
OF_THE_LINK: Final = frozenset({Trouble.UNREACHABLE, Trouble.UNSPOKEN, Trouble.CERTIFICATE, Trouble.CONFIGURATION})
"""Troubles of a stream that say something of the whole link."""


@dataclass(frozen=True, slots=True)
class _Unbridged:
    """A gap whose snapshot is still to be fetched."""

    gap: ReceivedGap


class Follow:
    """One way through a log, and what has become of its streams; `cursor` is behind everything that was handed over."""

    def __init__(
        self,
        supervisor: Supervisor,
        asked: Asked,
        *,
        cursor: Cursor,
        profile: Profile,
        jitter: Callable[[], float],
        number: int,
    ) -> None:
        self._record = RunRecord(run=asked.run, place=cursor)
        self._supervisor = supervisor
        self._asked = asked
        self._profile = profile
        self._jitter = jitter
        self._number = number
        self.cursor = cursor
        self._link: Established | None = None
        self._stream: Stream | None = None
        self._lost: Lost | None = None  # found among frames, acted on before the next ones are asked for
        self._moves = False  # its node closes: what comes next comes over another link
        self._over = False
        self._failure: OutlastError | None = None  # told when what came before it has been
        self._ladder = Ladder()
        self._refused = False  # for its credentials, while its link was accepted
        self._skipped_at: Cursor | None = None
        self._heard_at = 0.0
        self._beat = HEARTBEAT
        self._waits = False
        self._watch: asyncio.TimerHandle | None = None
        self._mute: asyncio.TimerHandle | None = None  # until the first byte
        self._loop = asyncio.get_running_loop()
        self._moved = asyncio.Event()
        self._prompt_at = 0.0
        self._opened_at = 0.0
        self._pages = Pages()

    # ---- for those who read ------------------------------------------------------------------

    async def receive(self) -> list[Received]:
        """Return what comes next, in order; nothing when nothing more will come.

        Raises what no other try can cure, once everything before it has been returned.
        """
        while self._failure is None:
            messages = await self._receive()
            if messages is None:
                return []
            if received := await self._accept(messages):
                return received
        raise self._failure

    async def close(self) -> None:
        """Let go of the stream. Harmless twice."""
        self._supervisor.followers.pop(self, None)
        stream, self._stream, self._lost, self._link = self._stream, None, None, None
        self._unmute()
        if self._watch is not None:
            self._watch.cancel()
        if stream is not None:
            await stream.close()

    @property
    def record(self) -> RunRecord:
        """How it stands; put together when somebody looks, and not at each event: that took half of the time."""
        if self._record.place is not self.cursor or self._record.over is not self._over:
            self._record = replace(self._record, place=self.cursor, over=self._over)
        return self._record

    # ---- for the supervisor -----------------------------------------------------------------

    def moved(self) -> None:
        """Hear that the link is another one: go on over that."""
        self._moved.set()
        if self._stream is not None and self._link is not self._supervisor.established:
            self._stream.interrupt(Trouble.ENDED)

    def _show(self, record: RunRecord) -> None:
        self._record = record
        self._supervisor.publish()

    # ---- streams ----------------------------------------------------------------------------

    async def _receive(self) -> Sequence[Message] | None:
        """Return the next frames, over however many streams; None when nothing more will come.

        Without a deadline: a run may be silent for as long as it likes, and a server away.
        """
        while not self._over:
            try:
                if self._stream is None:
                    await self._open()
                if self._lost is not None:
                    raise self._lost
                if not self._over:
                    return await self._read_on()
            except Lost as lost:
                await self._lose(lost)
            except FrameTooLarge as error:
                sentence = f"The event after {self.cursor} is larger than this reader takes."
                raise FrameTooLarge(sentence, last_id=error.last_id, messages=()) from None
        return None

    async def _read_on(self) -> Sequence[Message]:
        assert self._stream is not None, "opened before"
        assert self._link is not None, "it has a link"
        self._waits = True
        try:
            messages = await self._stream.receive()
        finally:
            self._waits = False
        self._unmute()
        self._heard_at = self._loop.time()
        progress = any(message.id is not None for message in messages)
        self._supervisor.heard(self._link.number, progress=progress)
        return messages

    async def _open(self) -> None:
        """Ask for a stream over the link that there is, once there is one. Raises what blocks it."""
        self._supervisor.followers[self] = None
        asked = self._asked
        link = await self._supervisor.wait_established(patient=asked.patient)
        self._moved.clear()
        self._link, self._moves = link, False
        self._stream = stream = link.connection.stream(asked.run, owner=asked.owner, types=asked.types)
        with self._supervisor.asking(link.number, self._number):
            self._over = not await stream.open(self.cursor)
        self._heard_at = self._opened_at = self._loop.time()
        self._pages = Pages()
        self._mute = self._loop.call_later(MUTE_AFTER, self._accuse)
        self._listen()

    def _accuse(self) -> None:
        """Let the link be asked why a stream over it does not begin although it was granted (R13)."""
        mute, link = self._mute, self._link
        if link is not None:
            self._supervisor.accuse(link.number, lambda: mute is self._mute)

    def _unmute(self) -> None:
        if self._mute is not None:
            self._mute.cancel()
            self._mute = None

    async def _lose(self, lost: Lost) -> None:
        """Let go of the stream, and wait for what has to come before the next one."""
        stream, self._stream, self._lost = self._stream, None, None
        link, self._link = self._link, None
        asked = max(lost.pause, stream.pause if stream is not None else 0.0)
        self._unmute()
        if stream is not None:
            await stream.close()
        self._show(replace(self.record, caught_up=False))
        if link is not None and lost.trouble in OF_THE_LINK:
            self._supervisor.fail(link.number, lost)
            return
        if link is not None and lost.trouble is Trouble.CREDENTIALS:
            again, self._refused = self._refused, True
            await self._supervisor.judge(link, lost, again=again)
        self._pages.judge(lost, now=self._loop.time())
        if link is not self._supervisor.established:
            return  # the supervisor waits, where there is something to wait for
        if self._moves:
            await self._moved.wait()  # without a deadline: the supervisor tries for as long as it takes
            return
        is_first, self._ladder = self._ladder.failures == 0, self._ladder.after(asked, now=self._loop.time())
        if is_first and not asked and self._profile.prompt and self._loop.time() >= self._prompt_at:
            self._prompt_at = self._loop.time() + PROMPT_EVERY
            return
        if lost.trouble is Trouble.BROKEN and self._ladder.failures <= CHECKED and link is not None:
            self._supervisor.check(link.number)
        wait = self._ladder.wait(self._profile, now=self._loop.time(), jitter=self._jitter())
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._moved.wait()

    def _listen(self) -> None:
        """Look whether the stream is silent for too long, at the time when it may be."""
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_at(self._heard_at + SILENT_BEATS * self._beat, self._look)

    def _look(self) -> None:
        stream, now = self._stream, self._loop.time()
        if stream is None:
            return
        if self._watch is not None and now - self._watch.when() > LATE:  # our own stall: what has come is read first
            self._watch = self._loop.call_at(now + GRACE, self._look)
            return
        if not self._waits:  # the reader is at work, and nothing was asked of the stream
            self._heard_at = now
        elif now >= self._heard_at + SILENT_BEATS * self._beat:  # as it was set: a difference may fall short of it
            if self._is_alone(now):
                stream.interrupt(Trouble.SILENT)
                return
            self._watch = self._loop.call_at(now + SETTLED, self._look)
            return
        self._listen()

    def _is_alone(self, now: float) -> bool:
        """Say whether the link lives, and has spoken since, so that the silence is this stream's own."""
        link = self._supervisor.record
        spoken = link.last_heard is not None and link.last_heard - self._heard_at >= SETTLED
        return link.phase is Phase.LIVE and now - link.since >= SETTLED and spoken

    # ---- frames -----------------------------------------------------------------------------

    async def _accept(self, messages: Sequence[Message]) -> list[Received]:
        """Return what was not handed over yet, and move behind it: nothing of a stream that proves to be of no use."""
        received = list[Received]()
        try:
            for message in messages:
                if self._over or self._lost is not None:
                    break
                control = native.control_from_frame(message)
                found = self._read(message) if control is None else self._hear(control)
                item = await self._fetch(found) if isinstance(found, _Unbridged) else found
                if item is not None:
                    self._move(item)
                    received.append(item)
        except OutlastError as error:
            self._failure = error
        return received

    def _move(self, received: Received) -> None:
        self.cursor, self._refused = received.cursor, False
        if isinstance(received, ReceivedEvent):
            if self._ladder.failures:
                self._ladder = Ladder()
            self._over = received.is_terminal
        else:
            self._over = received.is_end

    async def _fetch(self, unbridged: _Unbridged) -> ReceivedGap | None:
        """Return the gap with its snapshot; None when that cannot be had now. The stream waits meanwhile."""
        assert self._stream is not None, "it told the gap"
        try:
            said = json.loads(await self._stream.snapshot())
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

    def _read(self, message: Message) -> ReceivedEvent | None:
        """Return a stored event when it is the next one."""
        received = event_of(message)
        if received is None or received.seq <= self.cursor.seq:
            return None
        if received.seq == self.cursor.seq + 1 or self._asked.types is not None:
            return received
        self._ask_again()
        return None

    def _ask_again(self) -> None:
        """Lose the stream that left something out. Raises `WireError` where another one left out the same."""
        if self._skipped_at == self.cursor:
            raise WireError(f"The peer left out what follows {self.cursor}, and did so again when asked for it.")
        self._skipped_at = self.cursor
        self._lost = Lost(Trouble.SKIPPED)

    def _hear(self, control: native.Control) -> ReceivedGap | _Unbridged | None:
        """Take in a control frame; one that this version does not know says nothing to it (M3)."""
        match control.name:
            case "hello":
                self._expect(control.said.get("heartbeat"))
                self._lost = self._supervisor.stranger(control.said.get("store"))
            case "heartbeat":
                if self._loop.time() - self._opened_at >= PROMPT_EVERY:
                    self._ladder = Ladder()
                self._show(noted(self.record, control.said))
                self._move_to(control.said.get("head"))
            case "caught-up":
                self._show(replace(self.record, caught_up=True))
                self._move_to(control.said.get("head"))
            case "drain":
                self._drain(control.said)
            case "end":
                self._end_at(control.said.get("head"))
            case "gap":
                return self._gap(control.said)
            case _:
                pass
        return None

    def _expect(self, beat: JSON) -> None:
        """Take the server's word for how many seconds its heartbeats are apart, unless it is nonsense."""
        if isinstance(beat, int | float) and SHORTEST_HEARTBEAT <= beat <= LONGEST_HEARTBEAT:
            self._beat = beat
            self._listen()

    def _drain(self, said: Mapping[str, JSON]) -> None:
        """Go: the whole link where the node closes, otherwise this stream alone."""
        spread = said.get("spread")
        seconds = advice(spread) if isinstance(spread, int | float) else 0.0
        reason = said.get("reason")
        self._moves = reason == native.DrainReason.CLOSING
        if self._moves and self._link is not None:
            spread = max(seconds, SHORTEST_SPREAD)
            self._supervisor.tell(inputs.Drained(link=self._link.number, spread=spread))
        is_at_once = reason == native.DrainReason.EXPIRED
        self._lost = Lost(Trouble.DRAINING, pause=0.0 if is_at_once else self._jitter() * seconds)

    def _gap(self, said: Mapping[str, JSON]) -> ReceivedGap | _Unbridged | None:
        gap = gap_of(said)
        if gap.requested.seq != self.cursor.seq and gap.cursor.seq <= self.cursor.seq:
            return None
        return _Unbridged(gap) if "snapshot" not in said and "snapshot_url" in said else gap

    def _end_at(self, head: JSON) -> None:
        """Be over, unless the terminal event, which every view shows, was left out on the way."""
        if native.place_of(head).seq > self.cursor.seq:
            self._ask_again()
        else:
            self._over = True

    def _move_to(self, head: JSON) -> None:
        """Move behind what was left out: all that we asked for has come, up to there."""
        place = native.place_of(head)
        if self._asked.types is not None and place.seq > self.cursor.seq:
            self.cursor = place
