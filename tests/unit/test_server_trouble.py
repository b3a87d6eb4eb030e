"""Trouble is told when it begins, and not again before it was over."""

from outlast.errors import StoreBusy
from outlast.facts import Fact, StoreTroubled
from outlast.server.trouble import Trouble


def test_trouble_is_told_once_until_it_is_over() -> None:
    told: list[Fact] = []
    trouble = Trouble("look", told.append)
    trouble.over()
    trouble.met(StoreBusy("locked"))
    trouble.met(ZeroDivisionError())
    assert told == [StoreTroubled(during="look", error="store_busy")]
    trouble.over()
    trouble.met(ZeroDivisionError())
    assert told[1:] == [StoreTroubled(during="look", error="ZeroDivisionError")]
