"""A client is put together by `connect`, and what cannot work is refused before anything is asked."""

import subprocess
import sys
from typing import Any

import httpx2
import pytest

from outlast import Client, connect, follow
from outlast.client.received import ReceivedEvent
from outlast.errors import InputInvalid
from outlast.supervision.phase import Phase
from outlast.supervision.profile import PROFILES
from outlast.testing.peer import Answer, ScriptedPeer
from tests.answers import GREETING

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]

LOG = Answer(body=[b'event: text\nid: 1\ndata: "a"\n\nevent: run.completed\nid: 2\ndata: {}\n\n'])


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://here", []])
async def test_an_impossible_url_is_refused(url: str | list[str]) -> None:
    with pytest.raises(InputInvalid):
        async with connect(url):
            pass


@pytest.mark.parametrize("profile", [*PROFILES, *PROFILES.values()])
async def test_a_profile_is_a_name_or_numbers(profile: str) -> None:
    async with ScriptedPeer([GREETING]) as peer, connect(peer.url, profile=profile) as client:
        await anext(aiter(client.state))
    with pytest.raises(InputInvalid, match="standard, desktop, mobile"):
        async with connect("http://here", profile="patient"):
            pass


@pytest.mark.behaviour("R13")
async def test_a_websocket_without_its_package_is_refused_with_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "websockets.asyncio.client", None)
    for module in ("websocket", "session"):
        monkeypatch.delitem(sys.modules, f"outlast.client.{module}", raising=False)
    with pytest.raises(InputInvalid, match=r"pip install 'outlast\[websocket\]'"):
        async with connect("http://here", transports=["sse", "websocket"]):
            pass


@pytest.mark.parametrize("transports", ["sse", [], ["web-socket"]])
async def test_what_is_no_list_of_transports_is_refused_with_those_there_are(transports: Any) -> None:
    with pytest.raises(InputInvalid, match="a list of websocket, sse, long-poll"):
        async with connect("http://here", transports=transports):
            pass


async def nothing(*_asked: Any) -> None:
    """Be an application that answers nothing."""


@pytest.mark.behaviour("R13")
async def test_neither_a_client_of_yours_nor_an_application_of_this_process_has_a_websocket() -> None:
    with pytest.raises(InputInvalid, match="application of this process has no WebSocket"):
        async with connect(nothing, transports=["websocket"]):
            pass
    async with httpx2.AsyncClient() as yours:
        with pytest.raises(InputInvalid, match="client of yours has no WebSocket"):
            async with connect("http://here", client=yours, transports=["websocket", "sse"]):
                pass


def test_what_websockets_need_is_imported_for_them_alone() -> None:
    code = "import sys, outlast, outlast.client.connect; print('websockets' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


async def test_an_error_in_the_block_closes_the_client() -> None:
    async with ScriptedPeer([GREETING]) as peer:
        clients: list[Client] = []

        async def fail() -> None:
            async with connect(peer.url) as client:
                clients.append(client)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await fail()
        assert clients[0].state.record.link.phase is Phase.CLOSED
        await peer.until(lambda peer: peer.open == 0)


async def test_following_one_run_is_a_client_of_its_own() -> None:
    async with ScriptedPeer([GREETING, LOG]) as peer:
        received = [each.data async for each in follow(peer.url, "r1") if isinstance(each, ReceivedEvent)]
        assert received == ["a", {}]
        assert [each.path for each in peer.asked] == ["/session", "/runs/r1/events"]
        await peer.until(lambda peer: peer.open == 0)
