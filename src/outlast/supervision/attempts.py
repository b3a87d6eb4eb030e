"""The rules about attempts: begun, come to nothing, become the link, waited for, and what ends one.

Rules:
1. At most one attempt is in flight, and at most one link stands beside it: making comes before breaking (R1).
2. An attempt that fails leaves alone a link that lives. One that nothing speaks for is let go with it.
3. The last trouble stays visible until a link is established (K6).
"""

from typing import TypeAlias

from outlast.supervision.change import changed
from outlast.supervision.commands import Adopt, Command, Open, Release
from outlast.supervision.inputs import Drained, Failed, Lost, Ready
from outlast.supervision.ladder import Ladder, advice
from outlast.supervision.link import Candidate, Current, Link, Moment
from outlast.supervision.phase import WAKES, Trouble
from outlast.supervision.profile import LONGEST_HEARTBEAT, YOUNG_DEATHS

Outcome: TypeAlias = tuple[Link, tuple[Command, ...]]
"""The next state, and what is to be done."""


# ---- rules ----------------------------------------------------------------------------------------


def establish(link: Link, ready: Ready, at: Moment) -> Outcome:
    """Make the attempt the link: what is followed moves over, and the old link is let go."""
    promised = min(advice(ready.heartbeat or 0.0), LONGEST_HEARTBEAT)
    current = Current(id=ready.attempt, ready_at=at.now, heard_at=at.now, heartbeat=promised or link.profile.heartbeat)
    before = () if link.current is None else (Release(attempt=link.current.id),)
    established = changed(
        link,
        generation=link.generation + 1,
        current=current,
        candidate=None,
        must_move=False,
        trouble=None,
        ladder=changed(link.ladder, spread=0.0, floor=0.0),
    )
    return established, (Adopt(attempt=ready.attempt), *before)


def fail(link: Link, failed: Failed, at: Moment) -> Outcome:
    """Wait along the ladder, or block; a link that lives is left alone."""
    assert link.candidate is not None, "nothing else fails"
    trouble, is_woken = _within_restart(link, failed.trouble, at), link.candidate.woken
    link = changed(link, candidate=None, trouble=trouble)
    if trouble in {Trouble.FOREIGN, Trouble.SILENT}:
        link = _died_young(link)
    if link.current is not None and _lives(link, link.current, at):
        if not link.must_move and link.current.suspicion is None:
            return changed(link, trouble=None), ()  # it is as good as before
        if trouble not in WAKES:
            return wait(link, at, pause=failed.pause), ()
    bare, commands = release(link)
    if trouble in WAKES:
        return changed(bare, block=trouble), commands
    waiting = wait(bare, at, pause=failed.pause)
    if not is_woken:
        return waiting, commands
    begun, opened = attempt(waiting, at)
    return begun, (*commands, *opened)


def lose(link: Link, lost: Lost, at: Moment) -> Outcome:
    """Try again: at once where the profile is prompt and this is the first time, otherwise along the ladder."""
    is_first = link.ladder.failures == 0
    link = changed(outlived(link, at), current=None, must_move=False, trouble=lost.trouble, path_changed=False)
    if lost.trouble in WAKES:
        bare, commands = release(link)
        return changed(bare, block=lost.trouble), commands
    link = changed(link, lost_at=at.now)
    if link.is_replacing and link.is_reachable:
        return link, ()  # its replacement is under way, or has its time
    if link.profile.prompt and is_first and not advice(lost.pause):
        return attempt(link, at)
    if not link.is_reachable:
        return release(link)
    return wait(link, at, pause=lost.pause, counts=link.ladder.failures == 0), ()


def move(link: Link, drained: Drained, at: Moment) -> Outcome:
    """Replace the link at a time of our own within the spread; it serves until it ends."""
    spread = advice(drained.spread)
    moving = changed(link, ladder=changed(link.ladder, spread=spread), must_move=True, trouble=Trouble.DRAINING)
    if link.candidate is not None:
        return moving, ()
    return changed(moving, retry_at=at.now + at.jitter * spread), ()


# ---- what rules are made of -----------------------------------------------------------------------


def attempt(link: Link, at: Moment) -> Outcome:
    """Begin an attempt; one in flight ends. Without a network nothing begins, and nothing is held."""
    if not link.is_reachable:
        return release(link)
    ended = () if link.candidate is None else (Release(attempt=link.candidate.id),)
    number = link.attempts + 1
    candidate = Candidate(id=number, until=at.now + link.profile.establishment)
    begun = changed(link, attempts=number, candidate=candidate, retry_at=None)
    return begun, (*ended, Open(attempt=number, transport=link.transport))


def afresh(link: Link, at: Moment) -> Outcome:
    """Begin an attempt as if nothing had failed before."""
    return attempt(changed(link, ladder=Ladder(), block=None), at)


def release(link: Link) -> Outcome:
    """Let go of the attempt and of the link, and wait for nothing."""
    held = [each.id for each in (link.candidate, link.current) if each is not None]
    bare = changed(link, candidate=None, current=None, retry_at=None, must_move=False, path_changed=False)
    return bare, tuple(Release(attempt=each) for each in held)


def wait(link: Link, at: Moment, *, pause: float = 0.0, counts: bool = True) -> Link:
    """Wait for the next attempt, after one more failure where it `counts`. Without a network there is no next one."""
    pause = advice(pause)
    ladder = changed(
        link.ladder,
        failures=link.ladder.failures + counts,
        floor=at.now + pause if pause else link.ladder.floor,
    )
    if not link.is_reachable:
        return changed(link, ladder=ladder, retry_at=None)
    return changed(link, ladder=ladder, retry_at=at.now + ladder.wait(link.profile, now=at.now, jitter=at.jitter))


def outlived(link: Link, at: Moment) -> Link:
    """Return the link with its ladder as it is once the current one is over: a long life begins it anew (K15)."""
    current = link.current
    assert current is not None, "there was one"
    is_stable = at.now - current.ready_at >= link.profile.stable
    if is_stable and (current.progressed or not link.profile.needs_progress):
        return changed(link, ladder=changed(link.ladder, failures=0), young_deaths=0)
    return _died_young(changed(link, ladder=changed(link.ladder, failures=link.ladder.failures + 1)))


def _within_restart(link: Link, trouble: Trouble, at: Moment) -> Trouble:
    """Forgive a server that restarts: it may not know yet whom it trusts (N4)."""
    restarts = link.lost_at is not None and at.now - link.lost_at < link.profile.stable
    return Trouble.BUSY if trouble is Trouble.CREDENTIALS and restarts else trouble


def _lives(link: Link, current: Current, at: Moment) -> bool:
    """Say whether something speaks for the link: its own voice, or fresh evidence."""
    if current.suspicion is None:
        return at.now < current.silent_at
    return current.witness is not None and at.now - current.witness.at < link.profile.evidence_lasts


def _died_young(link: Link) -> Link:
    """Count an early death of this transport; after a few in a row it is the next one's turn (R13)."""
    deaths = link.young_deaths + 1
    if deaths < YOUNG_DEATHS:
        return changed(link, young_deaths=deaths)
    return changed(link, young_deaths=0, transport=(link.transport + 1) % link.transports)
