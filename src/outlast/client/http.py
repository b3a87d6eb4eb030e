"""The default way to connect: server-sent events for streams, a request for everything else.

A link is a pool of connections of its own, established by the node's greeting over an authenticated request. A
replacement has other sockets than what it replaces, and another node where there are several.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import quote, urlencode

import httpx2

from outlast.client import answers, kernel
from outlast.client.credentials import Credentials
from outlast.client.discretion import discreet
from outlast.client.evidence import Evidence
from outlast.client.stream import SSEStream
from outlast.client.transport import Greeting, Lost, Stream
from outlast.errors import Forbidden, InputInvalid, NotAdmitted, OutlastError, Refusal, WireError
from outlast.log.event import JSON, JSON_TYPE, encode_json
from outlast.run import ID_FORM
from outlast.supervision.phase import Grade, Trouble
from outlast.wire.native import LARGEST_PORT, PROTOCOL

NOT_OURS: Final = "Something answers at this address, but not as Outlast does."
"""What is said of an answer that is none of Outlast's."""
LOCAL: Final = ("all://127.0.0.1", "all://localhost", "all://[::1]")
"""Where no proxy is asked: to a proxy, this machine is itself."""
LOCAL_HOSTS: Final = frozenset({"127.0.0.1", "localhost", "::1"})
"""Hosts that are reached without a network."""
UNLIMITED: Final = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
"""Each stream is a connection, and there is no telling how many runs somebody follows."""


def direct() -> httpx2.AsyncClient:
    """Return a client that reaches this machine without a proxy, whatever proxies the environment names."""
    return httpx2.AsyncClient(mounts=dict.fromkeys(LOCAL), limits=UNLIMITED, timeout=None)


def address_of(url: str) -> str:
    """Return where Outlast's routes are, without a slash at its end. Raises `InputInvalid` for what is no such url."""
    try:
        base = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise InputInvalid("This is no url; one looks like http://127.0.0.1:8400.") from error
    if base.scheme not in {"http", "https"} or not base.host:
        raise InputInvalid("A url begins with http:// or https:// and names a host, such as http://127.0.0.1:8400.")
    return url.rstrip("/")


def is_local(url: str) -> bool:
    """Say whether this url is on this machine."""
    return httpx2.URL(url).host in LOCAL_HOSTS


class HTTPTransport:
    """Connects to a server by HTTP; `urls` are its nodes, or what balances their load, each taken in turn.

    `over` is the kind of connection, which decides how streams come; `make` returns what carries everything to a node.
    """

    def __init__(
        self,
        urls: Sequence[str],
        credentials: Credentials,
        *,
        over: "type[HTTPConnection] | None" = None,
        make: Callable[[str], httpx2.AsyncClient] = lambda _address: direct(),
        is_shared: bool = False,
    ) -> None:
        self._over = over or HTTPConnection
        self._addresses = [address_of(url) for url in urls]
        self._credentials = credentials
        self._make = make
        self._is_shared = is_shared

    async def connect(self, attempt: int) -> "HTTPConnection":
        """Return a connection over which the server has said who it is. Raises `Lost`."""
        address = self._addresses[(attempt - 1) % len(self._addresses)]
        others = [other for other in self._addresses if other != address]
        evidence = Evidence(others, self._credentials, make=direct)
        connection = self._over(self._make(address), address, self._credentials, evidence, is_shared=self._is_shared)
        try:
            await connection.greet()
        except BaseException:
            await connection.close()
            raise
        return connection


