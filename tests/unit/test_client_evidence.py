"""Witnesses of a node that does not answer: which one is believed, in what, and that none of them can do harm."""

import asyncio
import gzip
import json
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from outlast.client.credentials import Credentials
from outlast.client.evidence import ACKNOWLEDGED_AFTER, MOST, OTHERS_WITHIN, WITHIN, Evidence
from outlast.client.http import direct
from outlast.client.transport import Greeting
from outlast.supervision.phase import Grade
from outlast.supervision.profile import STANDARD
from outlast.testing.peer import Answer, Close, Hold, Raw, ScriptedPeer

# On the virtual clock: it stands still while anything comes in, and sockets are real.
pytestmark = [pytest.mark.anyio, pytest.mark.virtual]
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how a connection stands")

BOOT = "b00t"
DENIED = "denied"
"""Stands among the grades for what speaks against a node."""


@dataclass
class Node:
    """What a client holds of the node that does not answer."""

    address: str = "http://127.0.0.1:1"
    greeting: Greeting = field(default_factory=lambda: Greeting(boot_id=BOOT))
    is_direct: bool = False


def says(*body: object, **headers: str) -> Answer:
    """Return an answer of JSON, or of the bytes given, which ends."""
    steps = [each if isinstance(each, bytes) else json.dumps(each).encode() for each in body]
    return Answer(headers={"content-type": "application/json", "connection": "close", **headers}, body=steps)


def node(**members: Any) -> dict[str, Any]:
    """Return a row of a node's list of nodes."""
    return {"id": BOOT, "live": True, "stalled": False, "loop_lag": 25.0, **members}


def listing(*rows: Any) -> Answer:
    return says({"nodes": [node(id="another", live=False), *rows]})


