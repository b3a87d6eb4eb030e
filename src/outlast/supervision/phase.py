"""What a link may be in, what can go wrong with it, and what speaks for a server that does not answer."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class Phase(StrEnum):
    """How the link to one server is, as people are shown it."""

    IDLE = "idle"
    """Nobody wants a link."""
    OFFLINE = "offline"
    """This machine has no network; nothing is tried until it has."""
    CONNECTING = "connecting"
    """An attempt is in flight, and there is no link."""
    LIVE = "live"
    """The link is established, and nothing speaks against it."""
    SLOW = "slow"
    """Something is late; whether the server is busy or gone is being found out."""
    BUSY = "busy"
    """Something speaks for the server although it does not answer."""
    SWITCHING = "switching"
    """A new link is being made while the old one is kept."""
    BACKOFF = "backoff"
    """There is no link; the next attempt has its time."""
    BLOCKED = "blocked"
    """No attempt can succeed until something has changed."""
    CLOSED = "closed"
    """Over for good."""


SENDING: Final = frozenset({Phase.LIVE, Phase.SLOW, Phase.BUSY, Phase.SWITCHING})
"""Where sending is possible: there is a link, and no proof that it is dead."""


class Trouble(StrEnum):
    """Why a link or an attempt came to nothing."""

    UNREACHABLE = "unreachable"
    """No connection came about."""
    BROKEN = "broken"
    """The connection broke."""
    SILENT = "silent"
    """Nothing was heard for longer than can be borne."""
    BUSY = "busy"
    """The server, or what stands before it, answered that it cannot serve this now."""
    ENDED = "ended"
    """The connection was closed in order, too early."""
    DRAINING = "draining"
    """The server sends its clients elsewhere."""
    FOREIGN = "foreign"
    """Something else than the server answered."""
    UNSPOKEN = "unspoken"
    """The server, or something on the way to it, takes no connection of this kind."""
    SKIPPED = "skipped"
    """Events were missing in a stream."""
    UNEXPECTED = "unexpected"
    """The client's own code failed."""
    CREDENTIALS = "credentials"
    """The server does not accept who we say we are."""
    REVOKED = "revoked"
    """The server says that this identity has lost its rights."""
    VERSION = "version"
    """The server speaks a version that this client does not."""
    ADDRESS = "address"
    """No Outlast answers us at this address."""
    CONFIGURATION = "configuration"
    """Another server answers at this address than the one that was meant."""
    CERTIFICATE = "certificate"
    """The server's certificate cannot be trusted."""


class Wakeup(StrEnum):
    """A reason to look now."""

    VISIBLE = "visible"
    """A person looks again."""
    RESUMED = "resumed"
    """The machine slept."""
    PATH_CHANGED = "path-changed"
    """The way through the network is another one."""
    ONLINE = "online"
    """The machine has a network again."""
    CREDENTIALS_CHANGED = "credentials-changed"
    """There are other credentials."""
    UPDATED = "updated"
    """This client is another version now."""
    USER = "user"
    """A person asks for it."""


WAKES: Final[Mapping[Trouble, frozenset[Wakeup]]] = MappingProxyType(
    {
        Trouble.CREDENTIALS: frozenset({Wakeup.CREDENTIALS_CHANGED}),
        Trouble.REVOKED: frozenset({Wakeup.CREDENTIALS_CHANGED}),
        Trouble.VERSION: frozenset({Wakeup.UPDATED}),
        Trouble.ADDRESS: frozenset(),
        Trouble.CONFIGURATION: frozenset(),
        Trouble.CERTIFICATE: frozenset({Wakeup.ONLINE, Wakeup.RESUMED}),  # a portal in the way, or a wrong clock
    }
)
"""The troubles that block, each with the wakeups that end it; `user` ends every one. Source: K12."""


class Grade(StrEnum):
    """What speaks for a server that does not answer, the strongest first."""

    FRAMES = "frames"
    """Its streams go on."""
    BEACON = "beacon"
    """Its beacon says that it is late, and it is the same boot of it."""
    WITNESS = "witness"
    """Another node says that it is late, and renews its lease."""
    KERNEL = "kernel"
    """Its machine acknowledges our bytes, nobody answers, and nothing stands between us."""


STRENGTH: Final = {grade: len(Grade) - rank for rank, grade in enumerate(Grade)}
"""How much each grade says: a weaker one does not take a fresh stronger one's place."""
