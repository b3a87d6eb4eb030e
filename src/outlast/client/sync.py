"""The client for programs that do not use asyncio: the same, on a loop of its own in a thread.

Rules:
1. Nothing is decided here. Each call is handed to the client's loop, and its answer or its error is handed back.
2. A call that is broken off, as by Ctrl-C, is broken off over there too.
3. A call that the client's end overtakes, on whichever side of it, raises `ClientClosed`: none waits for ever.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar, Unpack

from outlast.client.client import Client
from outlast.client.connect import Options, connect
from outlast.client.outbox import Outbox
from outlast.client.received import Received
from outlast.client.record import ClientRecord
from outlast.errors import ClientClosed
from outlast.log.cursor import Cursor
from outlast.log.event import JSON
from outlast.send import Send
from outlast.supervision.phase import Wakeup

CLOSED: Final = "This client is closed."

T = TypeVar("T")


class SyncClient:
    """One server, for as long as `connect_sync` lasts; its methods are those of `Client`, from any thread."""

    def __init__(self, client: Client, aside: "_Aside") -> None:
        self._client = client
        self._wait = aside.wait
        self._aside = aside

    def start(
        self,
        worker: str,
        input: JSON = None,
        *,
        id: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        owner: str | None = None,
    ) -> dict[str, Any]:
        """Start a run and return its status document; see `Client.start`."""
        start = self._client.start(worker, input, id=id, thread=thread, metadata=metadata, owner=owner)
        return self._wait(start)

    def status(self, run: str, *, owner: str | None = None) -> dict[str, Any]:
        """Return the status document of a run; see `Client.status`."""
        return self._wait(self._client.status(run, owner=owner))

    def stop(self, run: str, *, reason: str | None = None, owner: str | None = None) -> dict[str, Any]:
        """Stop a run and return what is true then; see `Client.stop`."""
        return self._wait(self._client.stop(run, reason=reason, owner=owner))

    def follow(
        self,
        run: str,
        *,
        after: Cursor | str | None = None,
        types: Collection[str] | None = None,
        owner: str | None = None,
        patient: bool = True,
    ) -> Iterator[Received]:
        """Yield the events of a run, each once and in order, until its terminal event; see `Client.follow`."""
        following = self._client.follow(run, after=after, types=types, owner=owner, patient=patient)

        async def following_on() -> Received | None:
            return await anext(following, None)

        try:
            while (received := self._wait(following_on())) is not None:
                yield received
        finally:
            with suppress(ClientClosed):  # its end has ended it too
                self._wait(_end(following))

    @property
    def record(self) -> ClientRecord:
        """How things stand now."""

        async def look() -> ClientRecord:
            return self._client.state.record

        return self._wait(look())

    def wakeup(self, wakeup: Wakeup | str, *, seconds: float = 0.0) -> None:
        """Give the link a reason to look now; see `Client.wakeup`."""

        async def wake() -> None:
            self._client.wakeup(wakeup, seconds=seconds)

        self._wait(wake())

    @property
    def outbox(self) -> "SyncOutbox":
        """What is sent for certain; see `Client.outbox`."""
        return SyncOutbox(self._client.outbox, self._aside)


class SyncOutbox:
    """What is sent for certain, without asyncio; its methods are those of `Outbox`, from any thread."""

    def __init__(self, outbox: Outbox, aside: "_Aside") -> None:
        self._outbox = outbox
        self._wait = aside.wait

    def start(
        self,
        worker: str,
        input: JSON = None,
        *,
        id: str | None = None,
        thread: str | None = None,
        metadata: Mapping[str, JSON] | None = None,
        owner: str | None = None,
    ) -> Send:
        """Let a run be started, and return its send; see `Outbox.start`."""
        start = self._outbox.start(worker, input, id=id, thread=thread, metadata=metadata, owner=owner)
        return self._wait(start)

    def stop(self, run: str, *, reason: str | None = None, owner: str | None = None) -> Send:
        """Let a run be stopped, and return the send; see `Outbox.stop`."""
        return self._wait(self._outbox.stop(run, reason=reason, owner=owner))

    def sends(self) -> Sequence[Send]:
        """Return what is kept, in order; see `Outbox.sends`."""
        return self._wait(self._outbox.sends())

    def settled(self, send: Send) -> Send:
        """Wait until there is an answer, and return the send as it is then; see `Outbox.settled`."""
        return self._wait(self._outbox.settled(send))

    def forget(self, send: Send) -> bool:
        """Take note of an answer, or take back what was never sent; see `Outbox.forget`."""
        return self._wait(self._outbox.forget(send))


@contextmanager
def connect_sync(url: str | Sequence[str], **options: Unpack[Options]) -> Generator[SyncClient, None, None]:
    """Hold a link to one server for as long as the block lasts: `with outlast.connect_sync(url) as client:`.

    `url` and the options are as in `connect`, and so are the errors.
    """
    aside = _Aside()
    begun: Future[Client] = Future()
    ending = asyncio.Event()

    async def live() -> None:
        try:
            async with connect(url, **options) as client:
                begun.set_result(client)
                await ending.wait()  # without a deadline: the block lasts as long as it likes
        finally:
            await aside.end()

    def run() -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: aside.loop) as runner:
                runner.run(live())
        except Exception as error:
            if begun.done():
                raise
            begun.set_exception(error)

    thread = threading.Thread(target=run, name="outlast client")
    try:
        thread.start()
        yield SyncClient(begun.result(), aside)  # at once: the link itself is not waited for
    finally:
        with suppress(RuntimeError):  # its loop is closed already
            aside.loop.call_soon_threadsafe(ending.set)
        if thread.is_alive():
            thread.join()  # it ends at once: nothing of a client resists


class _Aside:
    """A loop that turns in another thread, and takes calls until its end."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._is_over = False

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Return what a call returns, on the loop, or raise what it raises; `ClientClosed` where the end came first."""
        with self._lock:
            if self._is_over:
                call.close()
                raise ClientClosed(CLOSED)
            answer = asyncio.run_coroutine_threadsafe(call, self.loop)
        try:
            return answer.result()  # without a deadline of its own: the call has one, or none by intent
        except CancelledError:
            raise ClientClosed(CLOSED) from None
        except BaseException:
            answer.cancel()
            raise

    async def end(self) -> None:
        """Take no more calls; those that were taken begin, and so the loop's end cancels them."""
        with self._lock:
            self._is_over = True
        await asyncio.sleep(0)


async def _end(following: AsyncGenerator[Received, None]) -> None:
    """Close a follow."""
    with suppress(RuntimeError):  # it is still running: a call that was broken off in it ends it just now
        await following.aclose()