@asynccontextmanager
async def deaf() -> AsyncIterator[str]:
    """Yield the address of a machine that accepts every connection, and of a process that never looks."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def found(
    suspect: Node, others: Sequence[str] = (), *, credentials: Callable[[], dict[str, str]] | None = None
) -> list[str]:
    """Look for what speaks for a node, and against it."""
    told: list[str] = []
    evidence = Evidence(others, Credentials(credentials), make=direct)
    await evidence.look(suspect, told.append, lambda: told.append(DENIED))
    return told


# ---- the beacon ---------------------------------------------------------------------------------


def lit(peer: ScriptedPeer) -> Node:
    """Return a node whose beacon this peer is."""
    return Node(greeting=Greeting(boot_id=BOOT, beacon=peer.port))


@pytest.mark.behaviour("P14")
async def test_a_beacon_of_the_same_boot_speaks_for_a_node() -> None:
    async with ScriptedPeer([says({"boot_id": BOOT, "loop_lag": 31.5})]) as beacon:
        assert await found(lit(beacon)) == [Grade.BEACON]
        assert [(asked.method, asked.path) for asked in beacon.asked] == [("GET", "/")]


async def test_a_beacon_is_told_nothing_of_who_asks() -> None:
    async with ScriptedPeer([says({"boot_id": BOOT, "loop_lag": 25.0})]) as beacon:
        assert await found(lit(beacon), credentials=lambda: {"authorization": "Bearer secret"}) == [Grade.BEACON]
        assert "authorization" not in beacon.asked[0].headers


async def test_a_node_without_a_beacon_is_not_asked_for_one() -> None:
    assert await found(Node()) == []


NONSENSE: dict[str, Answer | Raw] = {
    "no boot": says({"loop_lag": 0.0}),
    "no boot of ours": says({"boot_id": 7}),
    "a list": says([BOOT]),
    "a text": says(BOOT),
    "no JSON": says(b"b00t"),
    "no text": says(b"\xff\xfe\x00"),
    "deep": says(b"[" * 100_000),
    "nothing": says(),
    "an error": Answer(status=503, headers={"connection": "close"}, body=[b'{"code": "draining"}']),
    "elsewhere": Answer(status=307, headers={"location": "http://127.0.0.1:1/", "connection": "close"}, body=[b"{}"]),
    "no HTTP": Raw(steps=[b"SSH-2.0-OpenSSH_9.6\r\n"]),
    "cut short": Answer(body=[b'{"boot_id"', Close()]),
    "reset": Answer(body=[b'{"boot_id"', Close(reset=True)]),
    "nothing at all": Raw(steps=[Close(reset=True)]),
    "too large": says(b" " * MOST, {"boot_id": BOOT, "loop_lag": 25.0, "nodes": [node()]}),
    "large when unpacked": says(
        gzip.compress(b" " * 50_000_000 + b'{"boot_id": "b00t", "loop_lag": 25.0}'), **{"content-encoding": "gzip"}
    ),
}
"""Answers of something that is no witness."""


@pytest.mark.parametrize("answer", NONSENSE.values(), ids=NONSENSE)
async def test_nonsense_is_no_evidence_and_never_raises(answer: Answer | Raw) -> None:
    async with ScriptedPeer([answer]) as peer:
        assert await found(lit(peer), [peer.url]) == []


@pytest.mark.behaviour("R7")
async def test_a_beacon_of_another_boot_speaks_against_a_node_unless_something_speaks_for_it() -> None:
    async with ScriptedPeer(lambda _: says({"boot_id": "an0ther"})) as beacon:
        assert await found(lit(beacon)) == [DENIED]
        for rows, told in (([node()], [Grade.WITNESS]), ([node(live=False)], [DENIED] * 2), ([], [DENIED])):
            async with ScriptedPeer([listing(*rows)]) as other:
                assert await found(lit(beacon), [other.url]) == told


@linux
async def test_a_kernel_that_acknowledges_outweighs_a_beacon_of_another_boot() -> None:
    async with ScriptedPeer([says({"boot_id": "an0ther"})]) as beacon, deaf() as address:
        suspect = Node(address, Greeting(boot_id=BOOT, beacon=beacon.port), is_direct=True)
        assert await found(suspect) == [Grade.KERNEL]


@pytest.mark.behaviour("P14", "P16")
@pytest.mark.parametrize("lag", [0.0, 0.999, None, "31", {}], ids=str)
async def test_what_is_not_late_is_not_busy_and_nothing_speaks_for_a_connection_that_is_dead(lag: Any) -> None:
    async with (
        ScriptedPeer([says({"boot_id": BOOT, "loop_lag": lag})]) as beacon,
        ScriptedPeer([listing(node(loop_lag=lag))]) as other,
    ):
        assert await found(lit(beacon), [other.url]) == []


@pytest.mark.behaviour("P14")
async def test_a_loop_that_is_a_second_late_may_be_busy() -> None:
    async with (
        ScriptedPeer([says({"boot_id": BOOT, "loop_lag": 1.0})]) as beacon,
        ScriptedPeer([listing(node(loop_lag=1))]) as other,
    ):
        assert sorted(await found(lit(beacon), [other.url])) == [Grade.BEACON, Grade.WITNESS]


@pytest.mark.behaviour("P14")
async def test_nobody_at_the_beacons_port_is_no_evidence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert await found(Node(greeting=Greeting(boot_id=BOOT, beacon=port)), [f"http://127.0.0.1:{port}"]) == []


async def test_a_witness_that_says_nothing_is_given_up_before_the_triage_ends() -> None:
    loop = asyncio.get_running_loop()
    for steps in ([Hold()], [b'{"boot_id": "b00t"', Hold()]):
        async with ScriptedPeer([Answer(headers={"content-type": "application/json"}, body=steps)]) as peer:
            began = loop.time()
            assert await found(lit(peer), [peer.url]) == []
            assert loop.time() - began == WITHIN < (STANDARD.triage or 0)


# ---- other nodes --------------------------------------------------------------------------------


@pytest.mark.behaviour("P14", "R7")
@pytest.mark.parametrize(
    ("row", "told"),
    [
        (node(), [Grade.WITNESS]),
        (node(live=False), [DENIED]),
        (node(stalled=True), [DENIED]),
        (node(live="yes"), []),
        (node(id="someone"), []),
        ({"id": BOOT}, []),
        ("b00t", []),
    ],
    ids=["live", "lapsed", "stalled", "nonsense", "unknown", "bare", "a text"],
)
async def test_another_node_speaks_for_one_whose_lease_is_renewed_and_against_others(row: Any, told: list[str]) -> None:
    async with ScriptedPeer([listing(row)]) as other:
        assert await found(Node(), [other.url]) == told
        assert [asked.path for asked in other.asked] == ["/nodes"]


@pytest.mark.parametrize("said", [{"nodes": None}, {"nodes": {}}, {"nodes": 7}, {}], ids=str)
async def test_a_list_that_is_none_knows_nobody(said: Any) -> None:
    async with ScriptedPeer([says(said)]) as other:
        assert await found(Node(), [other.url]) == []


async def test_another_node_is_asked_with_our_credentials_and_the_next_one_where_it_refuses_or_is_silent() -> None:
    refusal = Answer(status=403, headers={"connection": "close"}, body=[b'{"code": "forbidden"}'])
    async with (
        ScriptedPeer([refusal]) as refusing,
        ScriptedPeer([Answer(body=[Hold()])]) as silent,
        ScriptedPeer([listing(node())]) as knowing,
    ):
        others = [refusing.url, silent.url, knowing.url]
        assert await found(Node(), others, credentials=lambda: {"authorization": "Bearer ours"}) == [Grade.WITNESS]
        assert [peer.asked[0].headers["authorization"] for peer in (refusing, silent, knowing)] == ["Bearer ours"] * 3


async def test_credentials_that_cannot_be_had_do_not_keep_a_node_from_being_asked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> dict[str, str]:
        raise RuntimeError("of the application's own, with a secret")

    async with ScriptedPeer([listing(node())]) as other:
        assert await found(Node(), [other.url], credentials=fail) == [Grade.WITNESS]
    assert [record.getMessage() for record in caplog.records] == [
        "other nodes are asked without credentials (RuntimeError)"
    ]


@pytest.mark.behaviour("R7")
async def test_a_lapsed_lease_is_told_at_once_whatever_a_beacon_says_or_keeps_to_itself() -> None:
    loop = asyncio.get_running_loop()
    for said in (says({"boot_id": BOOT, "loop_lag": 25.0}), Answer(body=[Hold()])):
        async with ScriptedPeer([said]) as beacon, ScriptedPeer([listing(node(live=False))]) as other:
            denied: list[float] = []
            evidence = Evidence([other.url], Credentials(None), make=direct)
            await evidence.look(lit(beacon), lambda _: None, lambda denied=denied: denied.append(loop.time()))
            assert len(denied) == 1
            assert denied[0] == pytest.approx(loop.time() - (0.0 if said.body != [Hold()] else WITHIN))


async def test_a_beacon_and_another_node_are_heard_both() -> None:
    async with (
        ScriptedPeer([says({"boot_id": BOOT, "loop_lag": 25.0})]) as beacon,
        ScriptedPeer([listing(node())]) as other,
    ):
        assert sorted(await found(lit(beacon), [other.url])) == [Grade.BEACON, Grade.WITNESS]


# ---- the kernel ---------------------------------------------------------------------------------


@linux
@pytest.mark.behaviour("P14")
async def test_a_kernel_that_acknowledges_speaks_for_a_node_where_nothing_stands_between() -> None:
    async with deaf() as address:
        assert await found(Node(address, is_direct=True)) == [Grade.KERNEL]
        assert await found(Node(address, is_direct=False)) == []


@linux
@pytest.mark.behaviour("P16")
async def test_a_server_that_answers_on_another_connection_is_not_busy() -> None:
    async with ScriptedPeer([says({"boot_id": BOOT})]) as peer:
        assert await found(Node(peer.url, is_direct=True)) == []


@linux
@pytest.mark.behaviour("P14")
async def test_another_nodes_word_outweighs_the_kernel() -> None:
    """A stopped process has its bytes acknowledged for ever."""
    async with deaf() as address:
        for rows, grades in (([node(live=False)], [DENIED]), ([node()], [Grade.WITNESS]), ([], [Grade.KERNEL])):
            async with ScriptedPeer([listing(*rows)]) as other:
                assert await found(Node(address, is_direct=True), [other.url]) == grades


@linux
async def test_a_kernel_is_heard_where_other_nodes_are_silent_and_in_time() -> None:
    assert OTHERS_WITHIN + ACKNOWLEDGED_AFTER < WITHIN
    async with deaf() as address, ScriptedPeer([Answer(body=[Hold()])]) as silent:
        assert await found(Node(address, is_direct=True), [silent.url]) == [Grade.KERNEL]


async def test_a_machine_that_refuses_or_answers_with_nonsense_harms_nobody() -> None:
    assert await found(Node("http://127.0.0.1:1", is_direct=True)) == []
    assert await found(Node("http://nowhere.invalid", is_direct=True)) == []
    async with ScriptedPeer([Raw(steps=[Close(reset=True)])]) as peer:
        assert await found(Node(peer.url, is_direct=True)) == []


@linux
async def test_the_kernel_is_asked_past_every_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a proxy acknowledges says nothing of the node behind it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, address)
        assert await found(Node("http://node.invalid", is_direct=True)) == []


# ---- nothing is left behind ---------------------------------------------------------------------


async def test_looking_that_is_given_up_leaves_nothing_behind() -> None:
    async with ScriptedPeer([Answer(body=[Hold()])]) as silent, deaf() as address:
        suspect = Node(address, Greeting(boot_id=BOOT, beacon=silent.port), is_direct=True)
        for others, waits_for in ([silent.url], 2), ([], 1):
            looking = asyncio.create_task(found(suspect, others))
            await silent.until(lambda peer, waits_for=waits_for: peer.open == waits_for)
            looking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await looking
            await silent.until(lambda peer: peer.open == 0)
