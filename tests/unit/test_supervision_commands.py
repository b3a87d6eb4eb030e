"""Commands are facts, and what is held is what they say."""

from outlast.supervision.commands import Adopt, Gather, Open, Probe, Release
from outlast.supervision.inputs import Close, Ready, Want
from outlast.supervision.link import Link
from outlast.supervision.phase import Wakeup
from tests.machine import Machine, live


def test_commands_are_facts() -> None:
    assert Open(attempt=1) == Open(attempt=1, transport=0)
    assert len({Open(attempt=1), Release(attempt=1), Adopt(attempt=1), Probe(link=1, probe=1), Gather(link=1)}) == 5


def test_an_attempt_is_opened_adopted_and_released_under_one_number() -> None:
    machine = Machine(link=Link())
    assert machine.tell(Want()) == [Open(attempt=1)]
    assert machine.tell(Ready(attempt=1)) == [Adopt(attempt=1)]
    assert machine.tell(Close()) == [Release(attempt=1)]


def test_the_new_link_is_adopted_before_the_old_one_is_released() -> None:
    machine = live()
    assert machine.wake(Wakeup.USER, 1.0) == [Open(attempt=2)]
    assert machine.tell(Ready(attempt=2)) == [Adopt(attempt=2), Release(attempt=1)]
