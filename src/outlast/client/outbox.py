"""Sends what an application must not lose: kept before it is promised, sent in order, until there is an answer.

Rules:
1. A send is in the keeper before whoever asked for it hears of it. From then on it ends in an answer, however many
   processes, links and servers die on the way: none is given up, and none is passed over in silence (R11).
2. One at a time and in order, each under its own key. Before it leaves it is marked as sent; where no answer comes it
   is sent again, ever more rarely, and at once over another link.
3. Only an answer settles it. A refusal rejects it, with its code; that a server is busy, or that credentials ran out,
   is no answer to what was asked. Nor is what something else says at its address, as a proxy does during a deploy,
   unless it goes on saying so.
4. Of all clients that share what is kept, one sends to a server: who holds it, for as long as it has a link.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final

from outlast.client import http
from outlast.client.answers import ANSWER_WITHIN
from outlast.client.keeper import Keeper
from outlast.client.pages import Pages
from outlast.client.supervisor import Established, Supervisor
from outlast.client.transport import Lost
from outlast.errors import ClientClosed, InputInvalid, Refusal, WireError, code_of
from outlast.log.event import JSON, encode_json
from outlast.run import ID_FORM, is_id
from outlast.send import Kind, NewSend, Send
from outlast.supervision.ladder import Ladder
from outlast.supervision.phase import Phase, Trouble
from outlast.supervision.profile import Profile

LOOK_EVERY: Final = 1.0
"""Seconds between two looks at what another process does: whether it still sends, and what it has been answered."""
RETRY_EVERY: Final = 5.0
"""Seconds before the keeper is asked again after it failed."""

log = logging.getLogger("outlast.client")


class Outbox:
    """What one client sends for certain; `run` it in a task."""

    def __init__(
        self,
        keeper: Keeper,
        server: str,
        supervisor: Supervisor,
        profile: Profile,
        *,
        numbers: Iterator[int],
        jitter: Callable[[], float],
    ) -> None:
        self._keeper = keeper
        self._server = server
        self._supervisor = supervisor
        self._profile = profile
        self._numbers = numbers
        self._jitter = jitter
        self._ladder = Ladder()
        self._loop = asyncio.get_running_loop()
        self._pages = Pages()
        self._told: str | None = None  # why sends wait: in the log once, and again when it is another reason
        self._queued = asyncio.Event()
        self._moved = asyncio.Event()
        self._answered = asyncio.Event()

    # ---- for the application ----------------------------------------------------------------

    async def start(
        self,
        worker: str,
        input: JSON = None,
        *,
        id: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        owner: str | None = None,
    ) -> Send:
        """Let a run be started, and return its send, whose `run` is the run's id.

        It is kept when this returns, and outlives this process. Asked for again with the same `id` it is the same send.
        Raises `InputInvalid`, `IdConflict` for an id that stands for another start, `OutboxFull`, and `StoreError`s:
        then it may be kept all the same, and asking again is harmless. Source: R11.
        """
        run = id or secrets.token_hex(8)
        said = http.start_of(run, worker, input, thread, metadata)
        return await self._add(Kind.START, run, owner, said)

    async def stop(self, run: str, *, reason: str | None = None, owner: str | None = None) -> Send:
        """Let a run be stopped, behind all that is to be sent before, and return the send. Raises as `start`."""
        return await self._add(Kind.STOP, run, owner, {"reason": reason})

    async def sends(self) -> Sequence[Send]:
        """Return what is kept, in order: what is to be sent, and what was answered and not forgotten."""
        return await self._keeper.sends(self._server)

    async def settled(self, send: Send) -> Send:
        """Wait until there is an answer, and return the send as it is then: accepted, or rejected with a `code`.

        Without a deadline: a server may be away for as long as it likes. Raises `InputInvalid` for one that was
        forgotten, `ClientClosed`.
        """
        _check(send)
        while self._supervisor.record.phase is not Phase.CLOSED:
            found = await self._keeper.send(send.number)
            if found.is_settled:
                return found
            await _wait(self._answered, LOOK_EVERY)  # another process may have had the answer
        raise ClientClosed("This client is closed; what it is to send is kept.")

    async def forget(self, send: Send) -> bool:
        """Take note of an answer, or take back what was never sent; False for what may have arrived already.

        What was rejected stays until then, also against a start with the same id.
        """
        _check(send)
        return await self._keeper.forget_send(send)

    # ---- for the client ---------------------------------------------------------------------

    async def started(self, run: str, owner: str | None) -> None:
        """Wait until a start of this run that is still to be sent has its answer; at once where there is none."""
        send = await self._keeper.find(self._server, Kind.START, run, owner)
        if send is not None:
            with suppress(InputInvalid):  # it was taken back meanwhile
                await self.settled(send)

    def moved(self) -> None:
        """Hear that the link is another one, or none."""
        self._moved.set()

    async def run(self) -> None:
        """Send what is kept, until the client is closed."""
        self._supervisor.followers[self] = None
        try:
            while True:
                await _wait(self._queued, await self._flush_or_tell())
                self._queued.clear()
        except ClientClosed:
            pass
        finally:
            self._supervisor.followers.pop(self, None)

    # ---- inside -----------------------------------------------------------------------------

    async def _add(self, kind: Kind, run: str, owner: str | None, said: JSON) -> Send:
        if self._supervisor.record.phase is Phase.CLOSED:
            raise ClientClosed("This client is closed.")
        if not is_id(run):
            raise InputInvalid(f"{ID_FORM}.")
        new = NewSend(kind=kind, run=run, owner=owner, content=encode_json(said))
        send = await self._keeper.add(self._server, new)
        self._queued.set()
        return send

    async def _flush_or_tell(self) -> float | None:
        try:
            return await self._flush()
        except ClientClosed:
            raise
        except Exception as error:  # noqa: BLE001 - the keeper's, or of an application's headers: neither ends this
            self._tell(code_of(error))
            return RETRY_EVERY

    async def _flush(self) -> float | None:
        """Send what there is, and say in how many seconds to look again."""
        if await self._keeper.next_send(self._server) is None:
            return None
        await self._supervisor.wait_established(patient=True)
        if not self._keeper.hold(self._server):
            return LOOK_EVERY
        try:
            while (link := self._supervisor.established) is not None:
                self._moved.clear()
                send = await self._keeper.next_send(self._server)
                if send is None:
                    return None
                if not await self._try(send, link):
                    wait = self._ladder.wait(self._profile, now=self._loop.time(), jitter=self._jitter())
                    await _wait(self._moved, wait)
        finally:
            self._keeper.let_go(self._server)
        return 0.0  # to wait for a link: another process may have one

    async def _try(self, send: Send, link: Established) -> bool:
        """Send it once; False when that brought no answer."""
        if not await self._keeper.mark_sent(send):
            return True  # it has been answered elsewhere
        code: str | None = None
        try:
            await self._ask(send, link)
        except Refusal as refusal:
            code = refusal.code
        except Lost as lost:
            self._lose(lost)
            return False
        await self._keeper.settle(self._server, send, code=code)
        self._ladder, self._pages, self._told = Ladder(), Pages(), None
        answered, self._answered = self._answered, asyncio.Event()
        answered.set()
        return True

    async def _ask(self, send: Send, link: Established) -> None:
        """Ask what a send asks. Raises the `Refusal` that is the answer, and `Lost` for what is none."""
        path = "/runs" if send.kind is Kind.START else f"{http.path_of(send.run)}/stop"
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                with self._supervisor.asking(link.number, next(self._numbers)):
                    await link.connection.ask("POST", f"{path}{http.whose(send.owner)}", send.said)
        except TimeoutError as error:
            raise Lost(Trouble.SILENT) from error
        except WireError as error:
            raise Lost(Trouble.FOREIGN, error=error) from error
        except Refusal as refusal:
            # A header that cannot be sent is found here, not answered there.
            if isinstance(refusal, InputInvalid) and refusal.__cause__ is not None:
                raise Lost(Trouble.CREDENTIALS, error=refusal) from refusal
            if type(refusal) is not Refusal:
                raise
            strange = Lost(Trouble.FOREIGN, error=refusal)  # in none of the words that this version knows
            self._pages.judge(strange, now=self._loop.time())
            raise strange from refusal

    def _lose(self, lost: Lost) -> None:
        """Take note of a try that brought no answer."""
        self._ladder = self._ladder.after(lost.pause, now=self._loop.time())
        if lost.trouble is not Trouble.FOREIGN:
            self._pages = Pages()
        if lost.error is not None:
            self._tell(lost.error.code)  # somebody may have to do something, such as to sign in

    def _tell(self, code: str) -> None:
        if code != self._told:
            log.warning("what is to be sent waits (%s)", code)
        self._told = code


def _check(send: Send) -> None:
    if not isinstance(send, Send):  # pyright: ignore[reportUnnecessaryIsInstance] - an id is what people try first
        raise InputInvalid("This is no send: give what `start` or `stop` returned, or one of `sends()`.")


async def _wait(event: asyncio.Event, seconds: float | None) -> None:
    """Wait for an event, or for so long; None waits for as long as it takes: there is nothing to do before."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
