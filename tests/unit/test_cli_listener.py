"""Taking the port to answer at, and the sentence where it cannot be had."""

import asyncio
import os
import socket

import pytest

from outlast.assembly.outlast import Outlast
from outlast.cli.listener import UNHEARD, address_of, check_exposure, listen, resolve
from outlast.errors import PortTaken, SettingsError


def test_a_free_port_is_taken_at_once() -> None:
    with listen(resolve("127.0.0.1", 0)) as listener:
        address = address_of(listener)
        assert address == f"http://127.0.0.1:{listener.getsockname()[1]}"
        with socket.create_connection(listener.getsockname()):
            pass


def test_a_port_that_is_listened_on_is_told_apart() -> None:
    with listen(resolve("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=f"Port {port} is in use"):
            listen(resolve("127.0.0.1", port))


def test_a_port_comes_back_at_once_though_its_connections_linger() -> None:
    with listen(resolve("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            accepted, _ = listener.accept()
            accepted.close()  # who closes first lingers
            connection.recv(1)
    with listen(resolve("127.0.0.1", port)) as again:
        assert again.getsockname()[1] == port


@pytest.mark.parametrize("host", ["", "256.1.1.1", "no such host", "outlast.invalid", "\udcff", "a" * 300])
def test_a_host_that_is_not_known_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="--host is no address"):
        resolve(host, 8400)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"--host 192\.0\.2\.1 is no address of this machine"):
        listen(resolve("192.0.2.1", 0))  # set aside for documentation, so nobody has it


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="this user may listen on any port")
def test_a_port_that_needs_rights_is_refused() -> None:
    with pytest.raises(SettingsError, match="needs more rights"):
        listen(resolve("127.0.0.1", 1))


@pytest.mark.attack("Z16")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_other_machines_are_kept_out_where_nobody_is_asked_who_they_are(host: str) -> None:
    with pytest.raises(SettingsError, match="lets other machines in"):
        check_exposure(Outlast("sqlite://"), resolve(host, 8400))


@pytest.mark.attack("Z16")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "localhost", "::1"])
def test_this_machine_is_always_answered(host: str) -> None:
    check_exposure(Outlast("sqlite://"), resolve(host, 8400))


@pytest.mark.attack("Z16")
def test_other_machines_are_let_in_by_those_who_say_so() -> None:
    async def authenticate(_connection: object) -> str:
        return "ann"

    for open_one in (Outlast("sqlite://", authenticate=authenticate), Outlast("sqlite://", allow_anonymous=True)):
        check_exposure(open_one, resolve("0.0.0.0", 8400))


@pytest.mark.behaviour("F11")
@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system has no such option")
def test_a_connection_whose_client_is_gone_is_freed_within_the_stated_bound() -> None:
    with listen(resolve("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()[:2]):
        connection, _ = listener.accept()
        with connection:
            unheard = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert unheard == UNHEARD * 1000


@pytest.mark.anyio
async def test_its_connections_send_what_is_small_at_once() -> None:
    delays = asyncio.get_running_loop().create_future()

    async def served(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        delays.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = listen(resolve("127.0.0.1", 0))
    async with await asyncio.start_server(served, sock=listener):
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        assert await reader.read() == b""
        assert await delays != 0
        writer.close()
