"""An outbox over a scripted peer: what is sent, in which order, how often, and what each answer makes of it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from outlast.client.client import Client
from outlast.client.connect import connect
from outlast.client.outbox import ANSWER_WITHIN, LOOK_EVERY, RETRY_EVERY
from outlast.client.pages import BORNE_FOR
from outlast.errors import ClientClosed, IdConflict, InputInvalid, RunNotFound, StoreFull
from outlast.send import Send, State
from outlast.stores.sqlite.keep import Keep
from outlast.supervision.phase import Phase
from outlast.testing.faults import Gate
from outlast.testing.peer import Answer, Asked, Close, Hold, ScriptedPeer
from tests.answers import GREETING

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

YES = Answer(status=201, body=[b'{"id": "r1"}'])


def no(status: int, code: str | None, **headers: str) -> Answer:
    said = b"<h1>Not here</h1>" if code is None else json.dumps({"code": code, "detail": "No."}).encode()
    return Answer(status=status, body=[said], headers={name.replace("_", "-"): each for name, each in headers.items()})


class Server:
    """Greets whoever asks who is there, and answers sends in turn, the last answer again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.sends: list[tuple[str, Any]] = []
        self.times: list[float] = []

    def __call__(self, asked: Asked) -> Answer:
        if asked.path.endswith("/session"):
            return GREETING
        self.sends.append((asked.path, json.loads(asked.body or b"{}")))
        self.times.append(asyncio.get_running_loop().time())
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def runs(self) -> list[str]:
        return [said.get("id") or path.split("/")[2] for path, said in self.sends]


@asynccontextmanager
async def client_of(server: Server, path: Path, **options: Any) -> AsyncIterator[tuple[Client, ScriptedPeer]]:
    async with ScriptedPeer(server) as peer:
        keep = Keep(path / "client.db", server="chat")
        async with connect(peer.url, keep=keep, jitter=lambda: 0.5, **options) as client:
            yield client, peer


async def until(so: Callable[[], bool]) -> None:
    while not so():
        await asyncio.sleep(0.1)


# ---- what is sent ----


@pytest.mark.behaviour("R11")
async def test_a_send_is_queued_then_sent_then_accepted(tmp_path: Path) -> None:
    gate = Gate()
    async with client_of(Server(Answer(status=201, body=[gate, b"{}"])), tmp_path) as (client, _peer):
        send = await client.outbox.start("chat", {"text": "hi"}, id="r1")
        assert (send.run, send.state, send.tries) == ("r1", State.QUEUED, 0)
        await gate.entered.wait()
        assert [(each.state, each.tries) for each in await client.outbox.sends()] == [(State.SENT, 1)]
        settling = asyncio.create_task(client.outbox.settled(send))
        await asyncio.sleep(LOOK_EVERY / 2)
        opened_at = asyncio.get_running_loop().time()
        gate.open()
        settled = await settling
        assert asyncio.get_running_loop().time() == opened_at
        assert (settled.state, settled.tries, settled.code) == (State.ACCEPTED, 1, None)


async def test_sends_are_the_requests_that_they_stand_for_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    server = Server(YES)
    async with client_of(server, tmp_path) as (client, peer):
        minted = await client.outbox.start("chat", owner="a&b")
        await client.outbox.start("chat", {"text": "hi"}, id="r1", thread="t", metadata={"a": 1})
        last = await client.outbox.stop("r1", reason="enough", owner="ann")
        await client.outbox.settled(last)
        assert peer.most <= 2
    assert server.sends == [
        ("/runs?owner=a%26b", {"worker": "chat", "input": None, "id": minted.run, "thread": None}),
        ("/runs", {"worker": "chat", "input": {"text": "hi"}, "id": "r1", "thread": "t", "metadata": {"a": 1}}),
        ("/runs/r1/stop?owner=ann", {"reason": "enough"}),
    ]


