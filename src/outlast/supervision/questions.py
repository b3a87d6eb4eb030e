"""The rules about questions: probes and what their answers mean, requests without an answer, and evidence.

Rules:
1. A probe changes nothing but what is known: the link, its generation and sending are untouched until a verdict (P1).
2. One probe at a time; a second wakeup adds none (P8).
3. Anything that comes in clears the link's suspicion. The probe that it cleared stays an open question to the
   service, which only an answer or progress clears (P13).
4. Busy needs evidence, and only as long as it is fresh; it is looked for again as long as it is needed (P14).
5. What speaks against a server ends the waiting, where the link has missed a probe and says nothing: its own voice
   outweighs everything (R7).
"""

from typing import Final

from outlast.supervision.attempts import Consequence, afresh
from outlast.supervision.change import changed
from outlast.supervision.commands import Gather, Probe, Release
from outlast.supervision.inputs import (
    Abandoned,
    Answered,
    Asked,
    Denied,
    Heard,
    ProbeAnswered,
    ProbeFailed,
    Witnessed,
)
from outlast.supervision.link import Current, Link, Moment, Service, Stage, Suspicion, Witness, current_of
from outlast.supervision.phase import STRENGTH, Grade
from outlast.supervision.profile import DOUBT_AFTER

MOST_ASKED: Final = 64
"""Open requests that are remembered: the oldest ones say all there is to say."""
TOGETHER: Final = 0.001
"""Seconds in which signs of life are one: a thousandth of what any patience is measured in."""
MISSED: Final = frozenset({Stage.PAUSE, Stage.SECOND, Stage.TRIAGE})
"""Stages in which the link was asked once, and had its time to answer."""


# ---- rules ----------------------------------------------------------------------------------------


def hear(link: Link, heard: Heard, at: Moment) -> Consequence:
    """Clear the link's suspicion; progress clears the service's too."""
    before = current_of(link)
    if before.is_quiet and link.trouble is None:
        if at.now - before.heard_at < TOGETHER and before.progressed >= heard.progress:
            return link, ()
        heard_now = changed(before, heard_at=at.now, progressed=before.progressed or heard.progress)
        return changed(link, current=heard_now), ()
    current = changed(before, heard_at=at.now, suspicion=None)
    if heard.progress:
        service = Service(asked=tuple((number, at.now) for number, _ in current.service.asked))
        return _settled(link, changed(current, progressed=True, service=service)), ()
    if before.suspicion is not None and before.suspicion.stage is not Stage.DOOMED:
        current = changed(current, service=_open(current.service, before.suspicion.asked_at, at))
    if current.busy_since is not None:
        current = changed(current, witness=Witness(grade=Grade.FRAMES, at=at.now))
    return _settled(link, current), ()


def believe(link: Link, _answered: ProbeAnswered, at: Moment) -> Consequence:
    """Clear the link's suspicion, and every question that nobody waits for any more."""
    return _answered_at(link, current_of(link).service, at), ()


def bury(link: Link, failed: ProbeFailed, at: Moment) -> Consequence:
    """Let go of the link, and try at once with the ladder anew."""
    let_go = Release(attempt=current_of(link).id)
    bare = changed(link, current=None, trouble=failed.trouble, lost_at=at.now)
    if link.candidate is not None:
        return bare, (let_go,)
    begun, commands = afresh(bare, at)
    return begun, (let_go, *commands)


def ask(link: Link, asked: Asked, at: Moment) -> Consequence:
    """Remember the open question."""
    current = current_of(link)
    already = current.service.asked
    if len(already) >= MOST_ASKED:
        return link, ()
    service = changed(current.service, asked=(*already, (asked.request, at.now)))
    return changed(link, current=changed(current, service=service)), ()


def answer(link: Link, answered: Answered, at: Moment) -> Consequence:
    """Clear the question and the link's suspicion."""
    return _answered_at(link, _without(current_of(link).service, answered.request), at), ()


def abandon(link: Link, abandoned: Abandoned, at: Moment) -> Consequence:
    """Keep the question open: nobody waits any more, and still it was not answered."""
    current = current_of(link)
    asked_at = dict(current.service.asked).get(abandoned.request)
    if asked_at is None:
        return link, ()
    service = _open(_without(current.service, abandoned.request), asked_at, at)
    return changed(link, current=changed(current, service=service)), ()


def witness(link: Link, witnessed: Witnessed, at: Moment) -> Consequence:
    """Call a server busy that something speaks for, where something is late."""
    current = current_of(link)
    if not current.is_slow or _outweighs(current, witnessed.grade, link, at):
        return link, ()
    return _call_busy(link, Witness(grade=witnessed.grade, at=at.now), at), ()


def deny(link: Link, _denied: Denied, at: Moment) -> Consequence:
    """Try at once where a probe was missed, and believe nothing any more that speaks for the server."""
    current = current_of(link)
    if current.suspicion is None or current.suspicion.stage not in MISSED:
        return link, ()
    return afresh(changed(link, current=changed(current, busy_since=None, witness=None, gathered_at=None)), at)


# ---- what time does -------------------------------------------------------------------------------


