"""The table has every input and every phase, its terminal row is empty, and its rules say what they do."""

from outlast.supervision.phase import Phase, Wakeup
from outlast.supervision.table import RULES, TRANSITIONS


def test_every_phase_has_its_row_and_a_closed_link_stays_closed() -> None:
    assert set(TRANSITIONS) == set(Phase)
    assert TRANSITIONS[Phase.CLOSED] == frozenset()
    assert not any(phase in after for phase, after in TRANSITIONS.items())


def test_every_phase_but_the_last_can_be_closed() -> None:
    assert all(Phase.CLOSED in after for phase, after in TRANSITIONS.items() if phase is not Phase.CLOSED)


def test_nothing_happens_to_a_closed_link() -> None:
    assert not any(Phase.CLOSED in row for row in RULES.values())


def test_every_rule_says_in_a_line_what_it_does() -> None:
    said = [(rule.__doc__ or "").splitlines() for row in RULES.values() for rule in row.values()]
    assert all(lines and lines[0].endswith(".") for lines in said)


def test_a_changed_path_wakes_nothing_that_waits() -> None:
    assert not {Phase.BACKOFF, Phase.BLOCKED, Phase.OFFLINE} & set(RULES[Wakeup.PATH_CHANGED])
