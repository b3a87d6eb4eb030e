"""A scripted peer says just what its script says, remembers what it was asked, and leaves nothing behind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from outlast.client.http import direct
from outlast.testing.faults import Gate
from outlast.testing.peer import Answer, Asked, Close, Hold, Raw, ScriptedPeer
from tests.ends import End, connect

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

GET = b"GET /runs HTTP/1.1\r\n\r\n"


@asynccontextmanager
async def asking(peer: ScriptedPeer, said: bytes = GET) -> AsyncIterator[End]:
    """Ask over a connection of one's own."""
    end = await connect(peer.port)
    end.writer.write(said)
    try:
        yield end
    finally:
        await end.abort()


async def test_answers_come_in_turn_and_the_last_one_again_and_again() -> None:
    script = [Answer(status=503, headers={"Retry-After": "7"}), Answer(body=[b"data: a\n\n", b"", b"data: b\n\n"])]
    async with ScriptedPeer(script) as peer, direct() as client:
        answers = [await client.get(f"{peer.url}/runs/1/events") for _ in range(3)]
    assert [each.status_code for each in answers] == [503, 200, 200]
    assert answers[0].headers["retry-after"] == "7"
    assert [each.headers["content-type"] for each in answers] == ["text/event-stream"] * 3
    assert [each.content for each in answers] == [b"", b"data: a\n\ndata: b\n\n", b"data: a\n\ndata: b\n\n"]
    assert peer.most == 1  # one connection, kept


async def test_it_remembers_what_it_was_asked() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"in "
        yield b"chunks"

    async with ScriptedPeer([Answer()]) as peer, direct() as client:
        await client.post(f"{peer.url}/runs?owner=a", content=b"whole", headers={"X-Token": "T: 1"})
        await client.put(f"{peer.url}/b", content=parts())
        await client.get(f"{peer.url}/c")
    assert [(each.method, each.path, each.body) for each in peer.asked] == [
        ("POST", "/runs?owner=a", b"whole"),
        ("PUT", "/b", b"in chunks"),
        ("GET", "/c", b""),
    ]
    assert peer.asked[0].headers["x-token"] == "T: 1"


async def test_a_script_may_look_at_what_was_asked() -> None:
    def script(asked: Asked) -> Answer:
        return Answer(headers={"content-type": "text/plain"}, body=[asked.path.encode()])

    async with ScriptedPeer(script) as peer, direct() as client:
        answer = await client.get(f"{peer.url}/echo")
    assert (answer.text, answer.headers["content-type"]) == ("/echo", "text/plain")


async def test_a_script_that_fails_is_seen() -> None:
    def script(asked: Asked) -> Answer:
        raise LookupError(asked.path)

    with pytest.raises(LookupError, match="/runs"):
        async with ScriptedPeer(script) as peer, asking(peer) as end:
            assert await end.ended() in {b"", "reset"}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answer(headers={"content-length": "3"}, body=[b"abc"]), b"content-length: 3\r\n\r\nabc"),
        (Answer(status=204), b"HTTP/1.1 204 No Content\r\ncontent-type: text/event-stream\r\n\r\n"),
        (Answer(body=[b"abc"]), b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"),
    ],
    ids=["its own length", "no body", "chunks"],
)
async def test_a_body_is_framed_as_its_head_says(answer: Answer, said: bytes) -> None:
    async with ScriptedPeer([answer]) as peer, asking(peer) as end:
        assert (await end.heard()).endswith(said)
        assert not end.reader.at_eof()


async def test_a_connection_that_is_not_kept_is_closed_after_its_answer() -> None:
    async with ScriptedPeer([Answer(headers={"connection": "close"})]) as peer, asking(peer) as end:
        said = await end.ended()
        assert isinstance(said, bytes)
        assert said.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("reset", [False, True], ids=["fin", "reset"])
async def test_a_body_is_closed_in_the_middle(reset: bool) -> None:
    async with ScriptedPeer([Answer(body=[b"abc", Close(reset=reset), b"never"])]) as peer, asking(peer) as end:
        said = await end.heard()
        assert said.endswith(b"3\r\nabc\r\n")
        assert await end.ended() == ("reset" if reset else said)
        await peer.until(lambda peer: peer.open == 0)


async def test_a_body_waits_at_a_gate_until_it_is_opened() -> None:
    gate = Gate()
    async with ScriptedPeer([Answer(body=[b"one", gate, b"two"])]) as peer, asking(peer) as end:
        await gate.entered.wait()
        assert (await end.heard()).endswith(b"3\r\none\r\n")
        gate.open()
        assert (await end.heard()).endswith(b"3\r\ntwo\r\n0\r\n\r\n")


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("step", [Gate, Hold])
async def test_a_client_that_leaves_ends_its_answer(step: type[Gate | Hold], reset: bool) -> None:
    async with ScriptedPeer([Answer(body=[b"one", step(), b"two"])]) as peer:
        async with asking(peer) as end:
            await end.heard()
            await asyncio.sleep(3600)
            assert peer.open == 1
            if not reset:
                end.writer.write_eof()
        await peer.until(lambda peer: peer.open == 0)


async def test_a_client_that_leaves_within_its_request_is_no_request() -> None:
    async with ScriptedPeer([Answer()]) as peer:
        async with asking(peer, GET[:-4]) as end:
            await end.heard()
        async with asking(peer, b"POST / HTTP/1.1\r\ncontent-length: 9\r\n\r\nhalf") as end:
            await end.heard()
        await peer.until(lambda peer: peer.open == 0)
        assert (peer.asked, peer.most) == ([], 1)


async def test_what_is_no_http_is_said_as_it_is() -> None:
    async with ScriptedPeer([Raw(steps=[b"SSH-2.0-OpenSSH\r\n"])]) as peer, asking(peer) as end:
        assert await end.ended() == b"SSH-2.0-OpenSSH\r\n"


async def test_connections_are_counted_and_waited_for() -> None:
    async with ScriptedPeer([Answer(body=[Hold()])]) as peer:
        async with asking(peer), asking(peer):
            await peer.until(lambda peer: len(peer.asked) == 2)
            assert (peer.open, peer.most) == (2, 2)
        await peer.until(lambda peer: peer.open == 0)
        assert peer.most == 2


async def test_leaving_it_ends_every_answer() -> None:
    async with ScriptedPeer([Answer(body=[bytes(1 << 24)])]) as peer:
        stuck = await connect(peer.port)
        stuck.writer.write(GET)
        silent = await connect(peer.port)
        await peer.until(lambda peer: len(peer.asked) == 1)
    with pytest.raises(ConnectionRefusedError):
        await connect(peer.port)
    for end in (stuck, silent):
        await end.abort()


async def test_a_client_library_sees_a_broken_answer_as_broken() -> None:
    async with ScriptedPeer([Answer(body=[b"abc", Close()])]) as peer, direct() as client:
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.get(peer.url)
