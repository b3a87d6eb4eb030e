"""The words: phases, troubles, wakeups, and the evidence."""

import re
from itertools import pairwise

import pytest

from outlast.supervision.phase import SENDING, STRENGTH, WAKES, Grade, Phase, Trouble, Wakeup


def test_sending_is_possible_where_there_is_a_link() -> None:
    assert {Phase.LIVE, Phase.SLOW, Phase.BUSY, Phase.SWITCHING} == SENDING


@pytest.mark.parametrize("kind", [Phase, Trouble, Wakeup, Grade])
def test_every_word_is_the_same_in_every_language(kind: type[Phase | Trouble | Wakeup | Grade]) -> None:
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", word) for word in kind)


@pytest.mark.behaviour("K12")
def test_refused_credentials_wait_for_others_an_old_version_for_an_update_and_another_server_for_a_person() -> None:
    assert WAKES[Trouble.CREDENTIALS] == WAKES[Trouble.REVOKED] == {Wakeup.CREDENTIALS_CHANGED}
    assert WAKES[Trouble.VERSION] == {Wakeup.UPDATED}
    assert WAKES[Trouble.ADDRESS] == WAKES[Trouble.CONFIGURATION] == frozenset()


def test_the_stronger_the_evidence_the_earlier_it_is_named() -> None:
    assert all(STRENGTH[one] > STRENGTH[other] for one, other in pairwise(Grade))
