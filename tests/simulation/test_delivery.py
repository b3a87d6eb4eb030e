"""Each event once, in order, whatever becomes of the streams and links that carry it.

A step is what `courier` counts: a frame that reaches the reader whole, or one thing that happens to a stream. Of the
million of every day chance draws four fifths; the rest are the frames of a stream that is cut at every byte.
`OUTLAST_STEPS=10000000` draws more, `OUTLAST_SEED=17` a single schedule.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import Final

import pytest

from outlast.client.client import Client
from outlast.client.received import ReceivedEvent
from outlast.log.cursor import Cursor
from outlast.log.event import StoredEvent
from outlast.supervision.phase import Wakeup
from outlast.testing.clock import run
from tests.integration.stream import LOG
from tests.simulation.courier import LINE_ENDS, Courier, End, Mischief, Written, end, log_of

STEPS: Final = int(os.environ.get("OUTLAST_STEPS", "800000"))
SHARES: Final = 4
"""Into how many tests the steps are shared out, so that every core has some."""
EVENTS: Final = 3000
BEGINNING: Final = Cursor(0, None)
PATIENCE: Final = 20_000.0
"""Virtual seconds after which a log that was not read to its end never will be: the slowest takes a tenth of them."""
KINDS: Final = (*End, "frame", "repeated", "left out", "swapped", "wakeup", "replaced")
LEAST: Final = 50
"""How often each share of the steps must have met each kind of them."""
MISHAPS: Final = 0.002
"""How often an application fails at an event, and comes back with the cursor it kept."""


class Application:
    """Takes a log to its end, and finds out what came twice, out of turn, or is not what was said."""

    def __init__(self, log: Sequence[StoredEvent]) -> None:
        self.kept = BEGINNING
        self.taken = 0
        self._log = log

    @property
    def is_done(self) -> bool:
        return self.kept == self._log[-1].cursor

    async def read(self, client: Client, *, dice: random.Random | None = None) -> None:
        """Follow from the cursor that was kept; with `dice` slowly, and with mishaps."""
        async with aclosing(client.follow("run", after=self.kept)) as events:
            async for received in events:
                self.take(received)
                if dice is not None:
                    await self.mishap(client, dice)
                self.kept = received.cursor

    def take(self, received: object) -> None:
        stored = self._log[self.kept.seq]
        assert isinstance(received, ReceivedEvent), "no gap was told"
        assert (received.cursor, received.event) == (stored.cursor, stored.event), f"after {self.kept}"
        self.taken += 1

    async def mishap(self, client: Client, dice: random.Random) -> None:
        """Take a while at some events, and fail at others, which have not been taken before this returns."""
        roll = dice.random()
        if roll < 3 * MISHAPS:
            assert client.state.record.runs["run"].place.seq <= self.kept.seq, "the place is behind what was taken"
        if roll < MISHAPS:
            raise Mishap
        if roll < 2 * MISHAPS:
            await asyncio.sleep(dice.choice([0.5, 1.0, 30.0]))


class Mishap(Exception):
    """The application's own failure."""


# ---- cut at every byte ------------------------------------------------------------------------------------------


async def read_cut(line_end: bytes, cuts: Sequence[tuple[int, End]]) -> int:
    """Read a log over and over, its first stream cut at these bytes; return how many frames came whole."""
    written = Written(LOG, line_end)
    whole, frames = written.after(0), 0
    cut, how, begun = 0, End.PEACE, 0

    async def stream(cursor: Cursor) -> AsyncGenerator[bytes, None]:
        nonlocal begun, frames
        begun += 1
        if begun > 1:
            frames += len(LOG) - cursor.seq
            yield written.after(cursor.seq)
            return
        frames += written.frames_in(0, cut)
        yield whole[:cut]
        await end(how)

    courier = Courier(stream)
    async with courier.connect() as client:
        for cut, how in cuts:
            begun, application = 0, Application(LOG)
            courier.cursors.clear()
            await application.read(client)
            reached = written.frames_in(0, cut)
            assert application.taken == len(LOG), (cut, how)
            assert [cursor.seq for cursor in courier.cursors] == [0, reached], (cut, how)
    return frames


LEAST_CUT: Final = 185_000
"""Frames that come whole while a stream is cut at every byte."""
SPARSE: Final = 11
"""Of the streams with the rarer line ends every eleventh byte is cut without --all."""


