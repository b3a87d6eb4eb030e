"""The rules about attempts: begun, come to nothing, become the link, waited for, and what ends one.

Rules:
1. At most one attempt is in flight, and at most one link stands beside it: making comes before breaking (R1).
2. An attempt that fails leaves alone a link that lives. One that nothing speaks for is let go with it.
3. The last trouble stays visible until a link is established (K6).
4. A transport that is not spoken there gives way to the next at once; one that dies young does after a few times (R13).
5. What would block is forgiven where it may only be a server's restart: credentials for a while (N4), and an address
   at which there has been one.
"""

from typing import TypeAlias

from outlast.supervision.change import changed
from outlast.supervision.commands import Adopt, Command, Open, Release
from outlast.supervision.inputs import Drained, Failed, Lost, Ready
from outlast.supervision.ladder import advice
from outlast.supervision.link import Candidate, Current, Link, Moment
from outlast.supervision.phase import WAKES, Trouble
from outlast.supervision.profile import LONGEST_HEARTBEAT, SHORTEST_HEARTBEAT, YOUNG_DEATHS

Consequence: TypeAlias = tuple[Link, tuple[Command, ...]]
"""What comes of an input: the next state, and what is to be done."""


# ---- rules ----------------------------------------------------------------------------------------


def establish(link: Link, ready: Ready, at: Moment) -> Consequence:
    """Make the attempt the link: what is followed moves over, and the old link is let go."""
    heartbeat = ready.heartbeat
    if heartbeat is None or not SHORTEST_HEARTBEAT <= heartbeat <= LONGEST_HEARTBEAT:
        heartbeat = link.profile.heartbeat
    current = Current(id=ready.attempt, ready_at=at.now, heard_at=at.now, heartbeat=heartbeat)
    before = () if link.current is None else (Release(attempt=link.current.id),)
    established = changed(
        link,
        generation=link.generation + 1,
        current=current,
        candidate=None,
        must_move=False,
        trouble=None,
        ladder=changed(link.ladder, spread=0.0, spread_until=0.0),
    )
    return established, (Adopt(attempt=ready.attempt), *before)


def fail(link: Link, failed: Failed, at: Moment) -> Consequence:
    """Wait along the ladder, or block; a link that lives is left alone."""
    assert link.candidate is not None, "nothing else fails"
    trouble, is_woken = _forgiven(link, failed.trouble, at), link.candidate.woken
    link = changed(link, candidate=None, trouble=trouble)
    passes_on = trouble is Trouble.UNSPOKEN and link.transport + 1 < link.transports
    if passes_on:
        link = changed(link, young_deaths=0, transport=link.transport + 1)
    elif trouble in {Trouble.FOREIGN, Trouble.UNSPOKEN, Trouble.SILENT}:
        link = _died_young(link)
    commands: tuple[Command, ...] = ()
    if link.current is not None and _outlives(link, link.current, trouble, at):
        if _is_sound(link, link.current):
            return changed(link, trouble=None), ()  # it is as good as before
    else:
        link, commands = release(link)
        if trouble in WAKES:
            return changed(link, block=trouble), commands
    link = link if passes_on else wait(link, at, pause=failed.pause)
    if not (passes_on or is_woken):
        return link, commands
    begun, opened = attempt(link, at)
    return begun, (*commands, *opened)


def lose(link: Link, lost: Lost, at: Moment) -> Consequence:
    """Try again: at once where the profile is prompt and this is the first time, otherwise along the ladder."""
    trouble = _forgiven(link, lost.trouble, at)
    link = outlived(link, trouble, at)
    link = changed(link, current=None, trouble=trouble, path_changed=False)
    if trouble in WAKES:
        bare, commands = release(link)
        return changed(bare, block=trouble), commands
    link = changed(link, lost_at=at.now)
    if link.is_replacing and link.is_reachable:
        return link, ()  # its replacement is under way, or has its time
    if link.profile.prompt and link.ladder.failures <= 1 and not advice(lost.pause):
        return attempt(link, at)
    if not link.is_reachable:
        return release(link)
    return wait(link, at, pause=lost.pause, counts=link.ladder.failures == 0), ()


def move(link: Link, drained: Drained, at: Moment) -> Consequence:
    """Replace the link at a time of our own within the spread; it serves until it ends."""
    spread = advice(drained.spread)
    ladder = changed(link.ladder, spread=spread, spread_until=at.now + spread)
    moving = changed(link, ladder=ladder, must_move=True, trouble=Trouble.DRAINING, lost_at=at.now)
    if not link.is_reachable or link.candidate is not None or link.must_move:
        return moving, ()
    return changed(moving, retry_at=max(at.now + at.jitter * spread, ladder.floor)), ()


