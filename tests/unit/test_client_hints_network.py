"""Reading the network from a kernel, scripted with what a real one answered, and from this machine's own."""

import errno
import os
import socket
import sys
from collections.abc import Iterator

import pytest

from outlast.client.hints.network import REPORTS, Network
from tests.netlink import CONTAINER, MACHINE, Kernel, addressed

REPORT = addressed(CONTAINER[1], bytes(8))
"""Words of the kernel's that nobody asked for."""


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with Kernel(MACHINE) as kernel:
        yield kernel


def test_a_reading_asks_everything_and_returns_the_path(kernel: Kernel) -> None:
    network = Network(kernel)
    first = network.read()
    assert first is not None
    assert (len(first.addresses), len(first.routes), kernel.asked) == (2, 2, 4)
    assert network.read() == first


def test_where_no_way_leads_out_for_one_family_the_rest_is_the_path() -> None:
    with Kernel(CONTAINER) as kernel:
        path = Network(kernel).read()
        assert path is not None
        assert (len(path.addresses), len(path.routes)) == (2, 1)


@pytest.mark.behaviour("N5")
@pytest.mark.parametrize("question", range(4))
def test_a_reading_that_may_be_older_than_a_report_is_dropped_and_the_next_one_counts(question: int) -> None:
    class Changing(Kernel):
        def send(self, data: object, flags: int = 0, /) -> int:
            if self.asked == question:
                self.waiting.append(REPORT)
            return super().send(data, flags)

    with Changing(MACHINE) as kernel:
        network = Network(kernel)
        assert network.read() is None
        assert network.read() is not None


@pytest.mark.behaviour("N5")
@pytest.mark.parametrize("question", range(4))
def test_a_reading_during_which_reports_were_lost_is_dropped(question: int) -> None:
    class Overrun(Kernel):
        def send(self, data: object, flags: int = 0, /) -> int:
            if self.asked != question:
                return super().send(data, flags)
            self.asked += 1
            self.waiting.append(OSError(errno.ENOBUFS, "No buffer space available"))
            return 0  # nor was there room for the answer

    with Overrun(MACHINE) as kernel:
        network = Network(kernel)
        assert network.read() is None
        assert network.read() is not None


def test_a_listing_that_changed_while_it_was_made_is_dropped(kernel: Kernel) -> None:
    interrupted = bytearray(MACHINE[0])
    interrupted[6] |= 0x10  # NLM_F_DUMP_INTR
    kernel.recording = (bytes(interrupted), *MACHINE[1:])
    assert Network(kernel).read() is None


@pytest.mark.behaviour("N5")
def test_reports_are_taken_and_told_once(kernel: Kernel) -> None:
    network = Network(kernel)
    assert not network.heard()
    kernel.waiting += [REPORT, REPORT]
    assert network.heard()
    assert not network.heard()
    kernel.waiting.append(OSError(errno.ENOBUFS, "No buffer space available"))
    assert network.heard(), "that some were lost is a report"


def test_a_flood_of_reports_is_taken_in_parts(kernel: Kernel) -> None:
    network = Network(kernel)
    kernel.waiting += [REPORT] * (REPORTS + 1)
    assert network.heard()
    assert len(kernel.waiting) == 1


def test_what_another_process_says_is_never_taken_for_an_answer(kernel: Kernel) -> None:
    kernel.sender = os.getpid()
    network = Network(kernel)
    assert network.read() is None
    kernel.sender = 0
    assert network.read() is not None


@pytest.mark.behaviour("N6")
def test_a_kernel_that_refuses_to_list_is_no_source_and_not_a_machine_without_a_network(kernel: Kernel) -> None:
    no_way_out = CONTAINER[3]
    kernel.recording = (MACHINE[0], no_way_out, *MACHINE[2:])
    with pytest.raises(OSError, match="does not list"):
        Network(kernel).read()


@pytest.mark.behaviour("N6")
def test_a_listing_that_a_kernel_gave_up_is_no_machine_without_a_network(kernel: Kernel) -> None:
    given_up = bytearray(MACHINE[1])
    given_up[-4:] = (-errno.EMSGSIZE).to_bytes(4, sys.byteorder, signed=True)
    kernel.recording = (MACHINE[0], bytes(given_up), *MACHINE[2:])
    with pytest.raises(OSError, match="does not list"):
        Network(kernel).read()


@pytest.mark.behaviour("N6")
def test_a_kernel_that_does_not_answer_at_once_is_no_source(kernel: Kernel) -> None:
    kernel.recording = (MACHINE[0][:1100], *MACHINE[1:])  # the listing has no end
    with pytest.raises(BlockingIOError):
        Network(kernel).read()


def test_closing_twice_is_harmless(kernel: Kernel) -> None:
    network = Network(kernel)
    network.close()
    network.close()
    assert kernel.fileno() == -1


# ---- this machine's kernel ------------------------------------------------------------------------


def test_this_machine_is_read_or_is_no_source() -> None:
    network = Network.subscribe()
    if network is None:
        if sys.platform == "linux":
            pytest.skip("netlink: this sandbox lets nobody subscribe")
        return
    try:
        assert network.fileno() >= 0
        network.heard()
        network.read()
    finally:
        network.close()


@pytest.mark.behaviour("N6")
@pytest.mark.skipif(sys.platform != "linux", reason="netlink is Linux's")
def test_where_there_is_no_room_for_a_subscription_there_is_no_source() -> None:
    import resource  # noqa: PLC0415 - not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as highest:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(highest.fileno(), 3), hard))
        try:
            found = Network.subscribe()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found is None
