"""The one table of the client's machine: which rule each input calls in each phase, and what may follow each phase.

Where there is no entry the input does nothing. The page about supervision is drawn from here.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from outlast.supervision import attempts, hints, inputs, questions, time
from outlast.supervision.attempts import Consequence
from outlast.supervision.link import Link, Moment
from outlast.supervision.phase import Phase, Wakeup

Key: TypeAlias = type[inputs.Input] | Wakeup
"""What names a row: the kind of input, or of a wakeup."""

Rule: TypeAlias = Callable[[Link, Any, Moment], Consequence]
"""What is done about an input; the first line of its docstring says it."""

IDLE, OFFLINE, CONNECTING, LIVE, SLOW, BUSY, SWITCHING, BACKOFF, BLOCKED, CLOSED = Phase
_LINKED: Final = (LIVE, SLOW, BUSY, SWITCHING)
_WANTED: Final = (OFFLINE, CONNECTING, *_LINKED, BACKOFF, BLOCKED)


def _in(phases: tuple[Phase, ...], rule: Rule) -> dict[Phase, Rule]:
    return dict.fromkeys(phases, rule)


RULES: Final[Mapping[Key, Mapping[Phase, Rule]]] = MappingProxyType(
    {
        # ---- intent ----
        inputs.Want: {IDLE: hints.begin},
        inputs.Close: _in((IDLE, *_WANTED), hints.close),
        # ---- hints ----
        Wakeup.USER: {OFFLINE: hints.forgive, **_in((CONNECTING, *_LINKED, BACKOFF, BLOCKED), hints.insist)},
        Wakeup.VISIBLE: {
            OFFLINE: hints.forgive,
            CONNECTING: hints.remember,
            **_in((LIVE, SLOW, BUSY), hints.look),
            SWITCHING: hints.hasten,
            BACKOFF: hints.hurry,
        },
        Wakeup.RESUMED: {
            OFFLINE: hints.forgive,
            CONNECTING: hints.restart,
            **_in((LIVE, SLOW, BUSY), hints.revive),
            **_in((SWITCHING, BACKOFF), hints.hurry),
            BLOCKED: hints.unblock,
        },
        Wakeup.PATH_CHANGED: _in((CONNECTING, *_LINKED), hints.reroute),
        Wakeup.ONLINE: {
            OFFLINE: hints.connect,
            IDLE: hints.note,
            **_in(_LINKED, hints.regain),
            BLOCKED: hints.unblock,
        },
        inputs.WentOffline: {
            **_in((IDLE, BLOCKED), hints.note),
            **_in((CONNECTING, BACKOFF), hints.halt),
            **_in(_LINKED, hints.suspect),
        },
        Wakeup.CREDENTIALS_CHANGED: {
            OFFLINE: hints.forgive,
            **_in((CONNECTING, *_LINKED), hints.renew),
            BLOCKED: hints.unblock,
        },
        Wakeup.UPDATED: {OFFLINE: hints.forgive, BLOCKED: hints.unblock},
        # ---- attempts and links ----
        inputs.Ready: _in((CONNECTING, SWITCHING), attempts.establish),
        inputs.Failed: _in((CONNECTING, SWITCHING), attempts.fail),
        inputs.Lost: _in(_LINKED, attempts.lose),
        inputs.Drained: _in(_LINKED, attempts.move),
        inputs.Heard: _in(_LINKED, questions.hear),
        # ---- questions ----
        inputs.ProbeAnswered: _in(_LINKED, questions.believe),
        inputs.ProbeFailed: _in(_LINKED, questions.bury),
        inputs.Asked: _in(_LINKED, questions.ask),
        inputs.Answered: _in(_LINKED, questions.answer),
        inputs.Abandoned: _in(_LINKED, questions.abandon),
        inputs.Witnessed: _in((SLOW, BUSY, SWITCHING), questions.witness),
        inputs.Denied: _in((SLOW, BUSY), questions.deny),
        # ---- time ----
        inputs.Tick: _in((CONNECTING, *_LINKED, BACKOFF), time.tick),
    }
)

TRANSITIONS: Final[Mapping[Phase, frozenset[Phase]]] = MappingProxyType(
    {
        IDLE: frozenset({OFFLINE, CONNECTING, CLOSED}),
        OFFLINE: frozenset({CONNECTING, BACKOFF, CLOSED}),
        CONNECTING: frozenset({OFFLINE, LIVE, BACKOFF, BLOCKED, CLOSED}),
        LIVE: frozenset({OFFLINE, CONNECTING, SLOW, SWITCHING, BACKOFF, BLOCKED, CLOSED}),
        SLOW: frozenset({OFFLINE, CONNECTING, LIVE, BUSY, SWITCHING, BACKOFF, BLOCKED, CLOSED}),
        BUSY: frozenset({OFFLINE, CONNECTING, LIVE, SLOW, SWITCHING, BACKOFF, BLOCKED, CLOSED}),
        SWITCHING: frozenset({OFFLINE, CONNECTING, LIVE, SLOW, BUSY, BACKOFF, BLOCKED, CLOSED}),
        BACKOFF: frozenset({OFFLINE, CONNECTING, CLOSED}),
        BLOCKED: frozenset({OFFLINE, CONNECTING, CLOSED}),
        CLOSED: frozenset(),
    }
)
"""What may follow each phase besides itself; a closed link stays closed."""
