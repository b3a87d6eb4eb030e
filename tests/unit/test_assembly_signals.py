"""Who hears a signal, in which order, and what is put back."""

import asyncio
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from outlast.assembly.signals import OURS, Signals
from outlast.server.drain import GRACE, HURRY, INTERRUPT_GRACE

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Iterator[list[int]]:
    """Stand for a server that handles signals, and return which it was told of."""
    told: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    before = {number: signal.signal(number, handle) for number in OURS}
    yield told
    for number, handler in before.items():
        signal.signal(number, handler)


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.behaviour("D1")
@pytest.mark.parametrize(
    ("number", "grace", "given"),
    [
        (signal.SIGTERM, GRACE, GRACE),
        (signal.SIGINT, GRACE, INTERRUPT_GRACE),
        (signal.SIGINT, 0.5, 0.5),
    ],
)
async def test_the_first_signal_drains_and_is_passed_on_after(
    server: list[int], number: int, grace: float, given: float
) -> None:
    drains: list[float] = []
    signals = Signals(drains.append, grace=grace)
    signals.install()
    signal.raise_signal(number)
    await turns()
    assert (drains, server) == ([given], [])
    signals.drained()
    assert server == [number]
    signals.drained()
    signals.restore()
    assert server == [number]


@pytest.mark.behaviour("D1")
async def test_a_second_signal_leaves_no_time_and_is_passed_on_at_once_and_only_once(server: list[int]) -> None:
    drains: list[float] = []
    signals = Signals(drains.append, grace=GRACE)
    signals.install()
    signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    assert server == [signal.SIGINT]
    await turns()
    assert drains == [GRACE, HURRY]
    signals.drained()
    assert server == [signal.SIGINT]
    signal.raise_signal(signal.SIGINT)
    assert server == [signal.SIGINT, signal.SIGINT]
    signals.restore()


async def test_a_signal_after_the_drain_is_the_servers(server: list[int]) -> None:
    drains: list[float] = []
    signals = Signals(drains.append, grace=GRACE)
    signals.install()
    signals.drained()  # as when the lifespan's end came before any signal
    signal.raise_signal(signal.SIGTERM)
    await turns()
    assert (drains, server) == ([], [signal.SIGTERM])
    signals.restore()


async def test_in_the_end_everything_is_as_it_was(server: list[int]) -> None:
    before = [signal.getsignal(number) for number in OURS]
    signals = Signals(lambda _grace: None, grace=GRACE)
    signals.install()
    assert all(signal.getsignal(number) not in before for number in OURS)
    signals.restore()
    signals.restore()
    assert [signal.getsignal(number) for number in OURS] == before
    assert server == []


async def test_who_handles_signals_on_top_keeps_doing_so(server: list[int]) -> None:
    signals = Signals(lambda _grace: None, grace=GRACE)
    signals.install()
    ours = signal.getsignal(signal.SIGTERM)
    assert callable(ours)

    def above(number: int, frame: FrameType | None) -> None:
        ours(number, frame)

    signal.signal(signal.SIGTERM, above)
    signals.restore()
    assert signal.getsignal(signal.SIGTERM) is above
    signal.raise_signal(signal.SIGTERM)
    assert server == [signal.SIGTERM]


async def test_an_ignored_signal_stays_ignored(server: list[int]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    drains: list[float] = []
    signals = Signals(drains.append, grace=GRACE)
    signals.install()
    signal.raise_signal(signal.SIGINT)
    await turns()
    signals.restore()
    assert (drains, server) == ([], [])
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_another_thread_hears_no_signals(server: list[int]) -> None:
    before = [signal.getsignal(number) for number in OURS]

    async def install() -> None:
        signals = Signals(lambda _grace: None, grace=GRACE)
        signals.install()
        assert [signal.getsignal(number) for number in OURS] == before
        signals.restore()

    raised: list[BaseException] = []

    def work() -> None:
        try:
            asyncio.run(install())
        except BaseException as error:  # noqa: BLE001 - told to the test
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert (raised, server) == ([], [])


def test_a_signal_after_the_loop_was_closed_is_the_servers(server: list[int]) -> None:
    async def install() -> Signals:
        signals = Signals(lambda _grace: None, grace=GRACE)
        signals.install()
        return signals

    loop = asyncio.new_event_loop()
    signals = loop.run_until_complete(install())
    loop.close()
    signal.raise_signal(signal.SIGTERM)
    signals.restore()
    assert server == [signal.SIGTERM]
