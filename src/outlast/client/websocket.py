"""Carries what an httpx2 client asks over WebSockets, as if it went over HTTP; and says what a handshake came to.

Rules:
1. Who asks is said in the handshake: every header that is none of content goes there. Requests that say the same share
   a session, up to as many as one takes. Where others are said, as after a token was renewed, the next request opens a
   session of its own, and the one before ends with what is open over it (N3).
2. A handshake that is refused for whom it speaks for, or is to be tried later, is answered like its request.
3. Any other answer than the upgrade says that no session is spoken there, by this server or through something on the
   way, and nothing about the address: another transport takes over, at once or, where it may be chance, when that has
   happened a few times (R13). Where one was spoken lately it is told as busy: a server restarts, and something answers
   in its place meanwhile.
4. What the package logs is not ours to show: headers, addresses and frames.
"""

import asyncio
import logging
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import httpx2
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, ProxyError
from websockets.http11 import Response
from websockets.typing import Subprotocol

from outlast.client import answers, http, problem
from outlast.client.session import Session, Unopened
from outlast.client.transport import Lost
from outlast.errors import Refusal, WireError
from outlast.supervision.phase import Trouble
from outlast.wire.session import ANSWERED, ASKED, MESSAGE, SUBPROTOCOL, Ask

NO_SESSION: Final = (
    "No session is spoken at this address: the server needs websocket=True, or something on the way to it refuses the "
    "upgrade. Other transports may work: sse, long-poll."
)
"""What is said where WebSocket is the only transport and the handshake was refused."""
CLOSE_WITHIN: Final = 1.0
"""Seconds for the closing of a socket: it is of no use any more, and a server that stands still closes nothing."""
RESTART_WITHIN: Final = 60.0
"""Seconds within which a server that spoke sessions is back from its restart, behind a proxy that answers meanwhile."""
OF_THE_HOP: Final = frozenset(
    {"accept-encoding", "connection", "content-length", "keep-alive", "te", "transfer-encoding", "upgrade"}
)
"""Headers of a connection: a frame has no use for them, and the handshake its own."""

LATER: Final = answers.RETRIED | {HTTPStatus.UNAUTHORIZED, HTTPStatus.SERVICE_UNAVAILABLE}
"""Answers that say what is to be done about them, whoever gives them."""

_PORTS: Final = {"http": 80, "https": 443}
_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SILENT: Final = logging.Logger("websockets", logging.CRITICAL + 1)  # noqa: LOG001 - no configuration lets it speak

Identity: TypeAlias = tuple[tuple[str, str], ...]
"""The headers of a handshake, in their order: who asks, of whom."""


class Clients:
    """Makes the httpx2 client of each attempt, and remembers where a session was spoken lately.

    Without `others` there is no transport to take over, so a refused handshake blocks the link. Call it with the
    address of a node.
    """

    def __init__(self, *, others: bool) -> None:
        self.others = others
        self._heard_at: dict[str, float] = {}

    def __call__(self, address: str) -> httpx2.AsyncClient:
        """Return a client that carries everything over sessions with this node."""
        return httpx2.AsyncClient(transport=WebSocketTransport(address, self), timeout=None)

    def hear(self, address: str) -> None:
        """Remember that a session is spoken there."""
        self._heard_at[address] = asyncio.get_running_loop().time()

    def know(self, address: str) -> bool:
        """Say whether a session was spoken there lately."""
        heard_at = self._heard_at.get(address)
        return heard_at is not None and asyncio.get_running_loop().time() - heard_at < RESTART_WITHIN


