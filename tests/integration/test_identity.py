"""Whose server it is: an address that leads to another one, credentials that end, and rights that are taken away."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import HTTPConnection

from outlast import Forbidden, ReceivedEvent, RunNotFound, Unauthenticated, WrongServer, connect
from outlast.client.asgi import StreamingTransport
from outlast.client.client import Client
from outlast.run import Run
from outlast.server.access import EXPIRY_GRACE, Access
from outlast.server.identity import Identity
from outlast.supervision.phase import Phase, Trouble
from outlast.supervision.profile import STANDARD
from outlast.supervision.record import sentence
from outlast.testing.proxy import FaultProxy
from tests.integration.programs import Program, house
from tests.stage import BASE, Stage, site, staged

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

TOLD = {"worker": "paced", "input": 40, "id": "r1"}


def port(server: Program) -> int:
    return int(server.url.rpartition(":")[2])


async def when(client: Client, phase: Phase) -> None:
    """Wait until the link is in this phase."""
    while client.state.record.link.phase is not phase:
        await client.state.changed()


# ---- another server ------------------------------------------------------------------------------


@pytest.mark.behaviour("M2")
@pytest.mark.parametrize("named", [False, True], ids=["the first one", "the one that was named"])
async def test_where_an_address_leads_to_another_server_nothing_of_its_log_is_taken(
    tmp_path: Path, named: bool
) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    async with (
        house(tmp_path / "ours") as ours,
        house(tmp_path / "theirs") as theirs,
        httpx2.AsyncClient() as asking,
    ):
        meant, other = await ours.serve(), await theirs.serve()
        for server in (meant, other):  # the same run at both, so that places could be taken for each other
            (await asking.post(f"{server.url}/runs", json=TOLD)).raise_for_status()
        store = (await asking.get(f"{meant.url}/session")).json()["store"]
        async with (
            FaultProxy("127.0.0.1", port(other if named else meant)) as proxy,
            connect(proxy.url, store=store if named else None) as client,
        ):
            taken: list[ReceivedEvent] = []

            async def follow() -> None:
                async for each in client.follow("r1"):
                    assert isinstance(each, ReceivedEvent)
                    taken.append(each)
                    if len(taken) == 5 and not named:
                        proxy.retarget(port(other))
                        proxy.cut(reset=True)

            following = asyncio.create_task(follow())
            await when(client, Phase.BLOCKED)
            link = client.state.record.link
            assert (link.trouble, sentence(link, now=0.0)) == (
                Trouble.CONFIGURATION,
                "another server answers at this address",
            )
            with pytest.raises(WrongServer):
                await client.status("r1")
            proxy.retarget(port(meant))
            client.wakeup("user")
            await following
            log = (await asking.get(f"{meant.url}/runs/r1/events", params={"limit": 100})).json()["events"]
            assert [str(each.cursor) for each in taken] == [each["cursor"] for each in log]


# ---- credentials ---------------------------------------------------------------------------------


class Gate:
    """What an application knows of those who ask: tokens with their ends, and who may not come in any more."""

    def __init__(self) -> None:
        self.ends: dict[str, float | None] = {"first": None}
        self.revoked = False
        self.asked = 0

    async def authenticate(self, connection: HTTPConnection) -> Identity | None:
        self.asked += 1
        if self.revoked:
            raise Forbidden("This person has left.")
        token = connection.headers.get("authorization", "")
        return Identity(owner="ann", expires_at=self.ends[token]) if token in self.ends else None


@asynccontextmanager
async def watched(gate: Gate, headers: Any) -> AsyncIterator[tuple[Stage, Run, Client]]:
    """Yield a run of ann's that somebody drives, and a client of a server with such a gate."""
    async with staged() as stage:
        run = await stage.active(owner="ann")
        access = Access(
            report=stage.facts.append, authenticate=gate.authenticate, clock=asyncio.get_running_loop().time
        )
        async with site(stage, access=access) as here:
            carrier = httpx2.AsyncClient(transport=StreamingTransport(here.app), base_url=BASE)
            async with connect(BASE, headers=headers, client=carrier, jitter=lambda: 0.5) as client:
                yield stage, run, client


class Reading:
    """A follow in a task of its own, and what came of it."""

    def __init__(self, client: Client) -> None:
        self.taken: list[int] = []
        self._came = asyncio.Event()
        self.task = asyncio.create_task(self._read(client))

    async def _read(self, client: Client) -> None:
        async for each in client.follow("r1"):
            self.taken.append(each.cursor.seq)
            self._came.set()

    async def until(self, seq: int) -> None:
        """Wait for this event."""
        while not self.taken or self.taken[-1] < seq:
            self._came.clear()
            await self._came.wait()


