"""Requests over WebSockets: who asks is said in the handshake, and a handshake that is refused is told apart."""

import asyncio
import json
import logging
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

from outlast.client import kernel
from outlast.client.answers import told
from outlast.client.credentials import Credentials
from outlast.client.http import HTTPTransport
from outlast.client.transport import Lost
from outlast.client.websocket import CLOSE_WITHIN, RESTART_WITHIN, Clients
from outlast.errors import TooLarge
from outlast.supervision.phase import Trouble
from outlast.testing.peer import Answer, Close, ScriptedPeer
from outlast.testing.proxy import FaultProxy
from outlast.wire import native
from outlast.wire.session import EXCHANGES, Ask, Leave
from tests.talks import SessionPeer, Talk

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

CERTIFICATE = Path(__file__).parents[1] / "certificate.pem"
GREETING = native.greeting(boot_id="b00t", heartbeat=5.0)


@asynccontextmanager
async def client(peer: SessionPeer | ScriptedPeer, *, below: str = "", **how: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """Hold a client of a peer, and see all its sockets closed in the end."""
    async with Clients(others=True)(peer.url + below) as one:
        one.base_url = peer.url + below + "/"
        one.headers.update(how.get("headers", {}))
        yield one
    if isinstance(peer, SessionPeer):
        await peer.until(lambda peer: not any(talk.is_open for talk in peer.talks))


async def echo(talk: Talk, asked: Ask) -> None:
    """Answer with what was asked, and by whom."""
    said = {"path": asked.path, "who": talk.headers.get("authorization"), "body": asked.body}
    await talk.answer(asked, json.dumps(said).encode(), content_type="application/json")


async def greet(talk: Talk, asked: Ask) -> None:
    """Answer who is there."""
    await talk.answer(asked, json.dumps({**GREETING, "peer": ":".join(map(str, talk.socket.remote_address))}).encode())


# ---- requests -----------------------------------------------------------------------------------


async def test_a_request_is_asked_below_its_address_with_its_query_its_body_and_the_headers_of_its_content() -> None:
    async with SessionPeer(echo) as peer, client(peer, below="/agents") as one:
        answer = await one.post("runs?owner=b%20c", json={"a": "é"}, headers={"traceparent": "00-ab"})
        assert answer.json()["path"] == "/runs?owner=b%20c"
        assert json.loads(answer.json()["body"]) == {"a": "é"}
        await one.get("runs/%C3%A9/events", headers={"last-event-id": "3-ab", "accept": "text/event-stream"})
        first, second = peer.talks[0].of(Ask)
        assert (peer.talks[0].path, first.method) == ("/agents/session", "POST")
        assert first.headers == {"accept": "*/*", "content-type": "application/json", "traceparent": "00-ab"}
        assert (second.path, second.body) == ("/runs/%C3%A9/events", None)
        assert second.headers == {"accept": "text/event-stream", "last-event-id": "3-ab"}


async def test_a_header_of_an_answer_may_hold_whatever_one_may_over_http() -> None:
    async def place(talk: Talk, asked: Ask) -> None:
        await talk.answer(asked, status=201, location="/ténant/runs/r")

    async with SessionPeer(place) as peer, client(peer) as one:
        assert (await one.post("runs")).headers.raw == [(b"location", "/ténant/runs/r".encode("latin-1"))]
    async with refusing(429, retry_after="7", location="/ténant") as peer, client(peer) as one:
        assert (await one.get("session")).status_code == 429


async def test_who_asks_is_said_in_the_handshake_alone() -> None:
    who = {"authorization": "Bearer t", "x-key": "k", "cookie": "a=b", "user-agent": "mine", "origin": "http://here"}
    async with SessionPeer(echo) as peer, client(peer, headers=who) as one:
        await one.get("runs")
        (talk,) = peer.talks
        assert {name: talk.headers[name] for name in who} == who
        assert talk.of(Ask)[0].headers.keys() == {"accept"}
        assert "accept-encoding" not in talk.headers
        assert "sec-websocket-extensions" not in talk.headers


async def test_what_belongs_to_a_handshake_is_its_own_whoever_says_it() -> None:
    own = {"sec-websocket-key": "mine", "sec-websocket-protocol": "mine", "upgrade": "mine", "connection": "close"}
    async with SessionPeer(echo) as peer, client(peer, headers=own) as one:
        assert (await one.get("runs")).status_code == 200
        assert peer.talks[0].headers["upgrade"] == "websocket"


async def test_a_server_may_be_asked_for_by_another_name_than_its_address() -> None:
    async with SessionPeer(echo) as peer, client(peer, headers={"host": "agents.example"}) as one:
        await one.get("runs")
        assert peer.talks[0].headers["host"] == "agents.example"


async def test_an_address_may_name_who_asks() -> None:
    async with SessionPeer(echo) as peer, Clients(others=True)(peer.url.replace("//", "//ann:secret@")) as one:
        answer = await one.get(peer.url.replace("//", "//ann:secret@") + "/runs")
        assert answer.json()["who"] == "Basic YW5uOnNlY3JldA=="


@pytest.mark.parametrize("headers", [{"x-who": "a\r\nx-admin: yes"}, {"x who": "a"}, {"last-event-id": "é\n"}])
async def test_a_header_that_cannot_be_sent_is_refused_before_anything_is(headers: dict[str, str]) -> None:
    async with SessionPeer(echo) as peer, client(peer) as one:
        with pytest.raises((httpx2.LocalProtocolError, UnicodeEncodeError)):
            await one.get("runs", headers=headers)
        assert not any(talk.heard for talk in peer.talks)


@pytest.mark.parametrize("content", [b"\xff", b"x" * 3_000_000])
async def test_a_body_that_no_session_carries_is_refused_and_the_session_goes_on(content: bytes) -> None:
    async with SessionPeer(echo) as peer, client(peer) as one:
        with pytest.raises((httpx2.LocalProtocolError, TooLarge)):
            await one.post("runs", content=content)
        assert (await one.get("runs")).status_code == 200


async def test_a_url_that_is_not_below_the_address_is_none_of_its_business() -> None:
    async with SessionPeer(echo) as peer, client(peer, below="/agents") as one:
        with pytest.raises(httpx2.LocalProtocolError):
            await one.get(f"{peer.url}/agentsandmore")


# ---- answers ------------------------------------------------------------------------------------


async def test_an_answer_streams_and_who_closes_it_leaves() -> None:
    async def script(talk: Talk, asked: Ask) -> None:
        await talk.begin(asked)
        await talk.piece(asked, b"one")

    async with SessionPeer(script) as peer, client(peer) as one:
        async with one.stream("GET", "runs/r1/events") as response:
            assert await anext(response.aiter_raw()) == b"one"
        await peer.until(lambda peer: len(peer.talks[0].of(Leave)) == 1)


async def test_a_request_that_is_cancelled_leaves() -> None:
    async with SessionPeer() as peer, client(peer) as one:
        asking = asyncio.create_task(one.get("runs"))
        await peer.asked()
        asking.cancel()
        await asyncio.wait([asking])
        await peer.until(lambda peer: len(peer.talks[0].of(Leave)) == 1)


async def test_the_timeouts_of_a_request_are_kept() -> None:
    async with SessionPeer() as peer, client(peer) as one:
        with pytest.raises(httpx2.ReadTimeout):
            await one.get("runs", timeout=5)
        assert asyncio.get_running_loop().time() == 5.0
        peer.hold = asyncio.Event()
        with pytest.raises(httpx2.ConnectTimeout):
            await one.get("runs", timeout=7, headers={"authorization": "other"})
        assert asyncio.get_running_loop().time() == 12.0
        peer.hold.set()


@pytest.mark.behaviour("P15")
async def test_a_server_that_stands_still_for_an_hour_is_asked_nothing_and_torn_down_by_nobody() -> None:
    async with SessionPeer() as peer, client(peer) as one:
        peer.hold = asyncio.Event()
        asking = asyncio.create_task(one.get("runs"))
        await asyncio.sleep(3600)
        peer.hold.set()
        asked = await peer.asked()
        (talk,) = peer.talks
        talk.socket.transport.pause_reading()
        await asyncio.sleep(3600)
        talk.socket.transport.resume_reading()
        await talk.answer(asked, b"late")
        assert (await asking).content == b"late"


async def test_closing_it_breaks_off_what_is_open() -> None:
    async with SessionPeer() as peer, client(peer) as one:
        asking = asyncio.create_task(one.get("runs"))
        await peer.asked()
        await one.aclose()
        with pytest.raises(httpx2.RemoteProtocolError):
            await asking


async def test_closing_it_takes_no_longer_for_many_sessions_that_nobody_answers() -> None:
    async with SessionPeer() as peer, client(peer) as one:
        asking = [asyncio.create_task(one.get("runs", headers={"authorization": str(each)})) for each in range(9)]
        await peer.until(lambda peer: sum(len(talk.heard) for talk in peer.talks) == 9)
        for talk in peer.talks:
            talk.socket.transport.pause_reading()
        await one.aclose()
        assert asyncio.get_running_loop().time() == CLOSE_WITHIN
        assert {type(each) for each in await asyncio.gather(*asking, return_exceptions=True)} == {
            httpx2.RemoteProtocolError
        }
        for talk in peer.talks:
            talk.socket.transport.abort()


async def test_the_kernel_is_asked_about_its_socket() -> None:
    async with SessionPeer(echo) as peer, client(peer) as one, one.stream("GET", "session") as response:
        below = response.extensions["network_stream"].get_extra_info("socket")
        assert (kernel.read(below) is None) is (sys.platform != "linux")
        assert kernel.own_address(response) == "{}:{}".format(*peer.talks[0].socket.remote_address)


@pytest.mark.parametrize("is_direct", [True, False])
async def test_whether_something_stands_between_is_seen(is_direct: bool) -> None:
    async with SessionPeer(greet) as peer, FaultProxy("127.0.0.1", int(peer.url.rpartition(":")[2])) as proxy:
        url = peer.url if is_direct else proxy.url
        connection = await HTTPTransport([url], Credentials(None), make=Clients(others=True)).connect(1)
        assert connection.is_direct is is_direct
        await connection.close()


# ---- sessions -----------------------------------------------------------------------------------


@pytest.mark.behaviour("N3")
async def test_other_credentials_have_a_session_of_their_own_and_the_one_before_ends_with_what_is_open() -> None:
    async with SessionPeer() as peer, client(peer) as one:
        first = asyncio.create_task(one.get("runs/1", headers={"authorization": "old"}))
        await peer.asked()
        second = asyncio.create_task(one.get("runs/2", headers={"authorization": "new"}))
        await peer.asked(of=1)
        old, new = peer.talks
        assert (old.headers["authorization"], new.headers["authorization"]) == ("old", "new")
        await new.answer(new.of(Ask)[0])
        await second
        assert old.is_open
        await old.answer(old.of(Ask)[0], b"whole")
        assert (await first).content == b"whole"
        await peer.until(lambda _: not old.is_open)
        assert new.is_open


async def test_requests_that_say_the_same_share_a_session_up_to_as_many_as_it_takes() -> None:
    async with SessionPeer() as peer, client(peer) as one, asyncio.TaskGroup() as asking:
        for _ in range(EXCHANGES + 1):
            asking.create_task(one.get("runs"))
        await peer.asked(EXCHANGES)
        asked = await peer.asked(1, of=1)
        await peer.talks[1].answer(asked)
        for each in peer.talks[0].of(Ask):
            await peer.talks[0].answer(each)
    assert len(peer.talks) == 2


async def test_where_a_session_ended_the_next_request_has_another() -> None:
    async with SessionPeer(echo) as peer, client(peer) as one:
        await one.get("runs")
        await peer.talks[0].socket.close(3008)
        await one.get("runs")
        assert len(peer.talks) == 2


# ---- handshakes ---------------------------------------------------------------------------------


def refusing(status: int, body: bytes = b"", **headers: str) -> SessionPeer:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    said = Headers({**names, "content-length": str(len(body))})
    return SessionPeer(refuse=lambda _request: Response(status, "No", said, body))


@pytest.mark.parametrize(
    ("status", "document"),
    [
        (401, {}),
        (503, {}),
        (429, {}),
        (403, {"code": "forbidden", "detail": "Not you."}),
        (503, {"code": "draining", "detail": "Elsewhere."}),
    ],
)
async def test_a_refusal_that_says_what_to_do_is_the_answer_to_the_request(
    status: int, document: dict[str, str]
) -> None:
    refused = refusing(status, json.dumps(document).encode(), retry_after="7", set_cookie="a=b")
    async with refused as peer, client(peer) as one:
        answer = await one.get("session")
        assert (answer.status_code, answer.json()) == (status, document)
        assert answer.headers["retry-after"] == "7"
        assert "set-cookie" not in answer.headers


FOREIGN = [
    Answer(status=200, body=[json.dumps(GREETING).encode()]),
    Answer(status=204),
    Answer(status=302, headers={"location": "/session"}),
    Answer(status=400, body=[b'{"code": "input_invalid", "detail": "Another subprotocol."}']),
    Answer(status=403, body=[b"<html>"]),
    Answer(status=404, body=[b'{"code": "not_found", "detail": "Not Found"}']),
    Answer(status=426),
    Answer(status=500),
    Answer(status=502),
    Answer(body=[Close(reset=True)]),
]
VAGUE = FOREIGN[-3:]


@pytest.mark.behaviour("R13")
@pytest.mark.parametrize("others", [True, False], ids=["with others", "alone"])
@pytest.mark.parametrize("answer", FOREIGN, ids=lambda answer: str(answer.status) + "!" * bool(answer.body))
async def test_what_takes_no_upgrade_is_told_apart_and_blocks_where_there_is_no_other_transport(
    answer: Answer, others: bool
) -> None:
    async with ScriptedPeer([answer]) as peer:
        with pytest.raises(Lost) as lost:
            await HTTPTransport([peer.url], Credentials(None), make=Clients(others=others)).connect(1)
        assert len(peer.asked) == 1
        assert peer.asked[0].headers["upgrade"] == "websocket"
        await peer.until(lambda peer: peer.open == 0)
    clear = Trouble.UNSPOKEN if others else Trouble.ADDRESS
    assert lost.value.trouble is (Trouble.FOREIGN if answer in VAGUE else clear)
    assert "websocket=True" in str(lost.value.error)


@pytest.mark.behaviour("R13")
async def test_an_upgrade_to_something_else_is_none_to_a_session() -> None:
    async with SessionPeer(subprotocol=None) as peer:
        with pytest.raises(Lost) as lost:
            await HTTPTransport([peer.url], Credentials(None), make=Clients(others=True)).connect(1)
    assert lost.value.trouble is Trouble.UNSPOKEN


@pytest.mark.parametrize("after", [0.0, RESTART_WITHIN - 1, RESTART_WITHIN + 1])
@pytest.mark.parametrize(("answer", "otherwise"), [(404, Trouble.UNSPOKEN), (502, Trouble.FOREIGN)])
async def test_where_a_session_was_spoken_lately_something_else_is_a_restart(
    answer: int, otherwise: Trouble, after: float
) -> None:
    clients, said = Clients(others=True), list[int]()

    def refuse(_request: Request) -> Response | None:
        return Response(said[0], "No", Headers({"content-length": "0"})) if said else None

    async with SessionPeer(greet, refuse=refuse) as peer:
        transport = HTTPTransport([peer.url], Credentials(None), make=clients)
        connection = await transport.connect(1)
        await asyncio.sleep(3600)
        await connection.close()
        said.append(answer)
        await asyncio.sleep(after)
        with pytest.raises(Lost) as lost:
            await transport.connect(2)
    assert lost.value.trouble is (Trouble.BUSY if after < RESTART_WITHIN else otherwise)


async def test_while_a_session_is_spoken_another_that_is_refused_is_a_restart_however_long_ago_the_last_frame_was() -> (
    None
):
    said = list[int]()

    def refuse(_request: Request) -> Response | None:
        return Response(404, "No", Headers({"content-length": "0"})) if said else None

    async with SessionPeer(echo, refuse=refuse) as peer, client(peer) as one:
        await one.get("runs")
        said.append(1)
        await asyncio.sleep(3600)
        with pytest.raises(Lost) as lost:
            await one.get("runs", headers={"authorization": "renewed"})
    assert lost.value.trouble is Trouble.BUSY


async def test_credentials_that_have_just_run_out_are_asked_for_once_more() -> None:
    given = iter(["old", "new"])

    def refuse(request: Request) -> Response | None:
        is_old = request.headers["authorization"] == "old"
        return Response(401, "Who", Headers({"content-length": "0"})) if is_old else None

    async with SessionPeer(greet, refuse=refuse) as peer:
        credentials = Credentials(lambda: {"authorization": next(given, "new")})
        connection = await HTTPTransport([peer.url], credentials, make=Clients(others=True)).connect(1)
        assert connection.greeting.boot_id == "b00t"
        await connection.close()
    assert len(peer.talks) == 1


async def test_where_nobody_is_no_connection_comes_about() -> None:
    with pytest.raises(Lost) as lost:
        await HTTPTransport(["http://127.0.0.1:1"], Credentials(None), make=Clients(others=True)).connect(1)
    assert lost.value.trouble is Trouble.UNREACHABLE


async def test_a_proxy_of_the_environment_is_asked_for_servers_elsewhere_and_not_for_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    async with ScriptedPeer([Answer(status=403)]) as proxy, SessionPeer(greet) as peer:
        monkeypatch.setenv("http_proxy", proxy.url)
        with pytest.raises(Lost) as lost:
            await HTTPTransport(["http://agents.invalid"], Credentials(None), make=Clients(others=True)).connect(1)
        assert lost.value.trouble is Trouble.FOREIGN
        assert [(asked.method, asked.path) for asked in proxy.asked] == [("CONNECT", "agents.invalid:80")]
        connection = await HTTPTransport([peer.url], Credentials(None), make=Clients(others=True)).connect(1)
        await connection.close()
        assert len(proxy.asked) == 1


async def test_a_certificate_is_trusted_as_it_is_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with SessionPeer(greet, ssl=context) as peer:
        with pytest.raises(Lost) as lost, told():
            await HTTPTransport([peer.url], Credentials(None), make=Clients(others=True)).connect(1)
        assert lost.value.trouble is Trouble.CERTIFICATE
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        connection = await HTTPTransport([peer.url], Credentials(None), make=Clients(others=True)).connect(1)
        assert connection.is_direct
        await connection.close()


async def test_nothing_of_what_goes_over_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with SessionPeer(echo) as peer, client(peer) as one:
        await one.get("runs/marker", headers={"authorization": "marker"})
        peer.talks[0].socket.transport.abort()
        await one.get("runs")
    assert [line for line in caplog.records if line.name.startswith(("websockets", "outlast"))] == []
