"""Looks for what speaks for a node that does not answer, or against it: its beacon, another node, its kernel.

Rules:
1. Each witness is trusted for what it can know. A beacon speaks for the process whose boot id it tells, whatever stands
   between. Another node speaks for a lease that is being renewed. A kernel speaks for the machine at the other end of
   the connection, so only where nothing stands between us and the server.
2. A lease that has lapsed, by another node's word, speaks against the node, whatever speaks for it: its runs go on
   elsewhere. A stopped process still has its bytes acknowledged, and a beacon with a process of its own is still lit.
3. A beacon that tells another boot speaks against the node where nothing speaks for it: what balances load may have
   sent the question to another one's.
4. None of them speaks for a server that is not busy: one whose event loop is not late, or which answers on another
   connection, would have answered on this one, and it is this one that is dead.
5. Looking takes less than a triage, and never fails: no evidence is none.
"""

import asyncio
import json
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Final, Protocol, TypeAlias, cast

import httpx2

from outlast.client import kernel
from outlast.client.credentials import Credentials, Headers
from outlast.client.discretion import discreet
from outlast.client.transport import Greeting
from outlast.log.event import JSON
from outlast.supervision.phase import Grade

WITHIN: Final = 4.0
"""Seconds for all of it: one less than the triage that waits for it."""
OTHERS_WITHIN: Final = 2.5
"""Seconds for other nodes, so that there is time for the kernel where they say nothing."""
BUSY_FROM: Final = 1.0
"""Seconds by which an event loop is late that keeps a server from answering: one less late answers a probe in time."""
ACKNOWLEDGED_AFTER: Final = 1.0
"""Seconds in which bytes are acknowledged on every line that carries a chat."""
MOST: Final = 256 * 1024
"""Bytes of a witness' answer that are looked at: a thousand nodes."""
NOTHING: Final = (httpx2.RequestError, httpx2.InvalidURL, ssl.SSLError, ValueError, RecursionError)
"""What a witness that is silent or talks nonsense is met with."""

log = logging.getLogger("outlast.client")

Tell: TypeAlias = Callable[[Grade], None]
Deny: TypeAlias = Callable[[], None]


class Suspect(Protocol):
    """The node in question: `address` is where it is asked, `greeting` what it said of itself."""

    address: str
    greeting: Greeting
    is_direct: bool


class Evidence:
    """Looks on behalf of one client; `others` are the addresses of further nodes of the same server."""

    def __init__(
        self, others: Sequence[str], credentials: Credentials, *, make: Callable[[], httpx2.AsyncClient]
    ) -> None:
        self._others = others
        self._credentials = credentials
        self._make = make

    async def look(self, suspect: Suspect, tell: Tell, deny: Deny) -> None:
        """Tell each grade of evidence that is found, deny what something speaks against; return when that is all."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHIN), _plain() as client:
                async with asyncio.TaskGroup() as looking:
                    lit = looking.create_task(_ask_beacon(client, suspect, tell), name="ask the beacon")
                    spoken = looking.create_task(self._ask_others(client, suspect, tell, deny), name="ask others")
                if lit.result() is False and not spoken.result():
                    deny()

    async def _ask_others(self, plain: httpx2.AsyncClient, suspect: Suspect, tell: Tell, deny: Deny) -> bool:
        """Say whether other nodes, or where these know nothing the kernel, speak for a node."""
        told = await self._told_of(suspect.greeting.boot_id) if self._others else set[bool | None]()
        if True in told:
            tell(Grade.WITNESS)
            return True
        if False in told:
            deny()
            return False
        return suspect.is_direct and await _ask_kernel(plain, suspect.address, tell)

    async def _told_of(self, boot_id: str) -> set[bool | None]:
        async with self._make() as client, asyncio.TaskGroup() as asking:
            asked = [
                asking.create_task(self._ask_other(client, other, boot_id), name="ask another node")
                for other in self._others
            ]
        return {other.result() for other in asked}

    async def _ask_other(self, client: httpx2.AsyncClient, other: str, boot_id: str) -> bool | None:
        """Return whether a node lives, by another one's word; None where that says nothing of it."""
        with suppress(TimeoutError, *NOTHING):
            async with asyncio.timeout(OTHERS_WITHIN):
                said = await _answer(client, httpx2.URL(f"{other}/nodes"), await self._headers())
                return _lives(said, boot_id)
        return None

    async def _headers(self) -> Headers:
        try:
            return await self._credentials.headers()
        except Exception as error:  # noqa: BLE001 - a provider may raise anything; a node may answer without
            log.warning("other nodes are asked without credentials (%s)", type(error).__name__)
            return {}