class HTTPConnection:
    """A pool of connections to one address; a shared client is not ours to close."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        address: str,
        credentials: Credentials,
        evidence: Evidence,
        *,
        is_shared: bool,
    ) -> None:
        self.greeting = Greeting(boot_id="")
        self.address = address
        self.is_direct = False
        self._evidence = evidence
        self._client = client
        self._credentials = credentials
        self._is_shared = is_shared
        self._own: str | None = None
        self._under_way: set[asyncio.Timeout] = set()

    async def greet(self) -> None:
        """Ask who is there. Raises `Lost`."""
        try:
            said = await self.ask("GET", "/session")
        except (Forbidden, NotAdmitted) as refusal:  # somebody who is known, and may not come in any more
            raise Lost(Trouble.REVOKED, error=refusal) from refusal
        except Refusal as refusal:
            raise Lost(Trouble.ADDRESS, error=refusal) from refusal
        except WireError as error:
            raise Lost(Trouble.FOREIGN, error=error) from error
        self.greeting = _greeting(said)
        self.is_direct = self._own is not None and self._own == self.greeting.peer

    async def probe(self) -> str | None:
        """Return once the node has answered, whatever it said; raises `Lost` when there is nobody to answer.

        Nobody is asked for credentials: what becomes of that would say nothing of the node. Returns the store that the
        answer names: what is asked over a pool may come to another server than the one that greeted (M2).
        """
        with answers.told():
            response = await self._send("GET", "/session", None, self._credentials.newest)
            said = await answers.body(response)
        return _store(said) if response.is_success else None

    async def ask(self, method: str, path: str, said: JSON = None) -> JSON:
        """Return the answer to a request, None for one without a body. Raises `Lost`, a `Refusal`, `WireError`."""
        async with self._until_closed():
            with answers.told():
                response = await self._credentials.send(lambda headers: self._send(method, path, said, headers))
                if not response.is_success:
                    raise await answers.verdict(response)
                body = await answers.body(response)
        if response.status_code == HTTPStatus.NO_CONTENT:
            return None
        try:
            return cast("JSON", json.loads(body))
        except (ValueError, RecursionError) as error:
            raise WireError(NOT_OURS) from error

    async def look(self, tell: Callable[[Grade], None], deny: Callable[[], None]) -> None:
        """Tell what speaks for the node, and deny it where something speaks against it. Source: P14, R7."""
        await self._evidence.look(self, tell, deny)

    def stream(self, run: str, *, owner: str | None, types: str | None) -> Stream:
        """Return a stream of a run's log, not yet open. Raises `InputInvalid` for what is no run's id."""
        return SSEStream(*self._streamed(run, owner=owner, types=types))

    async def close(self) -> None:
        """Let go of every connection, and of what is asked over a shared client too. Harmless twice."""
        for ending in self._under_way:
            ending.reschedule(asyncio.get_running_loop().time())
        if not self._is_shared:
            await self._client.aclose()

    @contextlib.asynccontextmanager
    async def _until_closed(self) -> AsyncGenerator[None, None]:
        """End what is under way once the connection is closed. Raises `Lost`."""
        try:
            async with asyncio.timeout(None) as ending:  # whoever asks has the deadline
                self._under_way.add(ending)
                try:
                    yield
                finally:
                    self._under_way.discard(ending)
        except TimeoutError:
            raise Lost(Trouble.ENDED) from None

    def _streamed(
        self, run: str, *, owner: str | None, types: str | None
    ) -> tuple[httpx2.AsyncClient, str, Credentials, Mapping[str, str]]:
        asked = {"owner": owner, "types": types}
        given = {name: value for name, value in asked.items() if value is not None}
        return self._client, f"{self.address}{path_of(run)}", self._credentials, given

    async def _send(self, method: str, path: str, said: JSON, headers: Mapping[str, str]) -> httpx2.Response:
        content = None if said is None else encode_json(said)
        ours = {"accept": JSON_TYPE} | ({} if content is None else {"content-type": JSON_TYPE})
        request = self._client.build_request(
            method, self.address + path, content=content, headers={**headers, **ours}, timeout=None
        )  # without a deadline: the machine has it, or whoever asks
        with discreet():
            response = await self._client.send(request, stream=True, follow_redirects=False)
        self._own = kernel.own_address(response)
        return response


def path_of(run: str) -> str:
    """Return the path of a run. Raises `InputInvalid` for an id that would lead elsewhere."""
    if run in {"", ".", ".."} or not _is_utf8(run):
        raise InputInvalid(f"This is no run's id. {ID_FORM}.")
    return f"/runs/{quote(run, safe='')}"


def start_of(
    run: str, worker: str, input: JSON, thread: str | None, metadata: Mapping[str, JSON] | None
) -> dict[str, JSON]:
    """Return what asks for a run to be started, under its id."""
    said: dict[str, JSON] = {"worker": worker, "input": input, "id": run, "thread": thread}
    return said if metadata is None else {**said, "metadata": dict(metadata)}


def whose(owner: str | None) -> str:
    """Return the query that names whose runs are meant; nothing where they are one's own. Raises `InputInvalid`."""
    if owner is not None and not _is_utf8(owner):
        raise InputInvalid("The name of an owner holds half a character, which no request can carry.")
    return "" if owner is None else f"?{urlencode({'owner': owner})}"


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _store(body: bytes) -> str | None:
    """Return the store that a greeting names; None where it names none, or is no greeting."""
    try:
        return _greeting(json.loads(body)).store
    except (ValueError, RecursionError, Lost):
        return None


def _greeting(said: JSON) -> Greeting:
    if not isinstance(said, dict) or not isinstance(said.get("boot_id"), str):
        raise Lost(Trouble.FOREIGN)
    if said.get("protocol") != PROTOCOL:
        error: OutlastError = WireError("This server speaks another version of the wire: update this client.")
        raise Lost(Trouble.VERSION, error=error)
    heartbeat, beacon, peer, store = (said.get(name) for name in ("heartbeat", "beacon", "peer", "store"))
    return Greeting(
        boot_id=cast("str", said["boot_id"]),
        heartbeat=heartbeat if isinstance(heartbeat, int | float) else None,
        beacon=beacon if isinstance(beacon, int) and 0 < beacon <= LARGEST_PORT else None,
        peer=peer if isinstance(peer, str) else None,
        store=store if isinstance(store, str) else None,
    )
