"""What dies here dies for real: server processes over one file, killed, stopped and blocked in the middle of runs."""

import asyncio
import math
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx2
import pytest

from outlast.lineage import Kind
from outlast.run import Cause
from tests.integration.programs import House, Program, house
from tests.integration.readers import agree, audited, log, numbers, start, status, until, whole

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[House]:
    async with house(tmp_path) as built:
        yield built


@pytest.mark.behaviour("O3", "B3", "F5")
@pytest.mark.fault("X1")
async def test_of_two_servers_on_one_file_the_other_takes_over_and_its_reader_misses_nothing(servers: House) -> None:
    one, other = await servers.serve(), await servers.serve()
    run = await start(one, "paced", 200)
    begun = await until(one, run, seq=20)
    driver = numbers(begun)[0]["pid"]
    dead, alive = (one, other) if driver == one.process.pid else (other, one)
    reading = asyncio.create_task(whole(alive, run))
    await dead.kill()
    received = await reading
    stored = await log(alive, run)
    agree(received, stored)
    assert [event["type"] for event in stored].count("run.restarted") == 1
    document = await status(alive, run)
    assert (document["status"], document["budget"]["takeovers"]["used"]) == ("completed", 1)
    assert document["budget"]["calls"]["used"] == 2
    first, second = await audited(alive, servers.folder, run)
    assert [first.kind, second.kind, second.cause, second.calls] == [Kind.CLAIM, Kind.TAKEOVER, Cause.CRASH, 1]
    assert first.node != second.node


@pytest.mark.behaviour("A2", "O3")
async def test_a_start_that_was_answered_survives_kill_9_and_goes_on_in_the_next_process(servers: House) -> None:
    first = await servers.serve()
    run = await start(first, "paced", 5)
    await first.kill()
    second = await servers.serve()
    received = await whole(second, run)
    agree(received, await log(second, run))
    assert received[-1].type == "run.completed"


async def renewed(server: Program, runs: Sequence[str]) -> None:
    """Wait until each run has a lease, and later more left of it than before; the test's limit bounds it."""
    before, waiting = dict.fromkeys(runs, math.inf), set(runs)
    async with httpx2.AsyncClient() as client:
        while waiting:
            for run in tuple(waiting):
                left = (await client.get(f"{server.url}/runs/{run}")).json()["lease_left"]
                if left is not None and left > before[run]:
                    waiting.remove(run)
                before[run] = math.inf if left is None else left


@pytest.mark.behaviour("O1", "O3", "A1")
@pytest.mark.case(105)
async def test_however_a_run_was_started_or_taken_over_it_is_leased_renewed_and_goes_on_after_a_kill(
    servers: House,
) -> None:
    server = await servers.serve()
    body = {"worker": "patient", "input": 1}
    async with httpx2.AsyncClient() as client:
        for id in ("posted", "repeated", "repeated"):
            await client.post(f"{server.url}/runs", json={**body, "id": id})
        accept = {"accept": "text/event-stream"}
        async with client.stream("POST", f"{server.url}/runs", json={**body, "id": "streamed"}, headers=accept):
            await client.post(f"{server.url}/runs", json={"worker": "parent", "input": "child"})
            await until(server, "streamed", seq=2)
    runs = ("posted", "repeated", "streamed", "child")
    for takeovers in range(2):
        for run in runs:
            await until(server, run, seq=2 + 2 * takeovers)
        await renewed(server, runs)
        await server.kill()
        server = await servers.serve()
    for run in runs:
        received = await whole(server, run)
        assert received[-1].data == {"result": 3}
        assert [each.data for each in received if each.type == "text"] == ["here"] * 3
        lineage = await audited(server, servers.folder, run)
        assert [entry.kind for entry in lineage] == [Kind.CLAIM, Kind.TAKEOVER, Kind.TAKEOVER]
        assert [entry.calls for entry in lineage] == [0, 1, 2]


@pytest.mark.behaviour("B6", "B8", "O3")
@pytest.mark.case(79, 81, 115)
async def test_a_run_that_takes_its_process_down_every_time_ends_after_six_calls(servers: House) -> None:
    server = await servers.serve()
    run = await start(server, "mortal")
    for _ in range(6):
        await server.end()
        server = await servers.serve()
    received = await whole(server, run)
    stored = await log(server, run)
    agree(received, stored)
    assert [event["data"] for event in stored].count("last words") == 6
    document = await status(server, run)
    assert document["budget"]["calls"]["used"] == 6
    assert (document["outcome"]["code"], document["outcome"]["limit"]) == ("recovery_exhausted", "window")
    assert document["outcome"]["causes"] == ["crash"] * 6
    lineage = await audited(server, servers.folder, run)
    assert [entry.kind for entry in lineage] == [Kind.CLAIM, *[Kind.TAKEOVER] * 5, Kind.SETTLE]
    assert [entry.calls for entry in lineage] == [*range(6), 6]
    assert lineage[-1].node is None


