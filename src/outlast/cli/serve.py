"""Serves an `Outlast` object with uvicorn, at the root, until a signal comes.

Rules:
1. The store opens inside our own lifespan, so that what is wrong with it is told in a sentence and not by uvicorn.
2. A signal comes to the object first, which drains, and to uvicorn when that is over. A second one leaves it no time;
   one that comes once uvicorn is stopping ends the process where it stands, which every run survives.
3. A worker that will not end keeps no process alive: asyncio would wait for its task without a deadline.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Final, Literal

import click
import uvicorn

from outlast.assembly.outlast import Outlast
from outlast.cli.guard import HEADER_BYTES, Guard, ShortHeaders
from outlast.cli.listener import PORT, address_of, check_exposure, listen, resolve
from outlast.cli.target import FORM, load
from outlast.errors import SettingsError
from outlast.server import beacon as beacons
from outlast.wire.session import MESSAGE

RESPONSES_WITHIN: Final = 1
"""Seconds for the responses that are still open after the drain; then they are cut."""
LAST_CALL: Final = 1.0
"""Seconds for tasks of workers that are left behind: they were told to end twice before."""
SIGNALED: Final = 128
"""A shell's base for the exit code of a program that a signal ended."""
EXAMPLES: Final = (
    "\b\n"
    "Examples:\n"
    "  outlast serve app:outlast\n"
    "  outlast serve app:outlast --port 9000 --store sqlite:////var/lib/runs.db\n"
    "  outlast serve app:outlast --beacon 8401 --beacon-process\n"
    "  outlast serve app:outlast --websocket\n"
)
"""The first character tells click to leave the lines as they are."""


@click.command(epilog=EXAMPLES)
@click.argument("target", metavar=FORM)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True, help="0 takes any free port.")
@click.option("--store", metavar="URL", help="Use this store instead of the object's own, such as sqlite:///runs.db")
@click.option(
    "--beacon",
    metavar="[HOST:]PORT",
    help="Answer there also while the event loop is blocked, so that clients can tell busy from gone; 0 is any port.",
)
@click.option(
    "--beacon-process",
    is_flag=True,
    help="Answer at the beacon from a process of its own, also while one call keeps Python to itself.",
)
@click.option(
    "--websocket",
    is_flag=True,
    help="Open a WebSocket at /session, in which many runs are followed over one connection.",
)
@click.option("--verbose", is_flag=True, help="Log what happens to runs, not only what goes wrong.")
def serve(
    target: str,
    host: str,
    port: int,
    store: str | None,
    beacon: str | None,
    *,
    beacon_process: bool,
    websocket: bool,
    verbose: bool,
) -> int:
    """Serve the Outlast object that MODULE:ATTRIBUTE names.

    The routes are at the root, the page too. SIGTERM sends the readers away, lets runs finish, hands the others off and
    stops, all within OUTLAST_GRACE seconds (25); Ctrl-C does not wait as long, and a second signal not at all. Runs go
    on when the server comes back, also after a kill -9.
    """
    configure_logs(verbose=verbose)
    outlast = load(target)
    outlast.reconfigure(store=store, beacon=beacon, beacon_process=beacon_process or None, websocket=websocket or None)
    check_websocket(outlast)
    address = resolve(host, port)
    bind_beacon(outlast, host)
    check_exposure(outlast, address)
    listener = listen(address)

    async def greet() -> None:
        beacon = "" if outlast.beacon is None else f" Its beacon is at port {outlast.beacon}."
        click.echo(
            f"Outlast serves {address_of(listener)} (the page too).{beacon} "
            f"Its runs are {kept(outlast)}. Ctrl-C stops it."
        )

    return run(outlast, listener, greet)


def configure_logs(*, verbose: bool) -> None:
    """Let warnings, or everything that happens to runs, be written to standard error."""
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def bind_beacon(outlast: Outlast, host: str) -> None:
    """Let a beacon that was given a port alone listen where the server does."""
    address = beacons.Address.parse(outlast.settings.beacon) if outlast.settings.beacon else None
    if address is not None and address.host is None:
        outlast.reconfigure(beacon=str(beacons.Address(host=host, port=address.port)))


def check_websocket(outlast: Outlast) -> None:
    """Refuse to serve a WebSocket with what cannot speak it. Raises `SettingsError`."""
    if outlast.settings.websocket and find_spec("websockets") is None:
        raise SettingsError("A WebSocket needs the package websockets: install outlast[websocket], or leave it out.")


