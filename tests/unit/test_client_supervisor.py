"""One task owns a link: what it is told arrives, what it begins ends, and nothing below connects anew."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from outlast.client.supervisor import MOST_MAIL, Established, Supervisor
from outlast.client.transport import Connection, Greeting, Lost, Stream
from outlast.errors import ClientClosed, InputInvalid, Unanswered, Unauthenticated, WrongServer
from outlast.log.event import JSON
from outlast.supervision import inputs
from outlast.supervision.link import Link
from outlast.supervision.phase import Grade, Phase, Trouble, Wakeup
from outlast.supervision.profile import DESKTOP, STANDARD, Profile

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Line:
    """A connection that answers probes when it is told to, and remembers that it was closed."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.greeting = Greeting(boot_id=f"b{number}", heartbeat=10.0)
        self.answering = asyncio.Event()
        self.probes = 0
        self.closed = 0

    async def look(self, tell: Callable[[Grade], None], deny: Callable[[], None]) -> None:
        """Tell nothing: nobody speaks for this node."""

    async def greet(self) -> None:
        raise NotImplementedError

    async def probe(self) -> str | None:
        self.probes += 1
        await self.answering.wait()
        return self.greeting.store

    async def ask(self, method: str, path: str, said: JSON = None) -> JSON:
        raise NotImplementedError

    def stream(self, run: str, *, owner: str | None, types: str | None) -> Stream:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed += 1


class Lines:
    """Connects by script: each attempt by the next function, the last one again and again."""

    def __init__(self, *script: Callable[[int], "Line | Exception"]) -> None:
        self.script = script
        self.made: list[Line] = []
        self.attempts: list[float] = []

    async def connect(self, attempt: int) -> Connection:
        made = self.script[min(len(self.attempts), len(self.script) - 1)](attempt)
        self.attempts.append(asyncio.get_running_loop().time())
        if isinstance(made, Exception):
            raise made
        self.made.append(made)
        return made


class Hanging:
    """An attempt that never comes to anything."""

    def __init__(self) -> None:
        self.cut = 0

    async def connect(self, attempt: int) -> Connection:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cut += 1
            raise
        raise AssertionError(attempt)


@asynccontextmanager
async def supervised(
    lines: Lines | Hanging, *, store: str | None = None, profile: Profile = STANDARD
) -> AsyncIterator[Supervisor]:
    supervisor = Supervisor([lines], Link(profile=profile), store=store, jitter=lambda: 0.5)
    owner = asyncio.create_task(supervisor.run())
    supervisor.tell(inputs.Want())
    try:
        yield supervisor
    finally:
        supervisor.tell(inputs.Close())
        await owner
        assert supervisor.record.phase is Phase.CLOSED
        assert supervisor.established is None


async def established(supervisor: Supervisor) -> Established:
    return await supervisor.wait_established(patient=True)


async def test_a_link_is_established_and_closed_once() -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        link = await established(supervisor)
        assert (link.number, link.connection) == (1, lines.made[0])
    assert lines.made[0].closed == 1


@pytest.mark.behaviour("R1")
async def test_the_old_connection_is_let_go_when_the_new_one_is_there() -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        await established(supervisor)
        supervisor.tell(inputs.Woken(wakeup=Wakeup.USER))
        while (await established(supervisor)).number == 1:
            await supervisor.changed()
        await asyncio.sleep(0.01)
        assert [line.closed for line in lines.made] == [1, 0]
        assert supervisor.record.generation == 2
    assert [line.closed for line in lines.made] == [1, 1]


@pytest.mark.behaviour("K9")
async def test_an_unexpected_error_is_that_attempts_failure_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    lines = Lines(lambda _: RuntimeError("a secret"), Line)
    with caplog.at_level(logging.WARNING, "outlast.client"):
        async with supervised(lines) as supervisor:
            await established(supervisor)
    assert lines.attempts == [0.0, 0.25]
    assert [record.getMessage() for record in caplog.records] == [
        "an attempt to connect failed unexpectedly (RuntimeError)"
    ]


