"""Proof that a process lives while its event loop is blocked: a port of its own at which a lamp answers.

Rules:
1. A client that hears nothing asks here: an answer with the boot id it knows says that the server is busy, a refused
   connection that it may be gone. Source: P14, P15.
2. A thread is enough where whatever blocks the loop lets go of the interpreter now and then, which Python code does by
   itself. A process also answers while one call keeps the interpreter, and while ours is stopped.
3. What the lamp runs in may end before we do, as where a process is killed for its memory: with the next beat that it
   does not hear, another is lit. The listening socket is the lamp's alone, so that nobody is left waiting at it.
"""

import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self, TypeAlias

from outlast.errors import PortTaken, SettingsError
from outlast.facts import BeaconLost, Report
from outlast.server import lamp
from outlast.server.pulse import BEAT_EVERY
from outlast.wire.native import LARGEST_PORT

HOST: Final = "127.0.0.1"
"""Where a beacon listens that is given a port alone: this machine, as everything here does unless told otherwise."""
RELIGHT_AFTER: Final = 5.0
"""Seconds between two tries to light it anew: what ended it may well end the next."""

End: TypeAlias = Callable[[], object]
"""Waits until a lamp, which was told to end, has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where a beacon listens; a port of 0 stands for any that is free, no host for that of the server."""

    host: str | None
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the address that `8401`, `0.0.0.0:8401` or `[::1]:8401` names. Raises `SettingsError`."""
        host, colon, port = text.rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        if not (
            port.isascii() and port.isdigit() and len(port) <= len(str(LARGEST_PORT)) and int(port) <= LARGEST_PORT
        ) or (colon and not host):
            raise SettingsError("beacon is a port such as 8401, or an address such as 0.0.0.0:8401; port 0 is any.")
        if ":" in host and not is_bracketed:
            raise SettingsError("beacon has an address of IPv6 in brackets: [::1]:8401.")
        return cls(host=(host[1:-1] if is_bracketed else host) or None, port=int(port))

    def __str__(self) -> str:
        """Return what `parse` makes this of."""
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}".removeprefix(":")


class Beacon:
    """The beacon of the process with this `boot_id`: lit in a `with` block, out after it.

    `process`: its lamp runs in a process of its own.
    """

    def __init__(self, address: Address, boot_id: str, *, process: bool, report: Report) -> None:
        self._host = address.host or HOST
        self._port = address.port
        self._boot_id = boot_id
        self._run = _in_process if process else _in_thread
        self._report = report
        self._is_lit = False
        self._beats: socket.socket | None = None
        self._end: End = lambda: None
        self._relights_at = 0.0

    def __enter__(self) -> Self:
        """Take the port and light the lamp. Raises `PortTaken`, `SettingsError`."""
        self._light()
        self._is_lit = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Put it out."""
        self.put_out()

    @property
    def port(self) -> int | None:
        """Where it listens; None while nothing answers."""
        return None if self._beats is None else self._port

    def beat(self, now: float) -> None:
        """Tell the lamp that the event loop has come round; `now` is the loop's clock, the monotonic one."""
        if self._beats is not None:
            try:
                self._beats.send(lamp.BEAT.pack(now + BEAT_EVERY))
            except BlockingIOError:
                pass  # it stands still itself: there are beats enough for it to find
            except OSError:
                self._forget()
                self._report(BeaconLost(node=self._boot_id))
        if self._is_lit and self._beats is None and now >= self._relights_at:
            self._relights_at = now + RELIGHT_AFTER
            with suppress(SettingsError, OSError):  # somebody else may have the port for the moment
                self._light()

    def put_out(self) -> None:
        """End the lamp, and free the port. Harmless twice."""
        self._is_lit = False
        self._forget()

    def _light(self) -> None:
        listener = listen(self._host, self._port)
        self._port = listener.getsockname()[1]
        ours, its = socket.socketpair()
        ours.setblocking(False)
        try:
            self._end = self._run(listener, its, self._boot_id)
        except BaseException:
            for each in (listener, ours, its):
                each.close()
            raise
        self._beats = ours

    def _forget(self) -> None:
        if self._beats is not None:
            self._beats.close()
            self._beats = None
            self._end()


def _in_thread(listener: socket.socket, beats: socket.socket, boot_id: str) -> End:
    shine = lamp.Lamp(listener, beats, boot_id).shine
    thread = threading.Thread(target=shine, name="outlast-beacon", daemon=True)
    thread.start()
    return thread.join  # without a deadline: it looks at nothing before the end of its beats


def _in_process(listener: socket.socket, beats: socket.socket, boot_id: str) -> End:
    if os.name != "posix" or not sys.executable:
        raise SettingsError("beacon_process=True needs POSIX and a Python to start: leave it out, for a thread.")
    inherited = (listener.fileno(), beats.fileno())
    # Isolated and without site-packages: there in 50 ms, 12 MB large, and nobody's module is run in it. A group of its
    # own, so that what a terminal sends to ours, such as Ctrl-Z, does not reach it.
    child = subprocess.Popen(  # noqa: S603 - our own file
        [sys.executable, "-I", "-S", lamp.__file__, *map(str, inherited), boot_id],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=inherited,
        process_group=0,
    )
    listener.close()
    beats.close()

    def end() -> None:
        child.kill()  # it has nothing to tidy up, and may be stopped
        child.wait()  # without a deadline: nothing outlives this signal

    return end


def listen(host: str, port: int) -> socket.socket:
    """Take the beacon's port, at once and for good. Raises `PortTaken` and `SettingsError`."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, ValueError) as error:
        raise SettingsError("beacon names no address and no name that is known here; usually it is a port.") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name != "nt":  # there it would let two listen at one port; here it lets one come back at once
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()
    except OSError as error:
        listener.close()
        raise _refused(port, error) from error
    return listener


def _refused(port: int, error: OSError) -> SettingsError:
    match error.errno:
        case errno.EADDRINUSE:
            return PortTaken(
                f"Port {port}, the beacon's, is in use: stop what listens there, choose another with beacon=…, "
                "or give each process one of its own with beacon=0."
            )
        case errno.EACCES:
            return SettingsError(
                f"Port {port}, the beacon's, needs more rights than you have: choose one from 1024 on."
            )
        case errno.EADDRNOTAVAIL:
            return SettingsError("beacon names no address of this machine.")
        case _:
            return SettingsError(f"Port {port}, the beacon's, cannot be listened on: {error.strerror}.")