def websocket_of(outlast: Outlast) -> type[asyncio.Protocol] | Literal["none"]:
    """Return what speaks the object's WebSocket, if it has one."""
    if not outlast.settings.websocket:
        return "none"
    from outlast.cli.line import Line  # noqa: PLC0415 - the extra may not be there

    return Line


def kept(outlast: Outlast) -> str:
    """Say where an object's runs are kept."""
    path = outlast.settings.store.partition("://")[2].removeprefix("/")
    return f"kept in {Path(path).absolute()}" if path else "kept in memory and end with this process"


def run(outlast: Outlast, listener: socket.socket, greet: Callable[[], Awaitable[None]]) -> int:
    """Serve until a signal comes, and return the exit code; `greet` is called once requests are answered."""
    with listener:
        return asyncio.run(_run(outlast, listener, greet))


async def _run(outlast: Outlast, listener: socket.socket, greet: Callable[[], Awaitable[None]]) -> int:
    server = Server(outlast, greet)
    outlast.on_drain = Waiting().tell
    with server.signals():
        async with AsyncExitStack() as stack:
            opening = server.opening = asyncio.create_task(stack.enter_async_context(outlast), name="open")
            await asyncio.wait({opening})  # bounded by the store
            if not opening.cancelled():  # a signal may have come before there was anything to drain
                await opening
                await server.serve(sockets=[listener])
    await leave(server.exit_code)
    return server.exit_code


async def leave(code: int) -> None:
    """Tell the tasks that are left to end; end the process with `code`, here and now, if they do not."""
    deaf = asyncio.all_tasks() - {asyncio.current_task()}
    for task in deaf:
        task.cancel()
    if deaf:
        _, deaf = await asyncio.wait(deaf, timeout=LAST_CALL)
    if deaf:
        sys.stdout.flush()
        os._exit(code)


class Waiting:
    """Says once what a server waits for that was told to stop."""

    def __init__(self) -> None:
        self._told = False

    def tell(self, runs: int, seconds: float) -> None:
        """Tell it, where there is anything to wait for; `seconds` are what the runs have to finish."""
        if runs and not self._told:
            what = "1 run" if runs == 1 else f"{runs} runs"
            again = "it goes on" if runs == 1 else "they go on"
            waits = f"Waiting up to {seconds:.3g} s for {what} to finish" if seconds else f"Handing off {what}"
            click.echo(f"{waits}; a second signal stops now: {again} at the next start.", err=True)
        self._told = True


class Server(uvicorn.Server):
    """uvicorn, stopping the way open streams need it."""

    def __init__(self, outlast: Outlast, greet: Callable[[], Awaitable[None]], *, guard: type[Guard] = Guard) -> None:
        """Serve `outlast`, whose lifespan is the caller's to run."""
        super().__init__(
            uvicorn.Config(
                ShortHeaders(outlast.app),
                http=guard,
                h11_max_incomplete_event_size=HEADER_BYTES,
                interface="asgi3",
                lifespan="off",
                log_level="warning",
                access_log=False,
                ws=websocket_of(outlast),
                ws_max_size=MESSAGE,
                ws_per_message_deflate=False,  # a third of a megabyte for each client, and small events grow
                # A stream has heartbeats, and a session in which nobody asks ends; uvicorn's own pings would cut a
                # client that stands still for 20 seconds, and it has a minute.
                ws_ping_interval=None,
                server_header=False,
                proxy_headers=False,  # who asks is decided by what we are told, never by what somebody forwards
                timeout_graceful_shutdown=RESPONSES_WITHIN,
            )
        )
        self.exit_code = 0
        self.opening: asyncio.Task[Outlast] | None = None
        self._greet = greet

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer, and greet."""
        await super().startup(sockets)
        await self._greet()

    @contextmanager
    def signals(self) -> Generator[None, None, None]:
        """Handle signals from before the store opens until after it has closed."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals alone: uvicorn would raise them again before the store is closed."""
        yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a handler's signature
        """Stop, or end the process when that was said before."""
        if self.should_exit:
            os._exit(SIGNALED + sig)
        self.should_exit = True
        if self.opening is not None:  # a store that others keep locked is waited for, but not by who is to leave
            self.opening.get_loop().call_soon_threadsafe(self.opening.cancel)
        self.exit_code = SIGNALED + sig if sig == signal.SIGINT else 0  # SIGTERM asks for a clean end: this is one
