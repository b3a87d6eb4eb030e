"""The one record of a link, and the sentence that says it."""

import pytest

from outlast.supervision.inputs import Close, Failed, Lost, Ready, WentOffline, Witnessed
from outlast.supervision.link import Link
from outlast.supervision.phase import Grade, Phase, Trouble, Wakeup
from outlast.supervision.profile import DESKTOP
from outlast.supervision.record import LinkRecord, record, sentence
from tests.machine import Machine, connecting, live


@pytest.mark.behaviour("M4")
def test_a_record_is_read_off_the_machine() -> None:
    machine = live()
    machine.wait(25.0)
    machine.tell(Witnessed(link=1, grade=Grade.KERNEL))
    assert record(machine.link) == LinkRecord(
        phase=Phase.BUSY,
        since=25.0,
        generation=1,
        last_heard=0.0,
        attempt=None,
        retry_at=None,
        trouble=None,
        evidence=Grade.KERNEL,
        can_send=True,
    )


@pytest.mark.behaviour("M4")
def test_a_wait_tells_which_attempt_comes_when_and_why() -> None:
    machine = connecting(DESKTOP)
    machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE), 1.0)
    told = record(machine.link)
    assert (told.attempt, told.retry_at, told.trouble, told.last_heard) == (2, 4.0, Trouble.UNREACHABLE, None)


def test_a_link_that_is_not_replaced_has_no_attempt() -> None:
    assert record(live().link).attempt is None


@pytest.mark.behaviour("M6")
def test_every_phase_has_its_sentence() -> None:
    def said(machine: Machine) -> str:
        return sentence(record(machine.link), now=machine.now)

    assert said(Machine(link=Link())) == "not connected"
    machine = connecting(DESKTOP)
    assert said(machine) == "connecting"
    machine.tell(Failed(attempt=1, trouble=Trouble.UNREACHABLE))
    machine.wait(1.0)
    assert said(machine) == "lost, retrying in 2 s"
    assert sentence(record(machine.link), now=4.0) == "lost, retrying in 0 s"
    machine.wait(3.0)
    assert said(machine) == "connecting, attempt 2"
    machine.tell(Ready(attempt=2))
    assert said(machine) == "connected"
    machine.wait(32.0)
    assert said(machine) == "slow, last heard 29 s ago"
    machine.tell(Witnessed(link=2, grade=Grade.BEACON))
    assert said(machine) == "server is busy, your run continues"
    machine.wake(Wakeup.USER)
    assert said(machine) == "moving to a new connection"
    machine.tell(WentOffline())
    machine.tell(Lost(link=2, trouble=Trouble.BROKEN))
    assert said(machine) == "offline"
    machine.tell(Close())
    assert said(machine) == "closed"


@pytest.mark.behaviour("M6")
@pytest.mark.parametrize(
    ("trouble", "told"),
    [
        (Trouble.CREDENTIALS, "sign in again"),
        (Trouble.VERSION, "update needed"),
        (Trouble.REVOKED, "sign in again"),
        (Trouble.ADDRESS, "check the address"),
        (Trouble.CONFIGURATION, "another server answers at this address"),
        (Trouble.CERTIFICATE, "the server's certificate cannot be trusted"),
    ],
)
def test_a_block_says_what_has_to_be_done(trouble: Trouble, told: str) -> None:
    machine = connecting()
    machine.tell(Failed(attempt=1, trouble=trouble))
    assert sentence(record(machine.link), now=0.0) == told
