"""What a kernel says of a connection: read from recorded bytes, and asked of real ones whose other end is in need."""

import asyncio
import ctypes
import os
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from subprocess import PIPE, Popen

import httpx2
import pytest

from outlast.client.kernel import (
    Handshake,
    State,
    Transmission,
    acknowledges,
    own_address,
    parse,
    read,
)

pytestmark = pytest.mark.anyio
linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how a connection stands")

# Recorded on Linux 6.18: after 1,000 bytes that were acknowledged, and with 100 more that nothing came back for.
ACKNOWLEDGED = bytes.fromhex(
    "010000000007aa01e01c030000000000008a000018020000000000000000000000000000000000000000000068000000000000006800"
    "000068000000ffff0000d7ff00002d00000018000000ffffff7f0b000000cbff00000400000000000000d7ff000000000000c82a3172"
    "04000000ffffffffffffffffe9030000000000000000000000000000030000000200000000000000120000000000000001000000aaea"
    "fb74000000000000000000000000000000000000000000000000000000000200000000000000e8030000000000000000000000000000"
    "00000000000000000000000000140100000001000000000000000000000000000000000000000000"
)
UNANSWERED = bytes.fromhex(
    "010403000307aa0100e7180000000000008a000018020000010000000000000001000000010000000000000054010000000000005808"
    "000058080000ffff0000d7ff00002d00000018000000ffffff7f01000000cbff00000400000000000000d7ff000004000000c82a3172"
    "04000000ffffffffffffffffe9030000000000000000000000000000080000000200000000000000120000000000000006000000aaea"
    "fb7400000000a0d21e0000000000000000000000000000000000000000000200000000000000dc050000000000009001000000000000"
    "00000000000000000000000000140100000001000300000003000100400600000000000000000000"
)
LINUX_4_6 = 148
"""Bytes of the struct on the oldest kernel that tells enough."""

# ---- recorded bytes -------------------------------------------------------------------------------


def parsed(info: bytes) -> Transmission:
    found = parse(info)
    assert found is not None
    return found


def test_a_kernels_struct_is_read() -> None:
    assert parsed(ACKNOWLEDGED) == Transmission(
        state=State.ESTABLISHED,
        unacknowledged=0,
        unsent=0,
        retransmits=0,
        backoff=0,
        acknowledged=1001,  # the connection's own beginning counts as one
        received=0,
        last_acknowledged=0.104,
    )
    assert parsed(UNANSWERED) == Transmission(
        state=State.ESTABLISHED,
        unacknowledged=1,
        unsent=0,
        retransmits=3,
        backoff=3,
        acknowledged=1001,
        received=0,
        last_acknowledged=2.136,
    )


def test_a_longer_struct_is_read_the_same_and_a_shorter_one_down_to_what_is_needed() -> None:
    assert parse(ACKNOWLEDGED + bytes(64)) == parse(ACKNOWLEDGED[:LINUX_4_6]) == parse(ACKNOWLEDGED)
    for short in (ACKNOWLEDGED[: LINUX_4_6 - 1], ACKNOWLEDGED[:104], b""):
        assert parse(short) is None


def test_bytes_that_wait_to_be_sent_are_read_from_the_structs_end() -> None:
    assert parsed(ACKNOWLEDGED[: LINUX_4_6 - 4] + struct.pack("=I", 77)).unsent == 77


def test_a_state_that_is_not_known_yet_is_unknown() -> None:
    assert [parsed(bytes([number]) + ACKNOWLEDGED[1:]).state for number in (0, 7, 8, 11, 12, 255)] == [
        State.UNKNOWN,
        State.CLOSED,
        State.CLOSE_WAIT,
        State.CLOSING,
        State.UNKNOWN,
        State.UNKNOWN,
    ]


# ---- judgement ------------------------------------------------------------------------------------

BEFORE = parsed(ACKNOWLEDGED)
AFTER = replace(BEFORE, acknowledged=BEFORE.acknowledged + 100)


def test_what_was_sent_and_acknowledged_since_is_evidence() -> None:
    assert acknowledges(BEFORE, AFTER, is_direct=True)


@pytest.mark.parametrize(
    "after",
    [
        BEFORE,
        replace(AFTER, unacknowledged=1),
        replace(AFTER, unacknowledged=1, retransmits=1, backoff=1),
        replace(AFTER, unsent=1),
        replace(AFTER, state=State.CLOSE_WAIT),
        replace(AFTER, state=State.CLOSED),
        replace(AFTER, state=State.UNKNOWN),
        parsed(UNANSWERED),
    ],
    ids=["nothing sent", "part on its way", "repeated", "part unsent", "being closed", "closed", "unknown", "hole"],
)
def test_anything_less_is_no_evidence(after: Transmission) -> None:
    assert not acknowledges(BEFORE, after, is_direct=True)


def test_what_a_proxy_acknowledges_is_no_evidence() -> None:
    assert not acknowledges(BEFORE, AFTER, is_direct=False)


def test_where_nothing_is_known_there_is_no_evidence() -> None:
    assert not acknowledges(None, AFTER, is_direct=True)
    assert not acknowledges(BEFORE, None, is_direct=True)


# ---- real connections -----------------------------------------------------------------------------

