"""Drives the machine of one server's link: one task owns it, everybody else only tells it things.

Rules:
1. One mailbox, one timer. What has arrived is taken in before any deadline is (P17).
2. Attempts, probes and the looking for evidence are tasks of the owner's group. They report, and never raise.
3. Nothing else connects anew. Whoever needs the link waits for it here, and is told when it is another one.
4. The first server that is linked is the one that is meant: another store's logs are other logs, and none of its
   greetings is accepted, whatever an address leads to (M2).
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from outlast.client.hold import Hold, let_go
from outlast.client.transport import Connection, Lost, Transport
from outlast.errors import ClientClosed, InputInvalid, OutlastError, Refusal, Unanswered, WireError, WrongServer
from outlast.log.event import JSON
from outlast.supervision import inputs
from outlast.supervision.commands import Adopt, Command, Gather, Open, Probe, Release
from outlast.supervision.inputs import Input
from outlast.supervision.link import Intent, Link
from outlast.supervision.phase import WAKES, Phase, Trouble
from outlast.supervision.record import LinkRecord, record
from outlast.supervision.step import step

MOST_MAIL: Final = 1024
"""Inputs that wait at most; beyond it they are taken in where they arise."""
SETTLED: Final = 2.0
"""Seconds a link must have answered for before silence is a stream's own: what was held up arrives first."""
GREETED_WITHIN: Final = 15.0
"""Seconds for the answer to whether the link is still accepted: as long as establishing one may take."""
LETTING_GO: Final = 0
"""Stands for no attempt, whose numbers begin at 1: letting go of a connection outlives what it belonged to."""
UNASKED: Final = 0
"""Stands for none of the machine's probes, whose numbers begin at 1: others had a reason to ask."""
HEARD_EVERY: Final = 0.05
"""Seconds between two signs of life that the machine is told of: it counts in seconds."""

ANSWERS: Final = frozenset(
    {Trouble.BUSY, Trouble.FOREIGN, Trouble.UNSPOKEN, Trouble.CREDENTIALS, Trouble.REVOKED, Trouble.VERSION}
)
"""Troubles that somebody at the other end told."""

ANOTHER: Final = (
    "Another server answers at this address than the one that was meant: it has another store, so its runs and places "
    "are others. Check where the address leads; to talk to this server, begin a new client."
)
"""What is said of a server that speaks for another store."""

log = logging.getLogger("outlast.client")


class Follower(Protocol):
    """Something that hangs on the link."""

    def moved(self) -> None:
        """Hear that the link is another one, or none."""
        ...


@dataclass(frozen=True, slots=True)
class Established:
    """The link as it is now: its number for the machine, and the connection."""

    number: int
    connection: Connection