async def test_the_same_start_asked_for_again_is_sent_once_and_another_is_a_conflict(tmp_path: Path) -> None:
    server = Server(YES)
    async with client_of(server, tmp_path) as (client, _peer):
        send = await client.outbox.start("chat", {"text": "hi"}, id="r1")
        assert (await client.outbox.start("chat", {"text": "hi"}, id="r1")).number == send.number
        await client.outbox.settled(send)
        assert (await client.outbox.start("chat", {"text": "hi"}, id="r1")).state is State.ACCEPTED
        with pytest.raises(IdConflict):
            await client.outbox.start("chat", {"text": "ho"}, id="r1")
        await client.outbox.settled(await client.outbox.start("chat", id="r2"))
    assert server.runs == ["r1", "r2"]


async def test_what_can_be_no_run_s_id_or_no_input_is_refused_before_it_is_kept(tmp_path: Path) -> None:
    async with client_of(Server(YES), tmp_path) as (client, _peer):
        for id in ("a/b", "..", "\ud800"):
            with pytest.raises(InputInvalid, match="An id is"):
                await client.outbox.start("chat", id=id)
            with pytest.raises(InputInvalid, match="An id is"):
                await client.outbox.stop(id)
        with pytest.raises(InputInvalid, match="JSON"):
            await client.outbox.start("chat", float("nan"))
        assert await client.outbox.sends() == []


# ---- answers, and what is none ----


@pytest.mark.behaviour("R11")
@pytest.mark.parametrize(
    ("status", "code"),
    [(400, "input_invalid"), (403, "not_admitted"), (409, "thread_busy"), (409, "id_conflict"), (410, "run_gone")],
)
async def test_a_refusal_rejects_a_send_and_is_kept_until_somebody_takes_note(
    tmp_path: Path, status: int, code: str
) -> None:
    server = Server(no(status, code), YES)
    async with client_of(server, tmp_path) as (client, _peer):
        send = await client.outbox.settled(await client.outbox.start("chat", {"text": "hi"}, id="r1"))
        assert (send.state, send.code, send.tries, send.said["input"]) == (State.REJECTED, code, 1, {"text": "hi"})
        await client.outbox.settled(await client.outbox.start("chat", id="r2"))
    async with client_of(server, tmp_path) as (client, _peer):
        assert (await client.outbox.start("chat", {"text": "hi"}, id="r1")) == send
        assert await client.outbox.forget(send)
        again = await client.outbox.settled(await client.outbox.start("chat", {"text": "hi"}, id="r1"))
        assert again.state is State.ACCEPTED
    assert server.runs == ["r1", "r2", "r1"]


@pytest.mark.behaviour("R11")
@pytest.mark.case(75)
@pytest.mark.parametrize(
    "trouble",
    [
        Answer(body=[Close(reset=True)]),
        Answer(body=[Close()]),
        no(503, "draining"),
        no(500, None),
        no(429, "too_many"),
        no(401, "unauthenticated"),
        Answer(body=[b"<h1>Sign in to this network</h1>"]),
        no(404, None),
    ],
    ids=["reset", "closed", "draining", "broken", "too many", "signed out", "a portal", "a proxy"],
)
async def test_what_is_no_answer_has_the_same_send_asked_again_under_its_key(tmp_path: Path, trouble: Answer) -> None:
    server = Server(trouble, trouble, trouble, YES)
    async with client_of(server, tmp_path) as (client, _peer):
        first = await client.outbox.start("chat", id="r1")
        second = await client.outbox.start("chat", id="r2")
        await client.outbox.settled(second)
        assert (await client.outbox.settled(first)).tries == 4
    assert server.runs == ["r1", "r1", "r1", "r1", "r2"]
    assert len({json.dumps(said) for _, said in server.sends[:4]}) == 1


async def test_what_a_server_does_not_answer_is_asked_again_after_a_minute(tmp_path: Path) -> None:
    server = Server(Answer(body=[Hold()]), YES)
    async with client_of(server, tmp_path) as (client, _peer):
        settled = await client.outbox.settled(await client.outbox.start("chat", id="r1"))
        assert (settled.state, settled.tries) == (State.ACCEPTED, 2)
        assert ANSWER_WITHIN <= asyncio.get_running_loop().time() <= ANSWER_WITHIN + 1