SERVER = """
import socket
with socket.create_server(("127.0.0.1", 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
    print("accepted", flush=True)
    input()
"""


class Server:
    """A process that accepts one connection and reads nothing."""

    def __init__(self, process: "Popen[str]") -> None:
        self.process = process
        self.port = int(self.says())

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def stop(self) -> None:
        """Stop it as SIGSTOP does, and see it stopped."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server() -> Iterator[Server]:
    with Popen([sys.executable, "-c", SERVER], stdin=PIPE, stdout=PIPE, text=True) as process:
        try:
            yield Server(process)
        finally:
            process.kill()


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        server.says()
        yield connection


def now(connection: socket.socket) -> Transmission:
    found = read(connection)
    assert found is not None
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until something is so; it is the time limit of the test that ends this otherwise."""
    while not condition():
        await asyncio.sleep(0)


@linux
@pytest.mark.behaviour("P14")
async def test_a_stopped_server_still_acknowledges(server: Server) -> None:
    with connected(server) as connection:
        server.stop()
        before = now(connection)
        connection.sendall(b"are you there?")
        await until(lambda: acknowledges(before, now(connection), is_direct=True))
        assert now(connection).received == 0


@linux
async def test_a_stopped_server_acknowledges_a_request_over_a_new_connection(server: Server) -> None:
    server.stop()
    handshake = Handshake()
    async with httpx2.AsyncClient(trust_env=False) as client:
        asking = asyncio.create_task(client.get(f"http://127.0.0.1:{server.port}/", extensions={"trace": handshake}))
        await until(lambda: acknowledges(handshake.before, read(handshake.socket), is_direct=True))
        asking.cancel()
        with suppress(asyncio.CancelledError):
            await asking


def swallow(connection: socket.socket) -> None:
    """Drop everything that arrives for a connection before its kernel looks at it, as a black hole on the way does."""
    drop = ctypes.create_string_buffer(struct.pack("=HBBI", 0x06, 0, 0, 0))  # the one instruction: accept no byte
    program = struct.pack("HL", 1, ctypes.addressof(drop))
    attach_filter = 26  # SO_ATTACH_FILTER, which Python does not name; a kernel that refuses it says so
    try:
        connection.setsockopt(socket.SOL_SOCKET, attach_filter, program)
    except OSError as error:
        pytest.skip(f"a black hole: this kernel attaches no filter ({error.strerror})")


@linux
@pytest.mark.behaviour("P14")
async def test_a_black_hole_acknowledges_nothing(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        with theirs:
            swallow(theirs)
            before = now(ours)
            ours.sendall(b"are you there?")
            await until(lambda: now(ours).backoff >= 1)  # it was repeated, and repeated ever more rarely
            assert now(ours).retransmits >= 1
            assert not acknowledges(before, now(ours), is_direct=True)


@linux
async def test_a_killed_server_is_no_evidence_whether_it_resets_or_ends(server: Server) -> None:
    with connected(server) as connection:
        before = now(connection)
        connection.sendall(b"never read")
        await until(lambda: acknowledges(before, now(connection), is_direct=True))
        server.kill()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        assert now(connection).state is State.CLOSED
        assert not acknowledges(before, now(connection), is_direct=True)


@linux
async def test_an_end_in_order_is_no_evidence(server: Server) -> None:
    with connected(server) as connection:
        before = now(connection)
        server.kill()
        assert connection.recv(1) == b""
        assert now(connection).state is State.CLOSE_WAIT
        assert not acknowledges(before, replace(now(connection), acknowledged=before.acknowledged + 1), is_direct=True)


def test_where_the_kernel_does_not_tell_nothing_fails() -> None:
    assert read(None) is None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert read(ours) is None  # no connection of TCP
    assert read(ours) is None  # closed


# ---- the way to the socket ------------------------------------------------------------------------


Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering() -> AsyncIterator[str]:
    """Answer every request with the head of a stream that does not end."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        await reader.read()
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        await ended.wait()


@linux
async def test_a_streamed_response_and_its_request_lead_to_one_socket() -> None:
    handshake = Handshake()
    async with (
        answering() as url,
        httpx2.AsyncClient(trust_env=False) as client,
        client.stream("GET", url, extensions={"trace": handshake}) as response,
    ):
        assert handshake.socket is response.extensions["network_stream"].get_extra_info("socket")
        after = read(handshake.socket)
        assert handshake.before is not None
        assert after is not None
        assert after.received > handshake.before.received == 0


def test_a_response_that_came_without_a_network_was_asked_from_no_address() -> None:
    assert own_address(httpx2.Response(200)) is None


async def test_a_response_leads_to_the_address_that_its_server_saw_for_as_long_as_the_connection_is_kept() -> None:
    seen: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for last in (b"", b"connection: close\r\n"):
            await reader.readuntil(b"\r\n\r\n")
            host, port = writer.get_extra_info("peername")
            seen.append(f"{host}:{port}")
            writer.write(b"HTTP/1.1 204 No Content\r\n" + last + b"\r\n")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, httpx2.AsyncClient(trust_env=False) as client:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        first, last = [own_address(await client.get(url)) for _ in range(2)]
    assert [first, first] == seen
    assert last is None
