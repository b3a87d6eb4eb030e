"""Decides who a request speaks for, and whether it may speak to this application at all.

Rules:
1. With `authenticate` its answer is the owner; None, nobody's name, or an identity that has ended, is refused.
2. Without it the application answers programs on its own machine alone: a loopback peer, no trace of a proxy, and a
   `Host` that a foreign page cannot have (DNS rebinding, Z7). `allow_anonymous` lifts this for those who mean it.
3. A request that may change something and comes from a page must come from a page of ours, or of an origin that was
   named (Z6); and so must the handshake of a session, which browsers let every page make and read.
4. With `authorize` its answer decides, also about one's own runs; without it everybody may do everything with their
   own runs and nothing with others'.
5. Refusals say what to do, and nothing that the request said.
"""

import ipaddress
import time
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from outlast.errors import HookFailed, PeerRefused, Unauthenticated
from outlast.facts import Report
from outlast.run import Run
from outlast.server.hook import Hook, ask
from outlast.server.identity import ANONYMOUS, Action, Authenticate, Authorize, Identity
from outlast.server.origins import Origins

EXPIRY_GRACE: Final = 30.0
"""Seconds an identity is still good for after its end: clocks differ, and a page needs a moment to get a new token."""
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""Names of this machine that no foreign page can take."""
ADDRESSES: Final = 16
"""Addresses of which it is remembered whether they are this machine's: it has one or two, and few others ask."""
SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing here, so that a page which cannot read the answer has no use for them."""

_FORWARDED: Final = ("forwarded", "x-forwarded-", "x-real-ip")
_WHAT_TO_DO: Final = (
    "Give the application `authenticate=…` to know who asks, or `allow_anonymous=True` to answer anyone."
)


class Access:
    """The one place where requests are let in; `hosts` are further names under which this machine is addressed.

    `clock` is the machine's, in Unix seconds: credentials end by it.
    """

    def __init__(
        self,
        *,
        report: Report,
        authenticate: Authenticate | None = None,
        authorize: Authorize | None = None,
        allow_anonymous: bool = False,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.origins = Origins(origins)
        self.asks = authorize is not None
        self.report = report
        self._authenticate = authenticate
        self._authorize = authorize
        self._is_local = authenticate is None and not allow_anonymous
        self._hosts = LOCAL_HOSTS | {host.lower() for host in hosts}
        self._clock = clock

    async def identify(self, connection: HTTPConnection) -> Identity:
        """Return whom the request speaks for.

        Raises `PeerRefused`, `Unauthenticated`, `HookFailed`, and the refusals that `authenticate` raises.
        """
        self.check_peer(connection)
        authenticate = self._authenticate
        if authenticate is None:
            return Identity(owner=ANONYMOUS)
        found = await ask(Hook.AUTHENTICATE, lambda: authenticate(connection), report=self.report)
        identity = Identity(owner=found) if isinstance(found, str) else found
        if identity is None or not identity.owner or self._is_over(identity):
            raise Unauthenticated("The request carries no credentials that this application accepts.")
        return identity

    def left(self, expires_at: float) -> float:
        """Return for how many seconds credentials that end then are still good. Source: Z13."""
        return expires_at + EXPIRY_GRACE - self._clock()

    def _is_over(self, identity: Identity) -> bool:
        return identity.expires_at is not None and self.left(identity.expires_at) <= 0

    async def allows(self, identity: Identity, action: Action, *, owner: str, run: Run | None) -> bool:
        """Say whether `identity` may do this with a run of `owner`; a hook that fails has not allowed it."""
        authorize = self._authorize
        if authorize is None:
            return identity.owner == owner
        try:
            answer = await ask(Hook.AUTHORIZE, lambda: authorize(identity, action, owner, run), report=self.report)
        except HookFailed:
            return False
        return answer is True

    def check_peer(self, connection: HTTPConnection) -> None:
        """Let the request in, or raise `PeerRefused`. Source: Z6, Z7, Z16."""
        if self._is_local:
            self._check_local(connection)
        changes = connection.scope["method"] not in SAFE
        if changes:
            self.check_page(connection)

    def check_page(self, connection: HTTPConnection) -> None:
        """Let a request in that no page of another origin may make, or raise `PeerRefused`."""
        if not self.origins.names(connection) and _is_foreign(connection):
            raise PeerRefused("A page of another origin may not do this, unless `origins=[…]` names it.")

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


@lru_cache(maxsize=ADDRESSES)
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