async def test_a_busy_server_is_pressed_ever_less_and_never_before_it_asked(tmp_path: Path) -> None:
    server = Server(*[no(503, "capacity")] * 6, no(503, "capacity", retry_after="40"), YES)
    async with client_of(server, tmp_path) as (client, _peer):
        first = await client.outbox.start("chat", id="r1")
        for number in range(20):  # whoever adds more presses it no more
            await client.outbox.start("chat", id=f"more-{number}")
            await asyncio.sleep(0.5)
        await client.outbox.settled(first)
        gaps = [later - earlier for earlier, later in zip(server.times[:8], server.times[1:8], strict=False)]
    assert gaps[:5] == sorted(gaps[:5])
    assert gaps[4] > 3
    assert gaps[6] >= 40


async def test_another_link_is_a_reason_to_ask_at_once(tmp_path: Path) -> None:
    server = Server(*[no(503, "capacity")] * 7, YES)
    async with client_of(server, tmp_path) as (client, _peer):
        send = await client.outbox.start("chat", id="r1")
        await until(lambda: len(server.sends) == 7)
        asked_at = asyncio.get_running_loop().time()
        client.wakeup("user")
        await client.outbox.settled(send)
        assert asyncio.get_running_loop().time() - asked_at < 1


@pytest.mark.parametrize(("before", "borne"), [([], 1), ([no(404, None)] * 7 + [no(503, None)], 1.5)])
async def test_what_goes_on_refusing_in_strange_words_is_believed_at_last(
    tmp_path: Path, before: list[Answer], borne: float
) -> None:
    server = Server(*before, no(404, None))
    async with client_of(server, tmp_path) as (client, _peer):
        settled = await client.outbox.settled(await client.outbox.start("chat", id="r1"))
        assert (settled.state, settled.code) == (State.REJECTED, "refused")
    assert borne * BORNE_FOR <= server.times[-1] - server.times[0] < (borne + 0.5) * BORNE_FOR


async def test_an_answer_makes_good_for_the_troubles_before_it(tmp_path: Path) -> None:
    strange = [no(404, None)] * 8
    server = Server(*strange, YES, *strange, YES)
    async with client_of(server, tmp_path) as (client, _peer):
        sends = [await client.outbox.start("chat", id=id) for id in ("r1", "r2")]
        settled = [await client.outbox.settled(send) for send in sends]
    assert [send.state for send in settled] == [State.ACCEPTED] * 2
    first, second = server.times[:9], server.times[9:]
    assert server.times[-1] - server.times[0] > BORNE_FOR
    assert [time - first[0] for time in first] == pytest.approx([time - second[0] for time in second])


# ---- links, processes ----


async def test_a_link_that_is_blocked_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    headers = {"authorization": "expired"}

    class Guarded(Server):
        def __call__(self, asked: Asked) -> Answer:
            if asked.headers["authorization"] == "expired":
                return no(401, "unauthenticated")
            return super().__call__(asked)

    server = Guarded(YES)
    with caplog.at_level(logging.WARNING, "outlast.client"):
        async with client_of(server, tmp_path, headers=lambda: headers) as (client, _peer):
            send = await client.outbox.start("chat", id="r1")
            await until(lambda: client.state.record.link.phase is Phase.BLOCKED)
            await asyncio.sleep(60)
            headers["authorization"] = "fresh"
            client.wakeup("credentials-changed")
            assert (await client.outbox.settled(send)).tries == 1
    assert caplog.records == []  # the link's own record says what blocks it


@pytest.mark.behaviour("R11")
async def test_a_server_that_is_away_for_the_whole_life_of_a_process_gets_it_from_the_next(tmp_path: Path) -> None:
    keep = Keep(tmp_path / "client.db", server="chat")
    async with connect("http://127.0.0.1:1", keep=keep) as client:
        send = await client.outbox.start("chat", {"text": "hi"}, id="r1")
        await asyncio.sleep(20)
        assert await client.outbox.sends() == [send]
        waiting = asyncio.create_task(client.outbox.settled(send))
        await asyncio.sleep(0)
    with pytest.raises(ClientClosed, match="is kept"):
        await waiting
    with pytest.raises(ClientClosed):
        await client.outbox.start("chat", id="r2")
    server = Server(YES)
    async with client_of(server, tmp_path) as (client, _peer):
        assert (await client.outbox.settled(send)).state is State.ACCEPTED
    assert server.runs == ["r1"]