async def test_an_error_while_a_connection_is_let_go_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Line):
        async def close(self) -> None:
            await super().close()
            raise LookupError("somebody's token")

    lines = Lines(Stuck)
    async with supervised(lines) as supervisor:
        link = await supervisor.wait_established(patient=False)
        supervisor.fail(link.number, Lost(Trouble.BROKEN))
        assert (await supervisor.wait_established(patient=False)).number != link.number
    assert [line.closed for line in lines.made] == [1, 1]
    assert "LookupError" in caplog.text
    assert "token" not in caplog.text


@pytest.mark.behaviour("K7", "K8")
async def test_an_attempt_that_hangs_is_cut_at_the_deadline_and_the_last_one_by_the_end() -> None:
    hanging = Hanging()
    async with supervised(hanging):
        await asyncio.sleep(15.1)
        assert hanging.cut == 1
        await asyncio.sleep(1)
    assert hanging.cut == 2


async def test_what_blocks_a_link_is_raised_to_those_who_are_not_patient() -> None:
    refusal = Lost(Trouble.CREDENTIALS, error=Unauthenticated("Who?"))
    lines = Lines(lambda _: refusal, lambda _: Lost(Trouble.CERTIFICATE), Line)
    async with supervised(lines) as supervisor:
        with pytest.raises(Unauthenticated, match="Who"):
            await supervisor.wait_established(patient=False)
        waiting = asyncio.create_task(established(supervisor))
        await asyncio.sleep(3600)
        assert len(lines.attempts) == 1
        supervisor.tell(inputs.Woken(wakeup=Wakeup.CREDENTIALS_CHANGED))
        await asyncio.sleep(1)
        with pytest.raises(Unanswered):
            await supervisor.wait_established(patient=False)
        supervisor.tell(inputs.Woken(wakeup=Wakeup.USER))
        assert (await waiting).number == 3


@pytest.mark.behaviour("K18")
async def test_whoever_waits_for_a_link_is_told_that_there_will_be_none() -> None:
    async with supervised(Hanging()) as supervisor:
        waiting = asyncio.create_task(established(supervisor))
        await asyncio.sleep(1)
    with pytest.raises(ClientClosed):
        await waiting


@pytest.mark.behaviour("K18")
@pytest.mark.parametrize(
    "wakeups",
    [[], [Wakeup.VISIBLE], [Wakeup.USER], [Wakeup.VISIBLE, Wakeup.PATH_CHANGED]],
    ids=["live", "asked", "being replaced", "asked, then replaced"],
)
async def test_nothing_is_called_back_after_the_end(wakeups: list[Wakeup]) -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        await established(supervisor)
        for wakeup in wakeups:
            supervisor.tell(inputs.Woken(wakeup=wakeup))
    called = [(len(lines.attempts), line.probes, line.closed) for line in lines.made]
    for line in lines.made:
        line.answering.set()
    for wakeup in Wakeup:
        supervisor.tell(inputs.Woken(wakeup=wakeup))
    supervisor.tell(inputs.Want())
    await asyncio.sleep(3600)
    assert [(len(lines.attempts), line.probes, line.closed) for line in lines.made] == called
    assert {line.closed for line in lines.made} == {1}
    assert supervisor.record.phase is Phase.CLOSED


@pytest.mark.behaviour("P3")
async def test_an_answer_to_the_second_probe_keeps_the_connection_and_all_that_hangs_on_it() -> None:
    lines = Lines(Line)
    async with supervised(lines, profile=DESKTOP) as supervisor:
        link = await established(supervisor)
        supervisor.tell(inputs.Woken(wakeup=Wakeup.VISIBLE))
        await asyncio.sleep(20.1)
        assert (lines.made[0].probes, supervisor.record.phase) == (2, Phase.SLOW)
        assert supervisor.record.can_send
        lines.made[0].answering.set()
        await asyncio.sleep(0.01)
        assert (supervisor.record.phase, supervisor.record.generation) == (Phase.LIVE, 1)
        assert supervisor.established == link
        assert (len(lines.attempts), lines.made[0].closed) == (1, 0)