@pytest.mark.virtual
@pytest.mark.behaviour("N3")
async def test_credentials_that_end_do_not_close_a_link_that_was_made_with_them() -> None:
    gate = Gate()
    async with watched(gate, {"authorization": "first"}) as (stage, run, client):
        reading = Reading(client)
        await stage.say(run, "one")
        await reading.until(1)
        del gate.ends["first"]  # whoever comes anew is refused from now on
        with pytest.raises(Unauthenticated):
            await client.status("r1")
        client.wakeup("visible")
        for number in range(2, 8):
            await asyncio.sleep(20)
            await stage.say(run, "more")
            await reading.until(number)
        link = client.state.record.link
        assert (link.phase, link.generation, link.trouble) == (Phase.LIVE, 1, None)
        reading.task.cancel()


@pytest.mark.virtual
@pytest.mark.behaviour("N3")
async def test_a_stream_whose_identity_ends_goes_on_with_a_new_token_over_the_same_link() -> None:
    gate, ends_at = Gate(), asyncio.get_running_loop().time() + 60
    gate.ends = {"first": ends_at, "second": None}

    def token() -> dict[str, str]:
        is_new = asyncio.get_running_loop().time() >= ends_at
        return {"authorization": "second" if is_new else "first"}

    async with watched(gate, token) as (stage, run, client):
        reading = Reading(client)
        for number in range(1, 12):
            await stage.say(run, "more")
            await reading.until(number)
            await asyncio.sleep((60 + EXPIRY_GRACE) / 9)
        link = client.state.record.link
        assert (link.phase, link.generation, link.trouble) == (Phase.LIVE, 1, None)
        assert reading.taken == list(range(1, 12))
        reading.task.cancel()


@pytest.mark.virtual
@pytest.mark.behaviour("N4")
async def test_an_identity_that_lost_its_rights_is_tried_once_and_no_more_until_there_is_another() -> None:
    gate = Gate()
    async with watched(gate, {"authorization": "first"}) as (stage, run, client):
        reading = Reading(client)
        await stage.say(run, "one")
        await reading.until(1)
        gate.revoked, gate.asked = True, 0
        client.wakeup("user")
        await when(client, Phase.BLOCKED)
        assert client.state.record.link.trouble is Trouble.REVOKED
        await asyncio.sleep(3600)
        assert gate.asked == 1
        gate.revoked = False
        client.wakeup("credentials-changed")
        await stage.say(run, "two")
        await reading.until(2)
        reading.task.cancel()


@pytest.mark.virtual
@pytest.mark.behaviour("R8")
@pytest.mark.parametrize("owner", ["bob", None], ids=["another owner's", "nobody's"])
async def test_a_run_that_one_may_not_see_is_refused_at_once_like_one_that_never_was(owner: str | None) -> None:
    async with watched(Gate(), {"authorization": "first"}) as (stage, _, client):
        await stage.start("r2", owner="bob")
        with pytest.raises(RunNotFound):
            await anext(client.follow("r2", owner=owner))
        assert asyncio.get_running_loop().time() < 1.0
        assert client.state.record.link.phase is Phase.LIVE


@pytest.mark.virtual
@pytest.mark.behaviour("N4")
async def test_a_refresh_that_fails_is_the_failure_of_the_call_that_needed_it_and_of_nothing_else() -> None:
    gate, failing, asked = Gate(), False, 0

    def provider() -> dict[str, str]:
        nonlocal asked
        asked += 1
        if failing:
            raise LookupError("the identity provider is away")
        return {"authorization": "first"}

    async with watched(gate, provider) as (stage, run, client):
        reading = Reading(client)
        await stage.say(run, "one")
        await reading.until(1)
        failing = True
        with pytest.raises(LookupError):
            await client.status("r1")
        for number in range(2, 6):
            await asyncio.sleep(20)
            await stage.say(run, "more")
            await reading.until(number)
        link = client.state.record.link
        assert (link.phase, link.generation) == (Phase.LIVE, 1)
        failing = False
        assert (await client.status("r1"))["id"] == "r1"
        reading.task.cancel()


# ---- a name that does not resolve ----------------------------------------------------------------


@pytest.mark.behaviour("K8")
async def test_a_name_that_is_never_resolved_is_cut_by_the_same_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve, over, asked = socket.getaddrinfo, threading.Event(), list[object]()

    def hang(host: Any, *others: Any, **options: Any) -> Any:
        if host not in {"server.test", b"server.test"}:
            return resolve(host, *others, **options)
        asked.append(host)
        over.wait()
        raise socket.gaierror("nobody knows")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    brisk = replace(STANDARD, establishment=0.2, ladder=(0.01,))
    try:
        async with connect("http://server.test", profile=brisk, hints=False) as client:
            while len(asked) < 3:  # each attempt is cut, and another one follows
                await client.state.changed()
            assert client.state.record.link.trouble is Trouble.SILENT
    finally:
        over.set()