async def test_what_was_sent_without_an_answer_when_its_process_ended_is_asked_again(tmp_path: Path) -> None:
    server = Server(Answer(body=[Hold()]), YES)
    async with client_of(server, tmp_path) as (client, _peer):
        send = await client.outbox.start("chat", id="r1")
        await until(lambda: server.runs == ["r1"])
        assert not await client.outbox.forget(send)
    async with client_of(server, tmp_path) as (client, _peer):
        settled = await client.outbox.settled(send)
        assert (settled.state, settled.tries) == (State.ACCEPTED, 2)
    assert server.runs == ["r1", "r1"]


async def test_what_was_never_sent_can_be_taken_back(tmp_path: Path) -> None:
    server = Server(YES)
    async with connect("http://127.0.0.1:1", keep=Keep(tmp_path / "client.db", server="chat")) as client:
        send = await client.outbox.start("chat", id="r1")
        assert await client.outbox.forget(send)
        with pytest.raises(InputInvalid, match="no longer"):
            await client.outbox.settled(send)
    async with client_of(server, tmp_path) as (client, _peer):
        await client.outbox.settled(await client.outbox.start("chat", id="r2"))
    assert server.runs == ["r2"]


@pytest.mark.behaviour("R11")
async def test_the_id_of_a_run_is_no_send_and_the_refusal_says_what_is(tmp_path: Path) -> None:
    outbox: Any
    async with connect("http://127.0.0.1:1", keep=Keep(tmp_path / "client.db")) as client:
        outbox = client.outbox
        for ask in (outbox.settled, outbox.forget):
            with pytest.raises(InputInvalid, match="what `start` or `stop` returned"):
                await ask("r1")


async def test_of_two_clients_one_sends_and_both_hear_of_it(tmp_path: Path) -> None:
    server = Server(no(503, "capacity"), YES)
    async with (
        client_of(server, tmp_path) as (client, peer),
        connect(peer.url, keep=Keep(tmp_path / "client.db", server="chat"), jitter=lambda: 0.5) as other,
    ):
        sends = [await each.outbox.start("chat", id=f"r{n}") for n, each in enumerate((client, other, client, other))]
        settled = await asyncio.gather(*[other.outbox.settled(send) for send in sends])
        await asyncio.gather(*[client.outbox.settled(send) for send in sends])
    assert {send.state for send in settled} == {State.ACCEPTED}
    assert server.runs == ["r0", "r0", "r1", "r2", "r3"]


async def test_who_has_no_link_leaves_it_to_who_has(tmp_path: Path) -> None:
    server = Server(YES)
    async with (
        connect("http://127.0.0.1:1", keep=Keep(tmp_path / "client.db", server="chat")) as cut_off,
        client_of(server, tmp_path) as (linked, _peer),
    ):
        await asyncio.sleep(5)
        send = await cut_off.outbox.start("chat", id="r1")
        # Nobody told the other that there is something: it learns of it with its own next send.
        await linked.outbox.settled(await linked.outbox.start("chat", id="r2"))
        assert (await cut_off.outbox.settled(send)).state is State.ACCEPTED
    assert server.runs == ["r1", "r2"]


async def test_a_client_takes_over_from_one_that_held_the_server(tmp_path: Path) -> None:
    server = Server(YES)
    rival = Keep(tmp_path / "client.db")
    await rival.open()
    assert rival.hold("chat")
    async with client_of(server, tmp_path) as (client, _peer):
        send = await client.outbox.start("chat", id="r1")
        await asyncio.sleep(5 * LOOK_EVERY)
        assert server.runs == []
        rival.let_go("chat")
        await client.outbox.settled(send)
    await rival.close()
    assert server.runs == ["r1"]