# ---- what rules are made of -----------------------------------------------------------------------


def attempt(link: Link, at: Moment) -> Consequence:
    """Begin an attempt; one in flight ends. Without a network there is none, and before the time asked for it waits."""
    if not link.is_reachable:
        return _stay(link, at)
    if link.ladder.floor > at.now:
        return changed(link, retry_at=link.ladder.floor), ()
    ended = () if link.candidate is None else (Release(attempt=link.candidate.id),)
    number = link.attempts + 1
    candidate = Candidate(id=number, until=at.now + link.profile.establishment)
    begun = changed(link, attempts=number, candidate=candidate, retry_at=None)
    return begun, (*ended, Open(attempt=number, transport=link.transport))


def afresh(link: Link, at: Moment) -> Consequence:
    """Begin an attempt as if nothing had failed before."""
    return attempt(changed(link, ladder=changed(link.ladder, failures=0), block=None), at)


def release(link: Link) -> Consequence:
    """Let go of the attempt and of the link, and wait for nothing."""
    held = [each.id for each in (link.candidate, link.current) if each is not None]
    bare = changed(link, candidate=None, current=None, retry_at=None, path_changed=False)
    return bare, tuple(Release(attempt=each) for each in held)


def wait(link: Link, at: Moment, *, pause: float, counts: bool = True) -> Link:
    """Wait for the next attempt, after one more failure where it `counts`. Without a network there is no next one."""
    ladder = link.ladder.after(pause, now=at.now)
    if not counts:
        ladder = changed(ladder, failures=link.ladder.failures)
    if not link.is_reachable:
        return changed(link, ladder=ladder)
    return changed(link, ladder=ladder, retry_at=at.now + ladder.wait(link.profile, now=at.now, jitter=at.jitter))


def outlived(link: Link, trouble: Trouble, at: Moment) -> Link:
    """Return the link with its ladder as it is once the current one is over: a long life begins it anew (K15)."""
    current = link.current
    assert current is not None, "there was one"
    is_stable = at.now - current.ready_at >= link.profile.stable
    if is_stable and (current.progressed or not link.profile.needs_progress):
        return changed(link, ladder=changed(link.ladder, failures=0), young_deaths=0)
    if link.must_move:
        return link  # it was sent away, and did not die
    climbed = changed(link, ladder=changed(link.ladder, failures=link.ladder.failures + 1))
    # That a server is gone, as one that crashes again and again, is no fault of the way to it.
    return climbed if trouble is Trouble.UNREACHABLE else _died_young(climbed)


def _forgiven(link: Link, trouble: Trouble, at: Moment) -> Trouble:
    """Forgive a server that restarts, or goes: it may not know yet whom it trusts, nor stand where it will (N4)."""
    restarts = link.lost_at is not None and at.now - link.lost_at < link.profile.stable
    is_passing = (trouble is Trouble.CREDENTIALS and restarts) or (trouble is Trouble.ADDRESS and link.generation > 0)
    return Trouble.BUSY if is_passing else trouble


def _stay(link: Link, at: Moment) -> Consequence:
    """Keep a link that speaks although there is said to be no network, and let go of everything else (K13)."""
    current = link.current
    if current is None or current.suspicion is not None or not current.speaks(at.now):
        return release(link)
    ended = () if link.candidate is None else (Release(attempt=link.candidate.id),)
    if current.busy_since is not None:
        current = changed(current, busy_since=at.now)  # a budget after which nothing can be done begins anew
    return changed(link, current=current, candidate=None, retry_at=None, path_changed=False), ended


def _outlives(link: Link, current: Current, trouble: Trouble, at: Moment) -> bool:
    """Say whether the link outlives the failure of what was to replace it: something speaks for it (R1).

    Nothing does for an identity that lost its rights, nor for one that was to be changed (N2, N4).
    """
    if trouble is Trouble.REVOKED or (trouble is Trouble.CREDENTIALS and link.must_move):
        return False
    return at.now < (current.silent_at if current.suspicion is None else current.evidence_until(link.profile))


def _is_sound(link: Link, current: Current) -> bool:
    """Say whether there was no need to replace the link."""
    return not link.must_move and current.suspicion is None and not current.service.doubted


def _died_young(link: Link) -> Link:
    """Count an early death of this transport; after a few in a row it is the next one's turn (R13)."""
    deaths = link.young_deaths + 1
    if deaths < YOUNG_DEATHS:
        return changed(link, young_deaths=deaths)
    return changed(link, young_deaths=0, transport=(link.transport + 1) % link.transports)
