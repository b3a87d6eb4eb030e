"""One program with a client of its own: it reads runs to their ends, whatever happens to it on the way.

What it keeps on its disk is a diary of each run. It is slow, fails, is cancelled, dies and is started again, sleeps,
loses its network, and signs in anew, as the dice fall; what it was told must be right all the same.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import Final

from outlast.client.client import Client
from outlast.client.connect import connect
from outlast.errors import OutlastError
from outlast.run import Run
from outlast.supervision.phase import Phase, Wakeup
from outlast.supervision.profile import DOUBT_AFTER, HEARTBEAT, SILENT_BEATS, STANDARD
from outlast.testing.diary import Diary
from outlast.testing.observation import Observation
from outlast.testing.process import Process
from tests.simulation.network import Network

SILENCE: Final = SILENT_BEATS * HEARTBEAT + STANDARD.probe + DOUBT_AFTER
"""Seconds without a byte after which a link that is shown as live is a lie."""
LOOK_EVERY: Final = 1.0


class Mishap(Exception):
    """The program's own failure."""


class Wallet:
    """Who a program says that it is: one token after the other, of which the server accepts the newest ones."""

    def __init__(self, dice: random.Random) -> None:
        self.valid_from = 0
        self.token = 0
        self.is_slow = False
        self._dice = dice

    async def headers(self) -> dict[str, str]:
        """Return the credentials of the next request; a provider may be slow, or fail."""
        if self.is_slow:
            await asyncio.sleep(self._dice.choice([0.1, 2.0]))
            if self._dice.random() < 0.3:
                raise Mishap("nobody is told who we are")
        return {"authorization": f"Bearer {self.token}"}


class Visitor:
    """One program; `due` are the runs that it reads, `unread` those of them whose end it has not come to."""

    def __init__(
        self, name: str, network: Network, dice: random.Random, *, note: Callable[[Observation], None]
    ) -> None:
        self.name = name
        self.process = Process(name)
        self.client: Client | None = None
        self.wallet = Wallet(dice)
        self.unread: dict[str, Run] = {}
        self.closing = False
        self.calm = False
        self._diaries: dict[str, Diary] = {}
        self._network = network
        self._dice = dice
        self._note = note
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._woken_at = 0.0

    def read(self, run: Run) -> None:
        """Give it one more run to read."""
        self.unread[run.id] = run
        self._diaries[run.id] = Diary(self.name, run.log, note=self._note)
        self._news.set()

    async def live(self, urls: list[str]) -> None:
        """Live, and be started again after each death, until it is told to close."""
        while not self.closing:
            self.process = Process(self.name, on_death=lambda: self._network.forget(self.name))
            task = self.process.start(self._run(urls))
            await asyncio.wait([task])
            self.client = None
            if not task.cancelled():
                task.result()
            await self.process.gone() if not self.process.alive else None
            await asyncio.sleep(0 if self.closing else self._dice.uniform(0.1, 5))

    # ---- what happens to it -----------------------------------------------------------------

    def wake(self, wakeup: Wakeup, seconds: float = 0.0) -> None:
        """Let the client hear that there is a reason to look."""
        if self.client is not None and not self.process.paused:
            self.client.wakeup(wakeup, seconds=seconds)

    async def sleep(self, seconds: float) -> None:
        """Let it stand still, as a machine whose lid is closed, and wake up."""
        process = self.process
        process.pause()
        await asyncio.sleep(seconds)
        process.resume()
        self._woken_at = self._loop.time()
        if process is self.process:
            self.wake(Wakeup.RESUMED, seconds)

    def be_calm(self) -> None:
        """End everything that is wrong with it."""
        self.calm = True
        self.wallet.is_slow = False
        self.wallet.token = self.wallet.valid_from
        self.process.resume()
        for wakeup in (Wakeup.ONLINE, Wakeup.CREDENTIALS_CHANGED, Wakeup.USER):
            self.wake(wakeup)

    def close(self) -> None:
        """Let it come to its end."""
        self.closing = True
        self._news.set()

    # ---- what it does -----------------------------------------------------------------------

    async def _run(self, urls: list[str]) -> None:
        connecting = connect(urls, headers=self.wallet.headers, hints=False, jitter=self._jitter)
        reading: dict[str, asyncio.Task[None]] = {}
        async with connecting as client:
            self.client = client
            if self.calm:
                self.be_calm()
            async with asyncio.TaskGroup() as tasks:
                looking = tasks.create_task(self._look(client))
                while not self.closing:
                    for run in [each for each in self.unread.values() if each.id not in reading]:
                        reading[run.id] = tasks.create_task(self._read_on(client, run))
                    self._news.clear()
                    await self._news.wait()
                for task in (looking, *reading.values()):
                    task.cancel()
        self.client = None
        assert client.state.record.link.phase is Phase.CLOSED

    def _jitter(self) -> float:
        return self._dice.uniform(0.5, 1.0)

    async def _read_on(self, client: Client, run: Run) -> None:
        while run.id in self.unread:
            with suppress(Mishap, TimeoutError):
                await self._read(client, run, self._diaries[run.id])
            await asyncio.sleep(0.1)
            if self._dice.random() < 0.2:
                await self._ask(client, run)

    async def _read(self, client: Client, run: Run, diary: Diary) -> None:
        """Follow a run, for a while or to its end."""
        patience = None if self.calm or self._dice.random() < 0.5 else self._dice.uniform(0.5, 30.0)
        try:
            async with asyncio.timeout(patience):
                async with aclosing(client.follow(run.id, after=diary.begin(), owner="")) as events:
                    async for received in events:
                        diary.take(received)
                        await self._handle()
                        diary.keep(received.cursor)
        except TimeoutError:
            self._network.note("cancelled")
            raise
        diary.end()
        self.unread.pop(run.id, None)

    async def _handle(self) -> None:
        """Handle an event: some take a while, at some it fails."""
        roll = self._dice.random()
        if self.calm or roll > 0.1:
            return
        if roll < 0.03:
            self._network.note("application fails")
            raise Mishap
        self._network.note("application slow")
        await asyncio.sleep(self._dice.choice([0.2, 2.0, 15.0]))

    async def _ask(self, client: Client, run: Run) -> None:
        """Ask for something: the answer, or an error that says so."""
        with suppress(OutlastError, Mishap):
            said = await client.status(run.id, owner="")
            assert said["id"] == run.id

    async def _look(self, client: Client) -> None:
        """See whether what is shown is true."""
        while True:
            record = client.state.record.link
            heard = max(self._network.heard.get(self.name, 0.0), record.since, self._woken_at)
            if record.phase is Phase.LIVE:
                assert self._loop.time() - heard <= SILENCE, f"{self.name} is shown as live: {record}"
            assert record.can_send == (record.phase in {Phase.LIVE, Phase.SLOW, Phase.BUSY, Phase.SWITCHING})
            await asyncio.sleep(LOOK_EVERY)
