"""The rule about time: what has come due is done, one thing at a time, and our own stall is nobody else's fault."""

from typing import assert_never

from outlast.supervision import questions
from outlast.supervision.attempts import Outcome, afresh, attempt, fail
from outlast.supervision.change import changed
from outlast.supervision.commands import Release
from outlast.supervision.hints import reroute
from outlast.supervision.inputs import Failed, Tick, Woken
from outlast.supervision.link import Due, Link, Moment
from outlast.supervision.phase import Trouble, Wakeup
from outlast.supervision.profile import GRACE, LATE


def tick(link: Link, _tick: Tick, at: Moment) -> Outcome:
    """Do what has come due; much too late is our own stall, and what has come in meanwhile is read first."""
    told_at = link.deadline
    if told_at is None or at.now < told_at:
        return link, ()
    if at.now - told_at > LATE:
        return changed(link, grace=at.now + GRACE), ()
    due_at, due = min(link.dues(), key=lambda each: each[0])
    judging = changed(link, grace=None)
    return _do(judging, due, at) if due_at <= at.now else (judging, ())


def _do(link: Link, due: Due, at: Moment) -> Outcome:
    match due:
        case Due.ESTABLISHMENT:
            return _give_up(link, at)
        case Due.RETRY:
            return attempt(link, at)
        case Due.PATH:
            return reroute(link, Woken(wakeup=Wakeup.PATH_CHANGED), at)
        case Due.SILENCE:
            return questions.ask_whether_there(link, at, within=link.profile.probe, silent=True)
        case Due.STAGE:
            return questions.advance(link, at)
        case Due.DOUBT:
            return questions.doubt(link, at)
        case Due.DEADLOCK:
            return questions.deadlock(link, at)
        case Due.EVIDENCE:
            return questions.gather(link, at)
        case Due.BUDGET:
            return afresh(link, at)
    assert_never(due)


def _give_up(link: Link, at: Moment) -> Outcome:
    """End an attempt that took too long; it is let go once, whatever it is waiting for (K7, K8)."""
    assert link.candidate is not None, "its deadline has come"
    late = link.candidate.id
    failed, commands = fail(link, Failed(attempt=late, trouble=Trouble.SILENT), at)
    return failed, (Release(attempt=late), *commands)