def _plain() -> httpx2.AsyncClient:
    """Return a client that goes past every proxy, for what says nothing secret and believes nothing by its certificate.

    Loading certificates would block the loop for longer than everything else together.
    """
    return httpx2.AsyncClient(trust_env=False, timeout=None, verify=False)


async def _ask_beacon(client: httpx2.AsyncClient, suspect: Suspect, tell: Tell) -> bool | None:
    """Say whether a node's beacon tells of a busy node, False where it tells another boot; None of anything else."""
    if suspect.greeting.beacon is None:
        return None
    host = httpx2.URL(suspect.address).host
    beacon = httpx2.URL(scheme="http", host=host, port=suspect.greeting.beacon, path="/")
    said: Mapping[str, JSON] = {}
    with suppress(*NOTHING):
        said = await _answer(client, beacon, {})
    boot = said.get("boot_id")
    if boot != suspect.greeting.boot_id:
        return False if isinstance(boot, str) else None
    if _is_late(said):
        tell(Grade.BEACON)
        return True
    return None


async def _ask_kernel(client: httpx2.AsyncClient, address: str, tell: Tell) -> bool:
    """Send a request over a connection of its own, and say whether it is acknowledged and not answered."""
    handshake = kernel.Handshake()
    async with asyncio.TaskGroup() as asking:
        request = client.get(f"{address}/session", extensions={"trace": handshake}, follow_redirects=False)
        sent = asking.create_task(_let(request), name="ask to be acknowledged")
        await asyncio.wait([sent], timeout=ACKNOWLEDGED_AFTER)
        after = None if sent.done() else kernel.read(handshake.socket)
        speaks = kernel.acknowledges(handshake.before, after, is_direct=True)
        if speaks:
            tell(Grade.KERNEL)
        sent.cancel()
    return speaks


async def _let(asking: Awaitable[object]) -> None:
    """Let a witness be silent, or talk nonsense."""
    with suppress(*NOTHING), discreet():
        await asking


async def _answer(client: httpx2.AsyncClient, url: httpx2.URL, headers: Headers) -> Mapping[str, JSON]:
    """Return the JSON object that is answered. Raises what is in `NOTHING`."""
    plain = {**headers, "accept-encoding": "identity"}  # so that few bytes cannot become many
    request = client.build_request("GET", url, headers=plain, timeout=WITHIN)
    with discreet():
        response = await client.send(request, stream=True, follow_redirects=False)
    async with aclosing(response):
        body = b""
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MOST:
                raise ValueError("a witness says too much")
    said = cast("JSON", json.loads(body))
    if not isinstance(said, dict):
        raise ValueError("a witness says something else")  # noqa: TRY004 - it is a value that came from outside
    return said


def _lives(said: Mapping[str, JSON], boot_id: str) -> bool | None:
    """Return whether a node is busy and its lease renewed, by another node's list, False where it has lapsed.

    None where the list does not say it, or the node is not busy.
    """
    nodes = said.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        if isinstance(node, dict) and node.get("id") == boot_id:
            live, stalled = node.get("live"), node.get("stalled")
            if live is False or (live is True and stalled is True):
                return False
            return True if live is True and _is_late(node) else None
    return None


def _is_late(said: Mapping[str, JSON]) -> bool:
    """Say whether a node's event loop is as late as keeps it from answering."""
    lag = said.get("loop_lag")
    return isinstance(lag, int | float) and lag >= BUSY_FROM