@pytest.mark.behaviour("P1", "P11")
async def test_a_probe_is_sent_and_its_late_answer_after_the_link_was_replaced_says_nothing() -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        await established(supervisor)
        supervisor.tell(inputs.Woken(wakeup=Wakeup.VISIBLE))
        await asyncio.sleep(0.01)
        assert (lines.made[0].probes, supervisor.record.phase) == (1, Phase.LIVE)
        await asyncio.sleep(10)
        assert supervisor.record.generation == 2
        lines.made[0].answering.set()
        await asyncio.sleep(0.01)
        assert (supervisor.record.generation, supervisor.record.phase) == (2, Phase.LIVE)


@pytest.mark.behaviour("R7")
async def test_what_speaks_against_a_silent_node_ends_the_wait_for_what_speaks_for_it() -> None:
    class Lapsed(Line):
        async def look(self, tell: Callable[[Grade], None], deny: Callable[[], None]) -> None:
            deny()

    lines = Lines(Lapsed)
    async with supervised(lines) as supervisor:
        await established(supervisor)
        while supervisor.record.generation == 1:
            await supervisor.changed()
        assert lines.attempts == [0.0, 25.0]


@pytest.mark.behaviour("R1")
async def test_a_lost_link_is_taken_in_at_once_and_let_go() -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        link = await established(supervisor)
        supervisor.fail(link.number, Lost(Trouble.UNREACHABLE))
        assert supervisor.established is None
        await asyncio.sleep(0.01)
        assert lines.made[0].closed == 1


@pytest.mark.behaviour("R1")
async def test_a_request_outlives_the_replacement_of_its_link_and_ends_with_the_client() -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        for number in (1, 2):
            with supervisor.asking((await established(supervisor)).number, 1):
                supervisor.tell(inputs.Woken(wakeup=Wakeup.USER))
                while (await established(supervisor)).number == number:
                    await supervisor.changed()
                await asyncio.sleep(5)
                assert lines.made[number - 1].closed == 0
            await asyncio.sleep(0.01)
            assert lines.made[number - 1].closed == 1
        under_way = supervisor.asking((await established(supervisor)).number, 1)
        under_way.__enter__()
    assert lines.made[2].closed == 1
    under_way.__exit__(None, None, None)


@pytest.mark.behaviour("R1")
async def test_no_more_than_two_links_are_there_whatever_is_under_way_over_them() -> None:
    lines = Lines(Line, Line, lambda _: Lost(Trouble.UNREACHABLE), Line)
    async with supervised(lines) as supervisor:
        with supervisor.asking((await established(supervisor)).number, 1):
            supervisor.tell(inputs.Woken(wakeup=Wakeup.USER))
            while (await established(supervisor)).number == 1:
                await supervisor.changed()
            assert [line.closed for line in lines.made] == [0, 0]
            supervisor.tell(inputs.Woken(wakeup=Wakeup.USER))
            await asyncio.sleep(0.01)
            assert [line.closed for line in lines.made] == [1, 0], "it made room for the attempt"


class Named(Line):
    """A connection to a server with a store of this name."""

    def __init__(self, number: int, store: str | None) -> None:
        super().__init__(number)
        self.greeting = Greeting(boot_id=f"b{number}", store=store)


def of(store: str | None) -> Callable[[int], Line]:
    return lambda number: Named(number, store)


@pytest.mark.behaviour("M2")
async def test_another_server_than_the_one_that_was_linked_blocks_the_link_until_a_person_asks() -> None:
    lines = Lines(of("ours"), of("theirs"), of("ours"))
    async with supervised(lines) as supervisor:
        link = await established(supervisor)
        supervisor.fail(link.number, Lost(Trouble.BROKEN))
        with pytest.raises(WrongServer, match="new client"):
            await supervisor.wait_established(patient=False)
        assert (supervisor.record.phase, supervisor.record.trouble) == (Phase.BLOCKED, Trouble.CONFIGURATION)
        await asyncio.sleep(3600)
        assert [line.closed for line in lines.made] == [1, 1]
        supervisor.tell(inputs.Woken(wakeup=Wakeup.USER))
        assert (await established(supervisor)).connection is lines.made[2]