def ask_whether_there(link: Link, at: Moment, *, within: float, silent: bool = False) -> Consequence:
    """Probe, unless that is being found out already."""
    current = current_of(link)
    if current.suspicion is not None:
        return link, ()
    suspicion = Suspicion(stage=Stage.PROBE, asked_at=at.now, until=at.now + within, silent=silent)
    return _send(link, changed(current, suspicion=suspicion))


def wonder(link: Link, at: Moment) -> Consequence:
    """Probe a link that has been silent for too long."""
    return ask_whether_there(link, at, within=link.profile.probe, silent=True)


def advance(link: Link, at: Moment) -> Consequence:
    """Go on to what follows the stage that has run out: another question, evidence, or another link."""
    current, profile = current_of(link), link.profile
    suspicion = current.suspicion
    assert suspicion is not None, "its deadline has come"
    match suspicion.stage:
        case Stage.PROBE if profile.pause is not None:
            return _look(link, changed(suspicion, stage=Stage.PAUSE, until=at.now + profile.pause), at)
        case Stage.PROBE if profile.triage is not None:
            return _look(link, changed(suspicion, stage=Stage.TRIAGE, until=at.now + profile.triage), at)
        case Stage.PAUSE:
            second = changed(suspicion, stage=Stage.SECOND, until=at.now + profile.probe)
            return _send(link, changed(current, suspicion=second))
        case Stage.TRIAGE if at.now < (until := current.evidence_until(profile)):
            kept = changed(suspicion, until=until)
            return changed(link, current=changed(current, suspicion=kept)), ()
        case _:
            return afresh(link, at)  # the old link is kept until the new one is ready (R1, P12)


def doubt(link: Link, at: Moment) -> Consequence:
    """Find out what is with a service that has not answered for too long."""
    current = current_of(link)
    doubted = changed(current, service=changed(current.service, doubted=True), gathered_at=at.now)
    return changed(link, current=doubted), (Gather(link=current.id),)


def deadlock(link: Link, at: Moment) -> Consequence:
    """Call the service busy: the link speaks, and still there is no answer."""
    return _call_busy(link, Witness(grade=Grade.FRAMES, at=current_of(link).heard_at), at), ()


def fade(link: Link, _at: Moment) -> Consequence:
    """Call a server busy no longer for which nothing has spoken for too long; its budget goes on."""
    current = current_of(link)
    suspicion = None if current.suspicion is None else changed(current.suspicion, silent=True)
    return changed(link, current=changed(current, witness=None, suspicion=suspicion)), ()


def gather(link: Link, at: Moment) -> Consequence:
    """Look for evidence again."""
    current = current_of(link)
    return changed(link, current=changed(current, gathered_at=at.now)), (Gather(link=current.id),)


# ---- what both are made of ------------------------------------------------------------------------


def _look(link: Link, suspicion: Suspicion, at: Moment) -> Consequence:
    return gather(changed(link, current=changed(current_of(link), suspicion=suspicion)), at)


def _send(link: Link, current: Current) -> Consequence:
    number = current.probes + 1
    return changed(link, current=changed(current, probes=number)), (Probe(link=current.id, probe=number),)


def _answered_at(link: Link, service: Service, at: Moment) -> Link:
    """Return the link after an answer: doubted only as long as its oldest question has been open for too long."""
    service = changed(service, abandoned_at=None)
    since = service.since
    doubted = service.doubted and since is not None and at.now - since >= DOUBT_AFTER
    current = changed(current_of(link), heard_at=at.now, suspicion=None, service=changed(service, doubted=doubted))
    return _settled(link, current)


def _settled(link: Link, current: Current) -> Link:
    """Return the link with what was found out: busy no longer, and not replaced any more, once nothing is late."""
    if current.is_slow:
        return changed(link, current=current)
    current = changed(current, busy_since=None, witness=None, gathered_at=None)
    if link.candidate is not None or link.must_move:
        return changed(link, current=current)
    return changed(link, current=current, retry_at=None, trouble=None)


def _call_busy(link: Link, witness: Witness, at: Moment) -> Link:
    current = current_of(link)
    busy = changed(
        current,
        witness=witness,
        busy_since=at.now if current.busy_since is None else current.busy_since,
        gathered_at=at.now if current.gathered_at is None else current.gathered_at,
    )
    return changed(link, current=busy)


def _outweighs(current: Current, grade: Grade, link: Link, at: Moment) -> bool:
    before = current.witness
    is_stronger = before is not None and STRENGTH[before.grade] > STRENGTH[grade]
    return is_stronger and at.now < current.evidence_until(link.profile)


def _open(service: Service, asked_at: float, at: Moment) -> Service:
    """Return the service with a question that nobody waits for any more; one that is old is doubted at once."""
    earlier = asked_at if service.abandoned_at is None else min(service.abandoned_at, asked_at)
    return changed(service, abandoned_at=earlier, doubted=service.doubted or at.now - earlier >= DOUBT_AFTER)


def _without(service: Service, request: int) -> Service:
    return changed(service, asked=tuple(each for each in service.asked if each[0] != request))