async def test_who_follows_a_run_that_is_still_to_be_started_waits_for_that(tmp_path: Path) -> None:
    gate = Gate()
    server = Server(Answer(status=201, body=[gate, b"{}"]), no(404, "run_not_found"))
    async with client_of(server, tmp_path) as (client, peer):
        await client.outbox.start("chat", id="r1")
        following = asyncio.create_task(anext(client.follow("r1")))
        await gate.entered.wait()
        await asyncio.sleep(1)
        assert [asked.method for asked in peer.asked if "/runs" in asked.path] == ["POST"]
        gate.open()
        with pytest.raises(RunNotFound):
            await following
        with pytest.raises(RunNotFound):
            await anext(client.follow("r2"))


class Overtaken(Keep):
    """A keep whose first send another process has answered, just before it is to be marked as sent."""

    marked = 0

    async def mark_sent(self, send: Send) -> bool:
        self.marked += 1
        if self.marked == 1:
            await super().mark_sent(send)
            await self.settle("chat", send, code=None)
        return await super().mark_sent(send)


async def test_what_another_process_had_answered_meanwhile_is_not_sent_and_holds_up_nothing(tmp_path: Path) -> None:
    server = Server(YES)
    keep = Overtaken(tmp_path / "client.db", server="chat")
    async with ScriptedPeer(server) as peer, connect(peer.url, keep=keep) as client:
        await until(lambda: client.state.record.link.phase is Phase.LIVE)
        began = asyncio.get_running_loop().time()
        await client.outbox.start("chat", id="r1")
        await client.outbox.settled(await client.outbox.start("chat", id="r2"))
        assert asyncio.get_running_loop().time() == began
    assert server.runs == ["r2"]


# ---- troubles of its own ----


class Full(Keep):
    """A keep on a full disk, for a while."""

    full = False

    async def mark_sent(self, send: Send) -> bool:
        if self.full:
            raise StoreFull("secret")
        return await super().mark_sent(send)


async def test_what_cannot_be_marked_as_sent_is_not_sent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(YES)
    keep = Full(tmp_path / "client.db")
    keep.full = True
    async with ScriptedPeer(server) as peer, connect(peer.url, keep=keep) as client:
        with caplog.at_level(logging.WARNING, "outlast.client"):
            send = await client.outbox.start("chat", id="r1")
            await asyncio.sleep(3 * RETRY_EVERY)
        assert [record.getMessage() for record in caplog.records] == ["what is to be sent waits (store_full)"]
        assert server.runs == []
        keep.full = False
        await client.outbox.settled(send)
    assert server.runs == ["r1"]


async def test_that_somebody_has_to_sign_in_is_told_once_for_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(*[no(401, "unauthenticated")] * 5, YES, no(401, "unauthenticated"), YES)
    async with client_of(server, tmp_path) as (client, _peer):
        with caplog.at_level(logging.WARNING, "outlast.client"):
            await client.outbox.settled(await client.outbox.start("chat", {"text": "secret"}, id="r1"))
            await client.outbox.settled(await client.outbox.start("chat", id="r2"))
    assert [record.getMessage() for record in caplog.records] == ["what is to be sent waits (unauthenticated)"] * 2


@pytest.mark.parametrize("trouble", [KeyError("secret"), {"authorization": "\ud83d"}, {"authorization": "a\nb"}])
async def test_headers_that_cannot_be_had_or_sent_end_no_outbox_and_reject_nothing(
    tmp_path: Path, trouble: Exception | dict[str, str]
) -> None:
    server = Server(YES)
    calls = 0

    def headers() -> dict[str, str]:
        nonlocal calls
        calls += 1
        if not 1 < calls < 4:
            return {}
        if isinstance(trouble, Exception):
            raise trouble
        return trouble

    async with client_of(server, tmp_path, headers=headers) as (client, _peer):
        await until(lambda: client.state.record.link.phase is Phase.LIVE)
        settled = await client.outbox.settled(await client.outbox.start("chat", id="r1"))
        assert settled.state is State.ACCEPTED
    assert server.runs == ["r1"]


async def test_a_client_that_keeps_nothing_says_how_to_have_an_outbox() -> None:
    async with connect("http://127.0.0.1:1") as client:
        with pytest.raises(InputInvalid, match=r"keep=outlast\.Keep"):
            client.outbox  # noqa: B018