@pytest.mark.behaviour("H12", "H10")
@pytest.mark.fault("X2")
async def test_a_stopped_process_that_wakes_after_five_leases_writes_nothing_and_stands_down(servers: House) -> None:
    one = await servers.serve()
    run = await start(one, "endless")
    await until(one, run, seq=10)
    one.signal(signal.SIGSTOP)
    other = await servers.serve()
    received = await until(other, run, seq=300)
    taken_over = next(each.seq for each in received if each.type == "run.restarted")
    one.signal(signal.SIGCONT)
    async with httpx2.AsyncClient(timeout=30) as client:
        await client.get(f"{one.url}/healthz")  # its loop runs again
        await until(other, run, seq=received[-1].seq + 200)
        await client.post(f"{one.url}/runs/{run}/stop", json={})
    await whole(one, run)
    stored = await log(other, run)
    assert {event["epoch"] for event in stored[: taken_over - 1]} == {1}
    assert {event["epoch"] for event in stored[taken_over - 1 :]} == {2}
    assert len(one.facts("ControllerStoodDown")) == 1
    assert one.facts("RunReleased") == one.facts("RunSettled") == []
    # The stop of the other's claim may be told by either: an abort is any node's to deliver.
    told = [*one.facts("AbortDelivered"), *other.facts("AbortDelivered")]
    assert [line.endswith("epoch=2") for line in told] in ([], [True])


@pytest.mark.behaviour("H16")
@pytest.mark.case(37)
async def test_a_worker_that_blocks_the_event_loop_for_three_leases_keeps_its_run(servers: House) -> None:
    one, other = await servers.serve(), await servers.serve()
    run = await start(one, "blocking")
    received = await whole(other, run)
    agree(received, await log(other, run))
    assert [each.data for each in received if each.type == "text"] == ["before", "after"]
    document = await status(other, run)
    assert (document["budget"]["takeovers"]["used"], document["budget"]["calls"]["used"]) == (0, 1)


@pytest.mark.behaviour("S1", "S2", "S3")
@pytest.mark.case(29)
async def test_a_stop_at_one_server_ends_the_run_that_another_drives(servers: House) -> None:
    one = await servers.serve()
    run = await start(one, "endless")
    await until(one, run, seq=10)
    other = await servers.serve()
    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{other.url}/runs/{run}/stop", json={"reason": "enough"})
        assert (answer.status_code, answer.json()["answer"]) == (202, "accepted")
        received = await whole(other, run)
        again = await client.post(f"{one.url}/runs/{run}/stop", json={})
        assert (again.status_code, again.json()["answer"]) == (200, "already")
    stored = await log(one, run)
    agree(received, stored)
    assert (stored[-1]["type"], stored[-1]["data"]) == ("run.cancelled", {"reason": "enough"})
    assert (await status(one, run))["budget"]["takeovers"]["used"] == 0


POINTS = [
    pytest.param("claim:after:1", 1, id="4 claim committed"),
    pytest.param("charge:after:1", 1, id="7 call sent, no answer"),
    pytest.param("append:after:2", 1, id="9 append sent, no answer"),
    pytest.param("settle:before:1", 1, id="11 worker ended, not settled"),
    pytest.param("settle:after:1", 0, id="13 settled, outbox not done"),
]


@pytest.mark.fault("X1")
@pytest.mark.behaviour("W12", "L1")
@pytest.mark.parametrize(("death", "charged"), POINTS)
async def test_killed_at_any_point_the_run_goes_on_and_is_charged_once_at_most(
    servers: House, death: str, charged: int
) -> None:
    doomed = await servers.serve(death=death)
    async with httpx2.AsyncClient() as client:
        await client.post(f"{doomed.url}/runs", json={"worker": "paced", "input": 5, "id": "r1"})
    await doomed.end()
    successor = await servers.serve()
    received = await whole(successor, "r1")
    agree(received, await log(successor, "r1"))
    document = await status(successor, "r1")
    assert (document["status"], document["budget"]["takeovers"]["used"]) == ("completed", charged)
    assert [said["n"] for said in numbers(received) if said["attempt"] == 1 + charged] == [0, 1, 2, 3, 4]
