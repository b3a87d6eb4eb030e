"""What an application holds of a server: starts, follows and stops runs, and sees how the link is.

Everything here hangs on one supervisor. A request is sent once, over the link that there is; what becomes of it is told
by its answer or an error, never by silence.
"""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from outlast.client import http
from outlast.client.answers import ANSWER_WITHIN
from outlast.client.follow import Follow
from outlast.client.kept import Kept
from outlast.client.outbox import Outbox
from outlast.client.received import Asked, Received
from outlast.client.record import ClientRecord
from outlast.client.share import Reader, Shares
from outlast.client.supervisor import Supervisor
from outlast.client.transport import Lost
from outlast.errors import InputInvalid, Refusal, RunGone, RunNotFound, Unanswered, WireError
from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.supervision import inputs
from outlast.supervision.phase import Phase, Wakeup
from outlast.supervision.profile import Profile

NO_ANSWER: Final = (
    "No answer came; what was asked may have happened all the same. Ask for the run's status, or ask again: a start "
    "with the same id is the same run, and a stop is harmless twice."
)
"""What is said of a request whose answer did not come."""


class State:
    """How things stand with one server; every view of it shows the same."""

    def __init__(self, supervisor: Supervisor, shares: Shares) -> None:
        self._supervisor = supervisor
        self._shares = shares

    @property
    def record(self) -> ClientRecord:
        """How things stand now; of a run that is followed in several ways, the one that is furthest behind."""
        records = sorted((share.record for share in self._shares), key=lambda record: record.place.seq, reverse=True)
        runs = {record.run: record for record in records}
        return ClientRecord(link=self._supervisor.record, runs=runs)

    async def changed(self) -> None:
        """Wait until something of it is another."""
        await self._supervisor.changed()

    async def __aiter__(self) -> AsyncGenerator[ClientRecord, None]:
        """Yield how things stand, now and whenever that is something else, until the client is closed."""
        before: ClientRecord | None = None
        while True:
            record = self.record
            if record != before:
                before = record
                yield record
            if record.link.phase is Phase.CLOSED:
                return
            if self.record == before:  # nothing happened while the reader was at work
                await self._supervisor.changed()