class Supervisor:
    """The single owner of reconnection for one server; `run` it in a task, and `tell` it what happens."""

    def __init__(
        self,
        transports: Sequence[Transport],
        link: Link,
        *,
        jitter: Callable[[], float] = random.random,
        store: str | None = None,
    ) -> None:
        self._transports = transports
        self._store = store  # that of the server which is meant; of the first one that is linked, unless given
        self._link = link
        self._jitter = jitter
        self._loop = asyncio.get_running_loop()
        self._mail: deque[Input] = deque()
        self._rung = asyncio.Event()
        self._changes: asyncio.Event | None = None
        self._errands: dict[int, set[asyncio.Task[None]]] = {}
        self._hold = Hold()
        self._established: Established | None = None
        self._tasks: asyncio.TaskGroup | None = None
        self._heard_at = float("-inf")
        self._spoken = LETTING_GO  # the newest link over which a stream has said something
        self.followers: dict[Follower, None] = {}  # in order, so that they move in the same one every time
        self.error: OutlastError | None = None

    # ---- what others see --------------------------------------------------------------------

    @property
    def record(self) -> LinkRecord:
        """How the link is now."""
        return record(self._link)

    @property
    def established(self) -> Established | None:
        """The link that there is; None while there is none."""
        return self._established

    async def wait_established(self, *, patient: bool) -> Established:
        """Return the link once there is one.

        Raises what blocks it, unless `patient`: then something may yet change. Raises `ClientClosed` once it is closed.
        Without a deadline: a server may be away for as long as it likes.
        """
        while self._established is None:
            if self._link.phase is Phase.CLOSED:
                raise ClientClosed("This client is closed.")
            if self._link.phase is Phase.BLOCKED and not patient:
                raise self.error or Unanswered(
                    "No connection to this server can be made: `link.trouble` of the record says why."
                )
            await self.changed()
        return self._established

    async def changed(self) -> None:
        """Wait until something of what is shown is another. Without a deadline, as above."""
        if self._link.phase is Phase.CLOSED:
            return  # nothing changes any more
        if self._changes is None:
            self._changes = asyncio.Event()
        await self._changes.wait()

    def publish(self) -> None:
        """Rouse everybody who waits for a change."""
        changes, self._changes = self._changes, None
        if changes is not None:
            changes.set()

    # ---- what others tell -------------------------------------------------------------------

    def tell(self, input: Input) -> None:
        """Let the owner take this in."""
        self._mail.append(input)
        self._rung.set()
        if len(self._mail) > MOST_MAIL:
            self._take_in()

    def fail(self, number: int, lost: Lost) -> None:
        """Tell that a link has ended, and why. It is taken in at once, so that nobody goes on over it."""
        self.error = lost.error
        self.tell(inputs.Lost(link=number, trouble=lost.trouble, pause=lost.pause))
        self._take_in()

    def heard(self, number: int, *, progress: bool) -> None:
        """Tell that something came in over a link: many times a second, so most of it is let by."""
        current, now = self._link.current, self._loop.time()
        self._spoken = number
        if current is not None and self._link.phase is Phase.LIVE and now - self._heard_at < HEARD_EVERY:
            is_news = current.suspicion is not None or (progress and not current.progressed)
            if not is_news:
                return
        self._heard_at = now
        self.tell(inputs.Heard(link=number, progress=progress))

    def accuse(self, number: int, is_mute: Callable[[], bool]) -> None:
        """Let a link fail whose streams are granted and do not come, if it answers while `is_mute` stays true (R13).

        Then something on the way holds streams back. A server that is only busy does not answer either.
        """
        if self._hold.get(number) is not None:
            self._begin(number, self._convict(number, is_mute), "ask whether streams are held back")

    def check(self, number: int) -> None:
        """Let a link be asked whether it is there; what says that it is not replaces it at once (P4, P16)."""
        if self._hold.get(number) is not None:
            self._begin(number, self._probe(number, UNASKED), "probe")

    @contextmanager
    def asking(self, number: int, request: int) -> Generator[None, None, None]:
        """Tell that a link was asked something, and whether there was an answer: a refusal is one, silence is none.

        A question that was withdrawn, or that our own side failed to ask, says nothing: then a probe asks instead.
        """
        self.tell(inputs.Asked(link=number, request=request))
        answered = True
        try:
            with self._hold.using(number):
                yield
        except Lost as lost:
            answered = lost.trouble in ANSWERS
            raise
        except BaseException as error:
            answered = isinstance(error, Refusal | WireError) and not isinstance(error, InputInvalid)
            if not answered:
                self.check(number)
            raise
        finally:
            self.tell((inputs.Answered if answered else inputs.Abandoned)(link=number, request=request))

    def stranger(self, store: JSON) -> Lost | None:
        """Return what is lost where a greeting names another store than that of the server which is meant (M2)."""
        if not isinstance(store, str) or store == (self._store or store):
            return None  # older servers name none
        return Lost(Trouble.CONFIGURATION, error=WrongServer(ANOTHER))

    async def judge(self, link: Established, lost: Lost, *, again: bool) -> None:
        """Find out whom credentials concern that one run's stream was refused for (N4).

        Where the link itself is still accepted it raises that refusal, if it came `again`: other credentials may have
        come between the stream's question and ours. Otherwise the link fails, or says nothing.
        """
        try:
            async with asyncio.timeout(GREETED_WITHIN):
                await link.connection.greet()
        except Lost as refused:
            if refused.trouble in WAKES:
                self.fail(link.number, refused)
            return
        except TimeoutError:
            return
        if again and lost.error is not None:
            raise lost.error

    # ---- the owner --------------------------------------------------------------------------

    async def run(self) -> None:
        """Own the link until it is closed; then nothing of it is left."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                while self._link.intent is not Intent.CLOSED:
                    await self._wait()
                    self._take_in()
                    self._step(inputs.Tick())
                self._end_errands()
                self._hold.hurry()
        finally:
            self._link = step(self._link, inputs.Close(), now=self._loop.time(), jitter=0.0)[0]
            self._adopt(None)
            self.publish()
            await self._hold.close()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._link.deadline):
                await self._rung.wait()
        self._rung.clear()

    def _take_in(self) -> None:
        while self._mail:
            self._step(self._mail.popleft())

    def _step(self, input: Input) -> None:
        before = self._link
        self._link, commands = step(before, input, now=self._loop.time(), jitter=self._jitter())
        for command in commands:
            self._do(command)
        if isinstance(input, inputs.Lost):
            self._release(input.link)  # the machine has forgotten it; its pool may have other connections
        if self._link is not before:
            current = self._link.current
            if self._established is not None and (current is None or current.id != self._established.number):
                self._adopt(None)
            self.publish()

    def _do(self, command: Command) -> None:
        match command:
            case Open(attempt=number, transport=index):
                if self._link.current is not None:
                    self._hold.hurry()
                self._begin(number, self._attempt(number, self._transports[index]), "attempt")
            case Release(attempt=number):
                self._release(number)
            case Adopt(attempt=number):
                connection = self._hold.get(number)
                assert connection is not None, "what is ready is held"
                self._store = self._store or connection.greeting.store
                self._adopt(Established(number, connection))
            case Probe(link=number, probe=probe):
                self._begin(number, self._probe(number, probe), "probe")
            case Gather(link=number):
                self._begin(number, self._gather(number), "look for evidence")
            case _:
                assert_never(command)

    def _adopt(self, established: Established | None) -> None:
        if established is self._established:
            return
        self._established = established
        for follower in list(self.followers):
            follower.moved()

    def _begin(self, number: int, errand: Coroutine[None, None, None], name: str) -> None:
        assert self._tasks is not None, "only the owner steps"
        try:
            task = self._tasks.create_task(errand, name=name)
        except RuntimeError:  # the owner was ended from outside, as by the end of its loop: nobody is left for errands
            errand.close()
            return
        errands = self._errands.setdefault(number, set())
        errands.add(task)
        task.add_done_callback(errands.discard)

    def _release(self, number: int) -> None:
        for errand in self._errands.pop(number, ()):
            errand.cancel()
        parting = self._hold.leave(number)
        if parting is not None:
            self._begin(LETTING_GO, parting, "let go")

    def _end_errands(self) -> None:
        for number in [*self._errands]:
            if number != LETTING_GO:  # what lets go of a connection goes on to its end
                self._release(number)

    # ---- its tasks --------------------------------------------------------------------------

    async def _attempt(self, number: int, transport: Transport) -> None:
        try:
            connection = await transport.connect(number)
        except Lost as lost:
            self._fail(number, lost)
        except InputInvalid as error:  # the headers cannot be sent, now or later
            self._fail(number, Lost(Trouble.CREDENTIALS, error=error))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this attempt's failure alone (K9)
            log.warning("an attempt to connect failed unexpectedly (%s)", type(error).__name__)
            self._fail(number, Lost(Trouble.UNEXPECTED, error=error if isinstance(error, OutlastError) else None))
        else:
            self._meet(number, connection)

    def _meet(self, number: int, connection: Connection) -> None:
        if (stranger := self.stranger(connection.greeting.store)) is not None:
            self._fail(number, stranger)
            self._begin(LETTING_GO, let_go(connection), "let go")
            return
        self._hold.take(number, connection)
        self.tell(inputs.Ready(attempt=number, heartbeat=connection.greeting.heartbeat))

    def _fail(self, number: int, lost: Lost) -> None:
        if lost.trouble in WAKES or lost.error is not None:
            self.error = lost.error
        self.tell(inputs.Failed(attempt=number, trouble=lost.trouble, pause=lost.pause))

    async def _probe(self, number: int, probe: int) -> None:
        connection = self._hold.get(number)
        if connection is None:
            return
        try:
            store = await connection.probe()  # the machine has the deadline; a later answer still says something
        except Lost as lost:
            self.tell(inputs.ProbeFailed(link=number, probe=probe, trouble=lost.trouble))
        except Exception as error:  # noqa: BLE001 - a provider of headers may raise anything; it is no verdict
            log.warning("a probe could not be sent (%s)", type(error).__name__)
        else:
            if (stranger := self.stranger(store)) is not None:
                self.fail(number, stranger)
            else:
                self.tell(inputs.ProbeAnswered(link=number, probe=probe))

    async def _convict(self, number: int, is_mute: Callable[[], bool]) -> None:
        connection = self._hold.get(number)
        if connection is None:
            return
        try:
            await connection.probe()  # without a deadline: it ends with the link
        except Exception:  # noqa: BLE001 - whatever it is, it is no answer: nothing is proven
            return
        self.tell(inputs.Heard(link=number))
        await asyncio.sleep(SETTLED)
        if is_mute() and self._link.phase is Phase.LIVE and number != self._spoken:
            self.tell(inputs.Lost(link=number, trouble=Trouble.FOREIGN))

    async def _gather(self, number: int) -> None:
        connection = self._hold.get(number)
        if connection is None:
            return
        try:
            await connection.look(
                lambda grade: self.tell(inputs.Witnessed(link=number, grade=grade)),
                lambda: self.tell(inputs.Denied(link=number)),
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is no evidence (K9)
            log.warning("evidence could not be looked for (%s)", type(error).__name__)