class WebSocketTransport(httpx2.AsyncBaseTransport):
    """Carry the requests of an httpx2.AsyncClient to the node at `address`, over as few sessions as may be.

    The connect and read timeouts of a request are kept. Closing the transport ends everything that is open.
    Raises httpx2's own exceptions, `TooLarge` for a body beyond what a session takes, and `Lost` where no session is
    spoken. Source: R13.
    """

    def __init__(self, address: str, clients: Clients) -> None:
        self._address = address
        self._clients = clients
        self._below = httpx2.URL(address).raw_path.decode("ascii").rstrip("/")
        self._sessions: dict[Session, Identity] = {}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        asked = await self._asked(request)
        session = self._session(_identity(request))
        timeouts: Mapping[str, float | None] = request.extensions.get("timeout", {})
        try:
            exchange = await session.ask(request, asked, within=timeouts.get("connect"))
        except TimeoutError as late:
            raise httpx2.ConnectTimeout("no session came about in time", request=request) from late
        except Unopened as unopened:
            return self._unopened(unopened.why, request)
        except WireError as error:
            raise httpx2.LocalProtocolError("a session does not carry this request", request=request) from error
        try:
            answer = await exchange.head()
        except BaseException:  # whatever ends the request here, cancellation too, is a client that leaves
            await exchange.aclose()
            raise
        headers = [_header(name, value) for name, value in answer.headers.items()]
        return httpx2.Response(answer.status, headers=headers, stream=exchange, extensions={"network_stream": session})

    async def aclose(self) -> None:
        ending = [session.task for session in self._sessions]
        for session in list(self._sessions):
            session.end()
        if ending:
            await asyncio.wait(ending)  # without a deadline: each closes its socket, which has one

    # ---- sessions ---------------------------------------------------------------------------

    def _session(self, identity: Identity) -> Session:
        for session, theirs in self._sessions.items():
            if theirs == identity and session.is_usable:
                return session
        for session, theirs in self._sessions.items():
            if theirs != identity:
                session.retire()
        session = Session(
            lambda: self._open(identity),
            is_known=self._is_known,
            heard=lambda: self._clients.hear(self._address),
        )
        self._sessions[session] = identity
        session.task.add_done_callback(lambda _: self._sessions.pop(session))
        return session

    def _is_known(self) -> bool:
        return any(session.is_spoken for session in self._sessions) or self._clients.know(self._address)

    async def _open(self, identity: Identity) -> ClientConnection:
        url, headers = httpx2.URL(self._address), dict(identity)
        host, own = headers.pop("host"), url.netloc.decode("ascii")
        is_secure, options = url.scheme == "https", dict[str, Any]()
        if host != own:  # somebody asks this address for another name than its own
            options |= {"host": url.host, "port": url.port or _PORTS[url.scheme]}
        if is_secure:
            options |= {"ssl": httpx2.create_ssl_context(), "server_hostname": url.host}
        socket = await _Connect(
            f"{'wss' if is_secure else 'ws'}://{host}{self._below}/session",
            subprotocols=[Subprotocol(SUBPROTOCOL)],
            compression=None,  # most events are too small for it
            additional_headers=headers,
            user_agent_header=None,
            proxy=None if host != own or http.is_local(self._address) else True,
            open_timeout=None,  # the machine has a deadline, or whoever asks
            ping_interval=None,  # a server that stands still answers none, and is not gone
            close_timeout=CLOSE_WITHIN,
            max_size=MESSAGE,
            logger=_SILENT,
            **options,
        )
        if socket.subprotocol != SUBPROTOCOL:
            await socket.close()
            raise InvalidHandshake("what took the upgrade speaks no session")
        return socket

    def _unopened(self, why: Exception | None, request: httpx2.Request) -> httpx2.Response:
        """Return what a handshake was answered, where that is the answer to its request; raise what it means else."""
        if isinstance(why, InvalidStatus) and _is_answer(why.response):
            return _response(why.response)
        if why is None or isinstance(why, OSError):
            raise httpx2.ConnectError("no connection came about", request=request) from why
        if self._is_known():
            raise Lost(Trouble.BUSY) from why
        refused = Trouble.UNSPOKEN if self._clients.others else Trouble.ADDRESS
        raise Lost(Trouble.FOREIGN if _is_passing(why) else refused, error=WireError(NO_SESSION)) from why

    # ---- requests ---------------------------------------------------------------------------

    async def _asked(self, request: httpx2.Request) -> Callable[[int], Ask]:
        """Return what asks in frames what this request asks. Raises `httpx2.LocalProtocolError`."""
        path = request.url.raw_path.decode("ascii")
        if not path.startswith(f"{self._below}/"):
            raise httpx2.LocalProtocolError("a session leads to the routes it is one of", request=request)
        body = await request.aread()
        try:
            text = body.decode() if body else None
        except UnicodeDecodeError as error:
            raise httpx2.LocalProtocolError("a session carries text in UTF-8", request=request) from error
        headers = {name: request.headers[name] for name in ASKED if name in request.headers}
        below = path.removeprefix(self._below)
        return lambda exchange: Ask(exchange=exchange, method=request.method, path=below, headers=headers, body=text)


class _Connect(connect):
    """Goes nowhere else: whom the handshake speaks for is nobody else's business."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


def _identity(request: httpx2.Request) -> Identity:
    """Return what the handshake for a request says. Raises `httpx2.LocalProtocolError` for what none may say."""
    said: dict[str, str] = {}
    for raw_name, raw_value in request.headers.raw:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        if name in ASKED or name in OF_THE_HOP or name.startswith("sec-websocket-"):
            continue
        if not (_NAME.fullmatch(name) and _VALUE.fullmatch(value)):
            raise httpx2.LocalProtocolError("this is no header", request=request)
        said[name] = f"{said[name]}, {value}" if name in said else value
    return tuple(said.items())


def _is_answer(answer: Response) -> bool:
    """Say whether it is the request's too: come later, whoever says so, or, of a server of ours, not with this name."""
    if answer.status_code != HTTPStatus.FORBIDDEN:
        return answer.status_code in LATER
    return type(problem.refusal(answer.status_code, bytes(answer.body or b""))) is not Refusal  # it knows the code


def _is_passing(why: Exception) -> bool:
    """Say whether this may be another one soon, without anybody changing anything."""
    is_servers = isinstance(why, InvalidStatus) and why.response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
    return is_servers or isinstance(why, InvalidMessage | ProxyError | ImportError)


def _response(answer: Response) -> httpx2.Response:
    headers = [_header(name, value) for name, value in answer.headers.raw_items() if name.lower() in ANSWERED]
    return httpx2.Response(answer.status_code, headers=headers, content=bytes(answer.body or b""))


def _header(name: str, value: str) -> tuple[bytes, bytes]:
    """Return a header as httpx2 has those that came over HTTP: in text it takes no more than ASCII."""
    return name.encode("latin-1"), value.encode("latin-1", "surrogateescape")