class Client:
    """One server, for as long as `connect` lasts."""

    def __init__(self, supervisor: Supervisor, profile: Profile, kept: Kept, *, jitter: Callable[[], float]) -> None:
        self._supervisor = supervisor
        self._kept = kept
        self._profile = profile
        self._jitter = jitter
        self._shares = Shares(self._begin)
        self._starts: dict[tuple[str | None, str], asyncio.Event] = {}
        self._numbers = kept.numbers

    # ---- runs -------------------------------------------------------------------------------

    async def start(
        self,
        worker: str,
        input: JSON = None,
        *,
        id: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        owner: str | None = None,
    ) -> dict[str, Any]:
        """Start a run and return its status document.

        The id is the request's idempotency key, chosen here unless given: asked again with the same one it is the same
        run. It is sent once; after `Unanswered` the run may have been started all the same. Raises `Refusal`s.
        Source: R11, A1.
        """
        run = id or secrets.token_hex(8)
        said = http.start_of(run, worker, input, thread, metadata)
        with self._starting(owner, run):
            return await self._ask("POST", f"/runs{http.whose(owner)}", said)

    async def status(self, run: str, *, owner: str | None = None) -> dict[str, Any]:
        """Return the status document of a run. Raises `RunNotFound`, `RunGone`, `Unanswered`."""
        return await self._ask("GET", f"{http.path_of(run)}{http.whose(owner)}")

    async def stop(self, run: str, *, reason: str | None = None, owner: str | None = None) -> dict[str, Any]:
        """Stop a run and return what is true then; harmless twice. Raises `Unanswered`, and `Refusal`s."""
        return await self._ask("POST", f"{http.path_of(run)}/stop{http.whose(owner)}", {"reason": reason})

    async def follow(
        self,
        run: str,
        *,
        after: Cursor | str | None = None,
        types: Collection[str] | None = None,
        owner: str | None = None,
        patient: bool = True,
    ) -> AsyncGenerator[Received, None]:
        """Yield the events of `run` after the cursor `after`, each once and in order, until its terminal event.

        A client that was connected with `keep` goes on, without `after`, where its application had got to, in this
        process or one before: an event counts as taken when the next one is asked for. With `after` nothing is kept.

        It outlives the link for as long as the client does. Events that cannot be served are told as a `ReceivedGap`,
        whose snapshot replaces what was read so far. With `types` only events of these types come, and the terminal
        event. A link that is blocked is waited for, unless not `patient`: then what blocks it is raised. Those who
        follow one run in one client share its stream, and a run that is being started here is waited for.

        Raises the `Refusal` that the server answered (`RunNotFound`, …), `InputInvalid` for what is no run's id,
        `FrameTooLarge` for an event that no try can bring, `WireError` for a peer that does not keep to the wire, and
        `ClientClosed`. Source: R2, R3, R4, R8, R9, R10.
        """
        http.path_of(run)  # before anything is begun for it
        http.whose(owner)
        while (starting := self._starts.get((owner, run))) is not None:
            await starting.wait()  # a start has a deadline of its own
        if patient and self._kept.outbox is not None:
            await self._kept.outbox.started(run, owner)
        asked = Asked(run=run, owner=owner, types=None if types is None else ",".join(types), patient=patient)
        mark = await self._kept.places.begin(run, owner=owner, types=types, after=after)
        reader = Reader(asked, mark.cursor, self._shares)
        try:
            while items := await reader.next():
                for received in items:
                    yield received
                    reader.take(received)
                    mark.take(received)
                    self._supervisor.publish()
        except (RunGone, RunNotFound):
            await mark.forget()
            raise
        finally:
            try:
                await mark.end()
            finally:  # also where that is cancelled, since others may have the file locked
                await reader.close()

    @property
    def outbox(self) -> Outbox:
        """What is sent for certain, over the death of this process too. Raises `InputInvalid` without `keep`."""
        if self._kept.outbox is None:
            raise InputInvalid("This client keeps nothing: connect with `keep=outlast.Keep(…)` to have an outbox.")
        return self._kept.outbox

    # ---- the link ---------------------------------------------------------------------------

    @property
    def state(self) -> "State":
        """How things stand: `state.record` now, and `async for record in client.state` whenever that changes."""
        return State(self._supervisor, self._shares)

    def wakeup(self, wakeup: Wakeup | str, *, seconds: float = 0.0) -> None:
        """Give the link a reason to look now, such as `visible`, after `seconds` of absence or sleep.

        Raises `InputInvalid` for what is no wakeup.
        """
        try:
            reason = Wakeup(wakeup)
        except ValueError:
            raise InputInvalid(f"A wakeup is one of {', '.join(Wakeup)}.") from None
        self._supervisor.tell(inputs.Woken(wakeup=reason, seconds=seconds))

    # ---- inside -----------------------------------------------------------------------------

    def _begin(self, asked: Asked, place: Cursor) -> Follow:
        return Follow(
            self._supervisor,
            asked,
            cursor=place,
            profile=self._profile,
            jitter=self._jitter,
            number=next(self._numbers),
        )

    @contextmanager
    def _starting(self, owner: str | None, run: str) -> Generator[None, None, None]:
        """Let those who would follow a run wait until its start is answered."""
        starting = self._starts[owner, run] = asyncio.Event()
        try:
            yield
        finally:
            starting.set()
            if self._starts.get((owner, run)) is starting:
                del self._starts[owner, run]

    async def _ask(self, method: str, path: str, said: JSON = None) -> dict[str, Any]:
        number = next(self._numbers)
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                link = await self._supervisor.wait_established(patient=False)
                with self._supervisor.asking(link.number, number):
                    answer = await link.connection.ask(method, path, said)
        except (TimeoutError, Lost) as error:
            if isinstance(error, Lost) and isinstance(error.error, Refusal):
                raise error.error from None
            raise Unanswered(NO_ANSWER) from error
        if not isinstance(answer, dict):
            raise WireError(http.NOT_OURS)
        return cast("dict[str, Any]", answer)
