"""Takes the port that a server answers at, or says in one sentence why it cannot be had."""

import errno
import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import Final

from outlast.assembly.outlast import Outlast
from outlast.errors import PortTaken, SettingsError

PORT: Final = 8400
UNHEARD: Final = 30.0
"""Seconds a client may leave bytes unacknowledged: a dead one is freed this long after the next heartbeat (F11)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen: a host as it was named, what it stands for, and a port."""

    name: str
    family: socket.AddressFamily
    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether this machine alone can come here."""
        return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback


def resolve(host: str, port: int) -> Address:
    """Return the address that a host's name stands for. Raises `SettingsError`."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise SettingsError("--host is no address and no name that is known here; usually it is 127.0.0.1.") from error
    return Address(name=host, family=family, host=str(address[0]), port=port)


def check_exposure(outlast: Outlast, address: Address) -> None:
    """Refuse to answer other machines for an object that asks nobody who they are. Source: Z16."""
    if outlast.authenticate is None and not outlast.settings.allow_anonymous and not address.is_loopback:
        raise SettingsError(
            f"--host {address.name} lets other machines in, and this Outlast asks nobody who they are: "
            "give it authenticate=…, or allow_anonymous=True to answer anyone."
        )


def listen(address: Address) -> socket.socket:
    """Take the port, at once and for good. Raises `PortTaken` and `SettingsError`."""
    # TCP by name: only then does asyncio switch Nagle's delay off, which holds every second small write up for 40 ms.
    listener = socket.socket(address.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name != "nt":  # there it would let two servers share a port; here it lets one come back at once
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # its connections inherit it; elsewhere the system's own timeout holds
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNHEARD * 1000))
        listener.bind((address.host, address.port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise _refused(address, error) from error
    return listener


def address_of(listener: socket.socket) -> str:
    """Return the URL that a listening socket answers."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _refused(address: Address, error: OSError) -> SettingsError:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTaken(f"Port {address.port} is in use: stop what listens there, or choose another with --port.")
        case errno.EACCES:
            return SettingsError(f"Port {address.port} needs more rights than you have: choose one from 1024 on.")
        case errno.EADDRNOTAVAIL:
            return SettingsError(f"--host {address.name} is no address of this machine.")
        case _:
            return SettingsError(f"Port {address.port} cannot be listened on: {error.strerror}.")