@pytest.mark.behaviour("M2")
async def test_a_store_that_was_named_beforehand_is_the_one_that_is_meant() -> None:
    lines = Lines(of("theirs"))
    async with supervised(lines, store="ours") as supervisor:
        with pytest.raises(WrongServer):
            await supervisor.wait_established(patient=False)


@pytest.mark.behaviour("M2")
async def test_another_server_that_answers_a_probe_is_as_little_welcome() -> None:
    lines = Lines(of("ours"), of("theirs"))
    async with supervised(lines) as supervisor:
        for said, trouble in (("ours", None), (None, None), ("theirs", Trouble.CONFIGURATION)):
            line = lines.made[-1] if lines.made else (await established(supervisor)).connection
            assert isinstance(line, Line)
            line.greeting = Greeting(boot_id="b", store=said)
            line.answering.set()
            supervisor.tell(inputs.Woken(wakeup=Wakeup.VISIBLE))
            await asyncio.sleep(1)
            assert (line.probes > 0, supervisor.record.trouble) == (True, trouble)
        with pytest.raises(WrongServer):
            await supervisor.wait_established(patient=False)
        assert supervisor.record.phase is Phase.BLOCKED


@pytest.mark.behaviour("M2", "M3")
async def test_a_server_that_names_no_store_is_older_and_welcome() -> None:
    lines = Lines(of(None), of("ours"), of(None), of("ours"), of("theirs"))
    async with supervised(lines) as supervisor:
        for generation in range(1, 5):
            link = await established(supervisor)
            assert supervisor.record.generation == generation
            supervisor.fail(link.number, Lost(Trouble.BROKEN))
        with pytest.raises(WrongServer):
            await supervisor.wait_established(patient=False)


@pytest.mark.behaviour("R1")
async def test_what_is_left_of_a_lost_link_is_let_go_before_the_client_is_closed() -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        supervisor.fail((await established(supervisor)).number, Lost(Trouble.UNREACHABLE))
        await established(supervisor)
        await asyncio.sleep(0.01)
        assert [line.closed for line in lines.made] == [1, 0]
    assert [line.closed for line in lines.made] == [1, 1]


async def test_signs_of_life_in_a_burst_are_one_and_the_mailbox_is_bounded() -> None:
    async with supervised(Lines(Line)) as supervisor:
        link = await established(supervisor)
        for _ in range(3 * MOST_MAIL):
            supervisor.heard(link.number, progress=False)
            supervisor.tell(inputs.Asked(link=link.number, request=1))
            supervisor.tell(inputs.Answered(link=link.number, request=1))
        assert len(supervisor._mail) <= MOST_MAIL + 1


async def test_silence_is_no_answer_and_a_refusal_is_one() -> None:
    async with supervised(Lines(Line)) as supervisor:
        link = await established(supervisor)
        with pytest.raises(Lost), supervisor.asking(link.number, 1):
            raise Lost(Trouble.BUSY)
        await asyncio.sleep(6)
        assert supervisor.record.phase is Phase.LIVE
        with pytest.raises(Lost), supervisor.asking(link.number, 2):
            raise Lost(Trouble.SILENT)
        await asyncio.sleep(6)
        assert supervisor.record.phase is Phase.SLOW


@pytest.mark.behaviour("N4")
@pytest.mark.parametrize("failure", [RuntimeError("a provider's"), InputInvalid("unsendable headers")])
async def test_what_our_own_side_failed_to_ask_says_nothing_of_the_server(failure: Exception) -> None:
    lines = Lines(Line)
    async with supervised(lines) as supervisor:
        link = await established(supervisor)
        open_question = supervisor.asking(link.number, 1)
        open_question.__enter__()
        with pytest.raises(type(failure)), supervisor.asking(link.number, 2):
            raise failure
        await asyncio.sleep(0.01)
        assert lines.made[0].probes == 1, "whether it is there is asked, not assumed"
        await asyncio.sleep(6)
        assert supervisor.record.phase is Phase.SLOW, "it was no answer to the question that is open"
        open_question.__exit__(None, None, None)
