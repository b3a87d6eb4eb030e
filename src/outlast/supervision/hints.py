"""The rules about what is wanted, and about hints: a person, the network, a sleep, other credentials.

A hint is a trigger and never the truth: it makes the machine ask, or try, and only a connection's own end ends it.
"""

from outlast.supervision.attempts import Consequence, afresh, attempt, release
from outlast.supervision.change import changed
from outlast.supervision.inputs import Close, Want, WentOffline, Woken
from outlast.supervision.ladder import Ladder
from outlast.supervision.link import Intent, Link, Moment, Stage, Suspicion, current_of
from outlast.supervision.phase import WAKES, Wakeup
from outlast.supervision.profile import REPLACING_EVERY
from outlast.supervision.questions import ask_whether_there

# ---- intent ---------------------------------------------------------------------------------------


def begin(link: Link, _want: Want, at: Moment) -> Consequence:
    """Want the link, and try at once."""
    return attempt(changed(link, intent=Intent.WANTED), at)


def close(link: Link, _close: Close, _at: Moment) -> Consequence:
    """Let go of everything for good."""
    bare, commands = release(link)
    return changed(bare, intent=Intent.CLOSED, trouble=None), commands


# ---- the network ----------------------------------------------------------------------------------


def note(link: Link, said: Woken | WentOffline, _at: Moment) -> Consequence:
    """Note whether there is a network."""
    return changed(link, online=isinstance(said, Woken)), ()


def connect(link: Link, _online: Woken, at: Moment) -> Consequence:
    """Try now that there is a network, though not before the time that the server asked for."""
    return attempt(changed(link, online=True), at)


def regain(link: Link, _online: Woken, at: Moment) -> Consequence:
    """Note that there is a network, and begin a replacement that could not begin without one."""
    noted = changed(link, online=True)
    return attempt(noted, at) if link.must_move and not link.is_replacing else (noted, ())


def halt(link: Link, _offline: WentOffline, _at: Moment) -> Consequence:
    """Let go of the attempt or the wait, unless the server is on this machine."""
    halted = changed(link, online=False)
    return (halted, ()) if link.is_local else release(halted)


def suspect(link: Link, _offline: WentOffline, at: Moment) -> Consequence:
    """Probe where the link still speaks or needs no network, otherwise let go of it."""
    current, suspected = current_of(link), changed(link, online=False)
    if link.is_local or current.speaks(at.now):
        return (suspected, ()) if link.is_replacing else ask_whether_there(suspected, at, within=link.profile.probe)
    return release(suspected)


def reroute(link: Link, _changed: Woken, at: Moment) -> Consequence:
    """Replace the link, or restart the attempt, without a probe and on the same rung, at most once in two seconds."""
    if link.retry_at is not None:
        return changed(link, path_changed=False), ()  # a wait is never shortened by this
    if link.replaced_at is not None and at.now - link.replaced_at < REPLACING_EVERY:
        return changed(link, path_changed=True), ()
    return attempt(changed(_doomed(link, at), replaced_at=at.now, path_changed=False), at)


# ---- people and sleep -----------------------------------------------------------------------------


def forgive(link: Link, woken: Woken, _at: Moment) -> Consequence:
    """Begin the ladder anew, and go on waiting for the network."""
    is_person = woken.wakeup is Wakeup.USER
    return changed(link, ladder=Ladder() if is_person else changed(link.ladder, failures=0)), ()


def insist(link: Link, _woken: Woken, at: Moment) -> Consequence:
    """Try at once with the ladder anew, whatever the server asked for; a link is kept until the new one is ready."""
    return afresh(changed(link, ladder=Ladder()), at)


def remember(link: Link, _woken: Woken, _at: Moment) -> Consequence:
    """Remember that somebody looks: should the attempt fail, the next one does not wait, once."""
    assert link.candidate is not None, "an attempt is in flight"
    return changed(link, candidate=changed(link.candidate, woken=True)), ()


def restart(link: Link, _woken: Woken, at: Moment) -> Consequence:
    """Begin the attempt anew; no failure is counted."""
    return attempt(link, at)


def hurry(link: Link, _woken: Woken, at: Moment) -> Consequence:
    """Try at once with the ladder anew, though not before the time that the server asked for."""
    return afresh(link, at)


def hasten(link: Link, woken: Woken, at: Moment) -> Consequence:
    """Remember that somebody looks; where the replacement waits, end its wait."""
    return remember(link, woken, at) if link.candidate is not None else hurry(link, woken, at)


def look(link: Link, woken: Woken, at: Moment) -> Consequence:
    """Probe the link; after a long absence replace it instead."""
    if woken.seconds >= link.profile.absence:
        return afresh(_doomed(link, at), at)
    return ask_whether_there(link, at, within=link.profile.probe)


def revive(link: Link, woken: Woken, at: Moment) -> Consequence:
    """After a short sleep probe anew and with less patience; after a long one replace the link."""
    if woken.seconds >= link.profile.absence:
        return afresh(_doomed(link, at), at)
    current = current_of(link)
    awake = changed(link, current=changed(current, suspicion=None))  # an answer may have been slept through
    return ask_whether_there(awake, at, within=link.profile.short_probe, silent=current.is_slow)


# ---- other circumstances --------------------------------------------------------------------------


def renew(link: Link, _changed: Woken, at: Moment) -> Consequence:
    """Replace a link, or restart an attempt, that an account is bound to."""
    return attempt(changed(link, must_move=link.current is not None), at) if link.account_bound else (link, ())


def unblock(link: Link, woken: Woken, at: Moment) -> Consequence:
    """Try at once where this wakeup ends this block."""
    block = link.block
    assert block is not None, "it is blocked"
    heard = changed(link, online=link.online or woken.wakeup is Wakeup.ONLINE)
    return insist(heard, woken, at) if woken.wakeup in WAKES[block] else (heard, ())


def _doomed(link: Link, at: Moment) -> Link:
    """Return the link with its connection as good as dead: nothing but its own voice speaks for it any more."""
    if link.current is None:
        return link
    doom = Suspicion(stage=Stage.DOOMED, asked_at=at.now, until=at.now, silent=True)
    current = changed(link.current, suspicion=doom, witness=None, busy_since=None, gathered_at=None)
    return changed(link, current=current)