def usual(place: int) -> End:
    """Return one of the ends, silence more seldom: it takes a link many steps to find out about that."""
    return End.SILENCE if place % 8 == 0 else (End.PEACE, End.RESET)[place % 2]


@pytest.mark.behaviour("R2")
@pytest.mark.parametrize("line_end", LINE_ENDS, ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("is_long", [False, pytest.param(True, marks=pytest.mark.long)], ids=["one end", "every end"])
def test_a_stream_cut_at_any_byte_gives_each_event_once_and_nothing_of_the_cut_frame(
    line_end: bytes, *, is_long: bool
) -> None:
    length, ends = len(Written(LOG, line_end).after(0)), list(End)
    assert length > 4096
    if is_long:
        cuts = [(place, how) for place in range(length) for how in ends]
    else:
        cuts = [(place, usual(place)) for place in range(0, length, 1 if line_end == b"\n" else SPARSE)]
    frames = run(read_cut(line_end, cuts))
    assert frames >= len(LOG) * len(cuts)
    assert line_end != b"\n" or frames >= LEAST_CUT


# ---- a million steps that chance draws --------------------------------------------------------------------------


async def disturb(client: Client, steps: Counter[str], dice: random.Random) -> None:
    """Give the client reasons to replace its link, at moments at which something else happens too."""
    while True:
        await asyncio.sleep(dice.choice([0.5, 1.0, 5.0, 12.0, 30.0]))
        steps["wakeup"] += 1
        client.wakeup(dice.choice([*Wakeup, Wakeup.USER, Wakeup.USER]), seconds=dice.choice([0.0, 60.0]))


class Scene:
    """A log, and the same as bytes with each kind of line ends."""

    def __init__(self, events: int = EVENTS) -> None:
        self.log = log_of(events)
        self.written = [Written(self.log, line_end) for line_end in LINE_ENDS]


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene()


async def live(seed: int, scene: Scene) -> Counter[str]:
    """Let one client, and one to three applications in it, read a log to its end."""
    dice = random.Random(f"delivery {seed}")
    courier, readers = Mischief(scene.written, dice), dice.choice([1, 1, 2, 3])
    async with courier.connect(dice.random) as client:
        disturbing = asyncio.create_task(disturb(client, courier.steps, dice))
        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as reading:
            for _ in range(readers):
                reading.create_task(read_on(Application(scene.log), client, dice))
        disturbing.cancel()
        courier.steps["replaced"] += client.state.record.link.generation - 1
    assert courier.most <= 2, "a link, and what is to replace it"
    return courier.steps


async def read_on(application: Application, client: Client, dice: random.Random) -> None:
    """Read to the end, whatever happens to the application itself."""
    while not application.is_done:
        with suppress(Mishap):
            await application.read(client, dice=dice)


def steps_of(seed: int, scene: Scene) -> Counter[str]:
    try:
        return run(live(seed, scene))
    except BaseException as error:
        command = f"OUTLAST_SEED={seed} python -m pytest tests/simulation/test_delivery.py"
        raise AssertionError(f"seed {seed} fails; again: {command}\n{error}") from error


@pytest.mark.behaviour("R2", "R5")
@pytest.mark.timeout(600)
@pytest.mark.skipif("OUTLAST_SEED" in os.environ, reason="one seed was asked for")
@pytest.mark.parametrize("share", range(SHARES))
def test_each_event_comes_once_and_in_order_over_streams_that_repeat_swap_leave_out_and_overtake(
    share: int, scene: Scene
) -> None:
    steps, seed = Counter[str](), share
    while steps.total() < STEPS // SHARES:
        steps += steps_of(seed, scene)
        seed += SHARES
    seldom = {kind: steps[kind] for kind in KINDS if steps[kind] < LEAST * STEPS // 800_000}
    assert not seldom, f"too seldom to prove anything: {seldom}"


ONCE_FAILED = {13: "a stream was looked at again and again in one moment, of which a difference fell short"}


@pytest.mark.parametrize("seed", [int(os.environ["OUTLAST_SEED"])] if "OUTLAST_SEED" in os.environ else ONCE_FAILED)
def test_a_seed_that_once_failed_is_good_now(seed: int, scene: Scene) -> None:
    steps_of(seed, scene)
