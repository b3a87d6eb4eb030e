"""Puts a client together: what connects, what supervises, and who says that we are who we are."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial
from typing import Final, TypeAlias, TypedDict

import httpx2
from starlette.types import ASGIApp

from outlast.client import http
from outlast.client.asgi import StreamingTransport
from outlast.client.client import Client
from outlast.client.credentials import Credentials, Headers, HeadersOf
from outlast.client.hints.watch import watching
from outlast.client.http import HTTPConnection
from outlast.client.keeper import Keeper
from outlast.client.kept import keeping
from outlast.client.poll import PolledConnection
from outlast.client.received import Received
from outlast.client.supervisor import Supervisor
from outlast.errors import InputInvalid
from outlast.log.cursor import Cursor
from outlast.supervision import inputs
from outlast.supervision.link import Link
from outlast.supervision.profile import PROFILES, STANDARD, Profile

TRANSPORTS: Final[Mapping[str, type[HTTPConnection]]] = {
    "websocket": HTTPConnection,
    "sse": HTTPConnection,
    "long-poll": PolledConnection,
}
"""What there is to connect by, and how streams come then: over a WebSocket as they do over HTTP."""
USUAL: Final = ("sse", "long-poll")
"""What is connected by where nothing is said: it needs nothing of the server, and of most networks no more."""
Make: TypeAlias = Callable[[str], httpx2.AsyncClient]
"""Returns what carries the requests of one attempt to a node."""
HERE: Final = "http://localhost"
"""The address of an application in this process."""


class Options(TypedDict, total=False):
    """What a client may be given besides the url, each as in `connect`, where that is said of it."""

    headers: Headers | HeadersOf | None
    profile: Profile | str
    transports: Sequence[str]
    hints: bool
    keep: Keeper | None
    store: str | None


@asynccontextmanager
async def connect(
    url: str | Sequence[str] | ASGIApp,
    *,
    headers: Headers | HeadersOf | None = None,
    profile: Profile | str = STANDARD,
    client: httpx2.AsyncClient | None = None,
    transports: Sequence[str] = USUAL,
    hints: bool = True,
    keep: Keeper | None = None,
    store: str | None = None,
    jitter: Callable[[], float] = random.random,
) -> AsyncGenerator[Client, None]:
    """Hold a link to one server for as long as the block lasts: `async with outlast.connect(url) as client:`.

    `url` is where Outlast's routes are, such as `http://127.0.0.1:8400`; several are nodes of one server, which the
    attempts take in turn. An application of this process, `outlast.app`, is talked to without sockets. `headers` may
    be a callable, sync or async: it is asked before every attempt and every request, and once more after a 401.
    `profile` is `standard`, `desktop` or `mobile`, or numbers of your own. `client` is used for every request and stays
    yours; give one only for what it alone can do, since a replaced link then stands on the same sockets. `transports`
    are what to connect by, `sse`, `long-poll` and `websocket`, the best first: where one keeps dying young, as behind a
    proxy that holds streams back, the next takes its place. `websocket` carries everything over one socket, and needs
    the extra `outlast[websocket]` here and `websocket=True` there; neither a client of yours nor an application of this
    process has one. Without `hints` nobody is told when this machine slept or its network changed; `wakeup` is yours to
    call then. `keep`, an `outlast.Keep`, is what outlives this process: a follow goes on behind what the application
    had taken before, and an `outbox` has what must not be lost. `store` is what the server which is meant tells of
    itself by `GET /session`; otherwise the first one that is linked is meant. Where the address leads to another, the
    link is blocked by `WrongServer`.

    The block begins before there is a link. Raises `InputInvalid` for an impossible url, profile or transport, and
    `StoreError`s of what is to keep.
    Source: K, P, R, M2.
    """
    app, url = (url, HERE) if callable(url) else (None, url)
    urls = [url] if isinstance(url, str) else list(url)
    if not urls:
        raise InputInvalid("A client needs the url of a server.")
    credentials = Credentials(headers)
    ways = [
        http.HTTPTransport(urls, credentials, over=TRANSPORTS[name], make=make, is_shared=client is not None)
        for name, make in _carriers(transports, app, client)
    ]
    link = Link(
        profile=_profile(profile),
        is_local=all(map(http.is_local, urls)),
        account_bound=credentials.is_account,
        transports=len(ways),
    )
    supervisor = Supervisor(ways, link, store=store, jitter=jitter)
    async with keeping(keep, http.address_of(urls[0]), supervisor, link.profile, jitter=jitter) as kept:
        owner = asyncio.create_task(supervisor.run(), name="outlast client")
        supervisor.tell(inputs.Want())
        try:
            async with watching(supervisor.tell) if hints else nullcontext():
                yield Client(supervisor, link.profile, kept, jitter=jitter)
        finally:
            supervisor.tell(inputs.Close())
            await owner  # it lets go of what it holds, which an application of this process may hold up for a while


async def follow(
    url: str | Sequence[str] | ASGIApp,
    run: str,
    *,
    owner: str | None = None,
    after: Cursor | str | None = None,
    types: Collection[str] | None = None,
    headers: Headers | HeadersOf | None = None,
    profile: Profile | str = STANDARD,
    client: httpx2.AsyncClient | None = None,
    transports: Sequence[str] = USUAL,
    jitter: Callable[[], float] = random.random,
) -> AsyncGenerator[Received, None]:
    """Yield the events of `run` after the cursor `after`, each once and in order, until its terminal event.

    A client of its own for one run: `connect` and `Client.follow` in one. `owner` names whose run it is, where that is
    not whom the request speaks for; the server's `authorize` decides. What blocks the link is raised.

    Raises what `connect` and `Client.follow` raise. Source: R2, R3, R4, R12, the native wire.
    """
    http.path_of(run)
    connecting = connect(url, headers=headers, profile=profile, client=client, transports=transports, jitter=jitter)
    async with connecting as connected:
        following = connected.follow(run, owner=owner, after=after, types=types, patient=False)
        async with aclosing(following):
            async for received in following:
                yield received


def _carriers(
    named: Sequence[str], app: ASGIApp | None, client: httpx2.AsyncClient | None
) -> Iterator[tuple[str, Make]]:
    """Yield the transports in their order, each with what makes its clients."""
    if isinstance(named, str) or not named or not set(named) <= TRANSPORTS.keys():
        raise InputInvalid(f"The transports are a list of {', '.join(TRANSPORTS)}, one of them at least.")
    if app is not None and client is not None:
        raise InputInvalid("An application of this process is talked to directly: it needs no client of yours.")
    for name in named:
        if name == "websocket":
            if app is not None or client is not None:
                theirs = "An application of this process" if client is None else "A client of yours"
                raise InputInvalid(f"{theirs} has no WebSocket: leave that out of the transports.")
            yield name, _socketed(others=len(named) > 1)
        else:
            yield name, partial(_plain, app, client)


def _plain(app: ASGIApp | None, client: httpx2.AsyncClient | None, _address: str) -> httpx2.AsyncClient:
    if app is not None:
        return httpx2.AsyncClient(transport=StreamingTransport(app))
    return client or http.direct()


def _socketed(*, others: bool) -> Make:
    try:
        from outlast.client.websocket import Clients  # noqa: PLC0415 - an extra, imported where it is asked for
    except ModuleNotFoundError as error:
        sentence = "The transport websocket needs the package websockets: pip install 'outlast[websocket]'."
        raise InputInvalid(sentence) from error
    return Clients(others=others)


def _profile(given: Profile | str) -> Profile:
    if isinstance(given, Profile):
        return given
    if given not in PROFILES:
        raise InputInvalid(f"A profile is one of {', '.join(PROFILES)}, or a Profile.")
    return PROFILES[given]
