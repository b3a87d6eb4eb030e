"""What becomes of a send, which are the same, and how many are kept."""

import pytest

from outlast.send import MOST_BYTES, MOST_SENDS, SETTLED, TRANSITIONS, Kind, Send, State, digest, fits


def test_every_state_has_its_row_and_an_answer_is_for_good() -> None:
    assert TRANSITIONS.keys() == set(State)
    assert {State.ACCEPTED, State.REJECTED} == SETTLED
    assert all(not TRANSITIONS[state] for state in SETTLED)


def test_nothing_becomes_queued_again_and_nothing_is_answered_that_was_not_sent() -> None:
    assert not any(State.QUEUED in following for following in TRANSITIONS.values())
    assert not TRANSITIONS[State.QUEUED] & SETTLED


@pytest.mark.parametrize("state", list(State))
def test_a_send_is_settled_in_just_the_states_that_lead_nowhere(state: State) -> None:
    send = Send(number=1, kind=Kind.START, run="r", owner=None, state=state, tries=1, code=None, content=b'{"a":1}')
    assert send.is_settled == (not TRANSITIONS[state])


def test_what_was_asked_is_told_and_stays_out_of_what_is_printed() -> None:
    send = Send(
        number=1, kind=Kind.STOP, run="r", owner=None, state=State.SENT, tries=1, code=None, content=b'{"a":"secret"}'
    )
    assert send.said == {"a": "secret"}
    assert "secret" not in repr(send)


def test_the_same_said_in_another_order_is_the_same() -> None:
    assert digest(b'{"a":1,"b":[1,2]}') == digest(b'{ "b": [1, 2], "a": 1 }')
    assert digest(b'{"a":1,"b":[1,2]}') != digest(b'{"a":1,"b":[2,1]}')


@pytest.mark.parametrize(
    ("size", "sends", "held", "fitting"),
    [
        (1, 0, 0, True),
        (1, MOST_SENDS - 1, 0, True),
        (1, MOST_SENDS, 0, False),
        (1, 0, MOST_BYTES - 1, True),
        (2, 0, MOST_BYTES - 1, False),
        (MOST_BYTES, 0, 0, True),
        (MOST_BYTES + 1, 0, 0, False),
    ],
)
def test_sends_are_bounded_in_number_and_bytes(size: int, sends: int, held: int, *, fitting: bool) -> None:
    assert fits(size, sends=sends, held=held) is fitting
