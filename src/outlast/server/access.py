"""Decides who a request speaks for, and whether it may speak to this application at all.

Rules:
1. With `authenticate` its answer is the owner; None, or nobody's name, is refused.
2. Without it the application answers programs on its own machine alone: a loopback peer, no trace of a proxy, and a
   `Host` that a foreign page cannot have (DNS rebinding, Z7). `allow_anonymous` lifts this for those who mean it.
3. A request that may change something and comes from a page must come from a page of ours (Z6).
4. Refusals say what to do, and nothing that the request said.
"""

import ipaddress
from collections.abc import Awaitable, Callable, Collection
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from outlast.errors import PeerRefused, Unauthenticated

Authenticate: TypeAlias = Callable[[HTTPConnection], Awaitable[str | None]]
"""Returns the owner a request speaks for, None to refuse it."""

ANONYMOUS: Final = ""
"""The owner of every run where nobody is asked who they are."""
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names of this machine that no foreign page can take."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing here, so that a page which cannot read the answer has no use for them."""

_FORWARDED: Final = ("forwarded", "x-forwarded-", "x-real-ip")
_WHAT_TO_DO: Final = (
    "Give the application `authenticate=…` to know who asks, or `allow_anonymous=True` to answer anyone."
)


class Access:
    """The one place where requests are let in; `hosts` are further names under which this machine is addressed."""

    def __init__(
        self,
        *,
        authenticate: Authenticate | None = None,
        allow_anonymous: bool = False,
        hosts: Collection[str] = (),
    ) -> None:
        self._authenticate = authenticate
        self._is_local = authenticate is None and not allow_anonymous
        self._hosts = LOCAL_HOSTS | {host.lower() for host in hosts}

    async def owner(self, connection: HTTPConnection) -> str:
        """Return whom the request speaks for. Raises `PeerRefused`, `Unauthenticated`, what `authenticate` raises."""
        self.check_peer(connection)
        if self._authenticate is None:
            return ANONYMOUS
        owner = await self._authenticate(connection)  # its deadline is its own
        if not owner:
            raise Unauthenticated("The request carries no credentials that this application accepts.")
        return owner

    def check_peer(self, connection: HTTPConnection) -> None:
        """Let the request in, or raise `PeerRefused`. Source: Z6, Z7, Z16."""
        if self._is_local:
            self._check_local(connection)
        if connection.scope["method"] not in SAFE and _is_foreign(connection):
            raise PeerRefused("A page of another origin may not do this.")

    def _check_local(self, connection: HTTPConnection) -> None:
        if connection.client is None or not _is_loopback(connection.client.host):
            raise PeerRefused(f"Without `authenticate` only programs on the same machine are answered. {_WHAT_TO_DO}")
        if any(name.lower().startswith(_FORWARDED) for name in connection.headers):
            raise PeerRefused(f"Without `authenticate` nothing is answered that came by a proxy. {_WHAT_TO_DO}")
        hosts = connection.headers.getlist("host")
        if len(hosts) != 1 or _name(hosts[0]) not in self._hosts:
            raise PeerRefused(
                "Without `authenticate` this machine is answered for by its own names alone: use localhost, or name "
                f"others in `hosts=[…]`. {_WHAT_TO_DO}"
            )


def _is_loopback(address: str) -> bool:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:  # a name or a path: no proof
        return False
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback


def _name(host: str) -> str:
    """Return a `Host` without its port."""
    name, colon, port = host.rpartition(":")
    return (name if colon and (port.isdigit() and port.isascii()) else host).lower()


def _is_foreign(connection: HTTPConnection) -> bool:
    """Say whether a browser sent this from a page of another origin; what is no browser sends no `Origin`."""
    origins, hosts = connection.headers.getlist("origin"), connection.headers.getlist("host")
    if not origins:
        return False
    try:
        same = urlsplit(origins[0]).netloc.lower()
    except ValueError:
        return True
    return len(origins) != 1 or not same or [same] != [host.lower() for host in hosts]
