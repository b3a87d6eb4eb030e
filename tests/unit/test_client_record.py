"""What a heartbeat says is in the record; what makes no sense is not."""

import pytest

from outlast.client.record import RunRecord, noted
from outlast.log.cursor import Cursor
from outlast.log.event import JSON

RECORD = RunRecord(run="r1", place=Cursor(3, None), caught_up=True)


@pytest.mark.behaviour("M5")
def test_a_heartbeat_tells_of_the_run_and_leaves_the_readers_own_place_alone() -> None:
    said: dict[str, JSON] = {"status": "active", "recovering": {"takeover": 2}, "budget": {}, "loop_lag": 0.5}
    found = noted(RECORD, said)
    assert (found.place, found.caught_up) == (RECORD.place, True)
    assert (found.status, found.recovering, found.budget, found.loop_lag) == ("active", {"takeover": 2}, {}, 0.5)


@pytest.mark.behaviour("M5")
def test_recovering_ends_with_the_heartbeat_that_no_longer_says_so_and_nonsense_is_nothing() -> None:
    recovering = noted(RECORD, {"recovering": {"takeover": 2}})
    assert noted(recovering, {"recovering": None}).recovering is None
    odd: dict[str, JSON] = {"status": 7, "recovering": "soon", "budget": [], "loop_lag": "late"}
    assert noted(RECORD, odd) == RECORD
