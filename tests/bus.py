"""A system bus on a unix socket that says what a test lets it say, marshalled by the package that is to hear it."""

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias, cast

from dbus_fast import Message, MessageType
from dbus_fast._private.unmarshaller import Unmarshaller


class Step(StrEnum):
    """What a bus answers, in its order; a subscription wants no answer, so what is said then comes unasked."""

    AUTH = "auth"
    HELLO = "hello"
    SUBSCRIBED = "subscribed"


HANGS = None
HANGS_UP = b""
Says: TypeAlias = bytes | None
"""What is said instead of what a bus should say."""


def signal(member: str, *body: bool, interface: str = "org.freedesktop.login1.Manager") -> bytes:
    """Return a signal of logind's."""
    return bytes(
        Message(
            message_type=MessageType.SIGNAL,
            path="/org/freedesktop/login1",
            interface=interface,
            member=member,
            signature="b" * len(body),
            body=list(body),
            sender=":1.1",
            serial=1,
        )._marshall(False)
    )


class ScriptedBus:
    """A bus at `place` that keeps to its script; a step that the script does not name is done as it should be."""

    def __init__(self, place: Path, script: Mapping[Step, Says]) -> None:
        self.address = f"unix:path={place}"
        self.connections = 0
        self.rules: list[str] = []
        self.subscribed = asyncio.Event()
        self.left = asyncio.Event()
        self._script = script
        self._writer: asyncio.StreamWriter | None = None

    async def say(self, *said: bytes) -> None:
        """Say something in one go."""
        assert self._writer is not None
        self._writer.write(b"".join(said))
        await self._writer.drain()

    def hang_up(self) -> None:
        """End the connection."""
        assert self._writer is not None
        self._writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writer = writer
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            assert (await reader.readuntil(b"\r\n")).startswith(b"\0AUTH EXTERNAL ")
            await self._do(Step.AUTH, b"OK 0123456789abcdef0123456789abcdef\r\n")
            assert await reader.readuntil(b"\r\n") == b"BEGIN\r\n"
            hello = await self._heard(reader)
            assert hello.member == "Hello"
            name = Message.new_method_return(hello, "s", [":1.7"])
            name.serial = 1
            await self._do(Step.HELLO, bytes(name._marshall(False)))
            rule = await self._heard(reader)
            assert rule.member == "AddMatch"
            self.rules += rule.body
            await self._do(Step.SUBSCRIBED, HANGS)
            self.subscribed.set()
            await reader.read()
        self.left.set()
        writer.close()

    async def _do(self, step: Step, usual: Says) -> None:
        said = self._script.get(step, usual)
        if said is None:
            return
        await self.say(said)
        if said == HANGS_UP:
            self.hang_up()

    async def _heard(self, reader: asyncio.StreamReader) -> Message:
        head = await reader.readexactly(16)
        body, _serial, fields = struct.unpack("<III", head[4:])
        rest = await reader.readexactly((fields + 7) // 8 * 8 + body)
        message = Unmarshaller(cast("Any", BytesIO(head + rest))).unmarshall()
        assert message is not None
        return message


@asynccontextmanager
async def scripted_bus(folder: Path, script: Mapping[Step, Says] | None = None) -> AsyncIterator[ScriptedBus]:
    """Yield a bus that listens in a folder."""
    place = folder / "bus"
    bus = ScriptedBus(place, script or {})
    server = await asyncio.start_unix_server(bus.serve, place)
    try:
        yield bus
    finally:
        server.close()
        await server.wait_closed()
