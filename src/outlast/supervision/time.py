"""The rule about time: what has come due is done, one thing at a time, and our own stall is nobody else's fault."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from types import MappingProxyType
from typing import Final

from outlast.supervision import questions
from outlast.supervision.attempts import Consequence, afresh, attempt, fail
from outlast.supervision.change import changed
from outlast.supervision.commands import Release
from outlast.supervision.hints import reroute
from outlast.supervision.inputs import Failed, Tick, Woken
from outlast.supervision.link import Due, Link, Moment
from outlast.supervision.phase import Trouble, Wakeup
from outlast.supervision.profile import GRACE, LATE


def tick(link: Link, _tick: Tick, at: Moment) -> Consequence:
    """Do what has come due; much too late is our own stall, and what has come in meanwhile is read first."""
    told_at = link.deadline
    assert told_at is not None, "what is wanted goes on by itself"
    if at.now < told_at:
        return link, ()
    if at.now - told_at > LATE:
        return changed(link, grace=at.now + GRACE), ()
    _, due = min(link.dues(), key=itemgetter(0))
    return RULES[due](link, at)


def give_up(link: Link, at: Moment) -> Consequence:
    """End an attempt that took too long; it is let go once, whatever it is waiting for."""
    assert link.candidate is not None, "its deadline has come"
    late = link.candidate.id
    failed, commands = fail(link, Failed(attempt=late, trouble=Trouble.SILENT), at)
    return failed, (Release(attempt=late), *commands)


def go_around(link: Link, at: Moment) -> Consequence:
    """Do what another path asked for sooner than two seconds after the one before."""
    return reroute(link, Woken(wakeup=Wakeup.PATH_CHANGED), at)


RULES: Final[Mapping[Due, Callable[[Link, Moment], Consequence]]] = MappingProxyType(
    {
        Due.ESTABLISHMENT: give_up,
        Due.RETRY: attempt,
        Due.PATH: go_around,
        Due.EVIDENCE: questions.gather,
        Due.FADED: questions.fade,
        Due.STAGE: questions.advance,
        Due.SILENCE: questions.wonder,
        Due.DOUBT: questions.doubt,
        Due.DEADLOCK: questions.deadlock,
        Due.BUDGET: afresh,
    }
)
"""What time does to a link, each when it has come due."""
