"""Hears from logind that the machine woke, so that the clocks are looked at there and then.

Rules:
1. It says when to look, never what is so: whether the machine slept, and for how long, the clocks tell. So a sleep is
   one hint, however often logind says so, and none where it only says so. What it says before a sleep needs nothing.
2. Nothing needs it. Without the package, without a bus, and once the bus refuses, hangs, talks nonsense or is gone, a
   sleep is noticed by the next look as ever. Nothing is tried again, and nobody is told an error.
3. Nobody waits for it: the bus is connected beside everything else, and the package, which takes a tenth of a second to
   import, is imported in a thread, where there is a bus.
"""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from outlast.client.discretion import discreet

SYSTEM_BUS: Final = "unix:path=/run/dbus/system_bus_socket"
"""Where the system's bus is, unless `DBUS_SYSTEM_BUS_ADDRESS` says otherwise."""
PATIENCE: Final = 5.0
"""Seconds for the bus to let us in: one that works takes milliseconds, and one that hangs is not waited for."""

MANAGER: Final = "org.freedesktop.login1.Manager"
SIGNAL: Final = "PrepareForSleep"
RULE: Final = f"type='signal',sender='org.freedesktop.login1',interface='{MANAGER}',member='{SIGNAL}'"
"""What the bus is to pass on to us."""
AWAKE: Final = [False]
"""What the signal says on waking: nothing is prepared for any more."""

log = logging.getLogger("outlast.client")


@asynccontextmanager
async def listening(woke: Callable[[], None], *, address: str | None = None) -> AsyncGenerator[None, None]:
    """Call `woke` on the running loop when logind says that the machine woke, for as long as the block runs.

    `address` is the bus's, in the words of D-Bus. It needs the extra `outlast[logind]`; without it, as without a bus,
    nothing is called. Source: N6.
    """
    address = address or os.environ.get("DBUS_SYSTEM_BUS_ADDRESS") or SYSTEM_BUS
    if not _is_likely(address) or find_spec("dbus_fast") is None:
        yield
        return
    listener = asyncio.create_task(_listen(woke, address), name="outlast logind")
    try:
        yield
    finally:
        listener.cancel()
        await asyncio.wait([listener])  # no deadline: it waits for nobody when it ends


def _is_likely(address: str) -> bool:
    """Tell whether there may be a bus: for sockets in the file system, which is the rule, that is seen at once."""
    if sys.platform != "linux":
        return False
    paths = [each.removeprefix("unix:path=").partition(",")[0] for each in address.split(";")]
    is_seen = any(os.path.exists(path) for path in paths)  # noqa: PTH110 - Path's raises where the way there is closed
    return is_seen or not all(path.startswith("/") for path in paths)


async def _listen(woke: Callable[[], None], address: str) -> None:
    with discreet():
        try:
            await asyncio.to_thread(import_module, "dbus_fast.aio")
            await _hear(woke, address)
        except Exception as error:  # noqa: BLE001 - whatever the package makes of a bus and its nonsense; see rule 2
            log.debug("Done without logind: %s.", type(error).__name__)


async def _hear(woke: Callable[[], None], address: str) -> None:
    """Hear the bus until this is cancelled. Raises whatever the package does."""
    from dbus_fast import Message, MessageFlag  # noqa: PLC0415 - an extra, imported where it is used
    from dbus_fast.aio import MessageBus  # noqa: PLC0415

    loop = asyncio.get_running_loop()

    def hear(message: Message) -> None:
        if (message.interface, message.member, message.body) == (MANAGER, SIGNAL, AWAKE):
            loop.call_soon(woke)  # its errors are the loop's to report, not the package's

    subscribe = Message(
        destination="org.freedesktop.DBus",
        path="/org/freedesktop/DBus",
        interface="org.freedesktop.DBus",
        member="AddMatch",
        signature="s",
        body=[RULE],
        flags=MessageFlag.NO_REPLY_EXPECTED,  # a refusal would change nothing
    )
    bus: Any = MessageBus(address)  # the package does not tell all of its types
    bus.add_message_handler(hear)
    async with asyncio.timeout(PATIENCE):
        await bus.connect()
    try:
        await bus.send(subscribe)  # no deadline: a new socket has room for it
        await asyncio.Event().wait()  # until it is cancelled; of a bus that is gone the package lets go by itself
    finally:
        bus.disconnect()
        await bus.wait_for_disconnect()  # no deadline: the socket is shut, and its end is read next
