"""One step of the client's machine: an input and the time in, the next state and commands out.

Rules:
1. An input about an attempt or a link that is no longer current changes nothing (P11, R5).
2. Only time's own input makes a deadline count, and it does one thing: what arrives before it, even late, wins.
3. A deadline that is told much too late is our own stall: what has come in meanwhile is read before anything is
   judged by it (P17).
"""

from outlast.supervision import inputs
from outlast.supervision.attempts import Consequence
from outlast.supervision.change import changed
from outlast.supervision.inputs import Input, Woken
from outlast.supervision.link import Link, Moment
from outlast.supervision.table import RULES


def step(link: Link, input: Input, *, now: float, jitter: float) -> Consequence:
    """Return what `link` becomes by `input`, and what is to be done.

    `now` is in seconds on a clock that never steps back, the same one at every call; `jitter` in [0, 1) is drawn anew
    for each. What is to be done is done in its order. Source: behaviours K, P, N1, R1.
    """
    if _is_past(link, input):
        return link, ()
    phase = link.phase
    rule = RULES[input.wakeup if isinstance(input, Woken) else type(input)].get(phase)
    if rule is None:
        return link, ()
    after, commands = rule(link, input, Moment(now, jitter))
    if after is link or after.phase is phase:
        return after, commands
    return changed(after, since=now), commands


def _is_past(link: Link, input: Input) -> bool:
    match input:
        case (
            inputs.Heard(link=named)  # most of what comes in, so it is asked for first
            | inputs.Lost(link=named)
            | inputs.Drained(link=named)
            | inputs.ProbeAnswered(link=named)
            | inputs.ProbeFailed(link=named)
            | inputs.Asked(link=named)
            | inputs.Answered(link=named)
            | inputs.Abandoned(link=named)
            | inputs.Witnessed(link=named)
            | inputs.Denied(link=named)
        ):
            return link.current is None or link.current.id != named
        case inputs.Ready(attempt=named) | inputs.Failed(attempt=named):
            return link.candidate is None or link.candidate.id != named
        case _:
            return False
