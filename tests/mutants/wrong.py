"""What a machine can do wrong, an invariant of `tests/fuzz.py` at a time: each is said after the source of a module.

The name of what is done wrongly is bound anew; `_sound` is what it was.
"""

from collections.abc import Mapping
from typing import Final

WRONG: Final[Mapping[str, tuple[str, str]]] = {
    "what changes nothing asks for nothing": (
        "questions",
        """
def wonder(link, at):
    return link, (Probe(link=link.current.id, probe=1),)
""",
    ),
    "the past changes nothing": (
        "step",
        """
_sound = _is_past
def _is_past(link, input):
    return _sound(link, input) and not isinstance(input, inputs.Heard)
""",
    ),
    "time spins": (
        "time",
        """
def tick(link, _tick, at):
    return changed(link, grace=None), ()
""",
    ),
    "time that has come does something": (
        "time",
        """
def tick(link, _tick, at):
    return link, ()
""",
    ),
    "a failed candidate leaves a living link alone": (
        "attempts",
        """
def _outlives(link, current, trouble, at):
    return False
""",
    ),
    "attempts are numbered in their order": (
        "attempts",
        """
_sound = attempt
def attempt(link, at):
    after, commands = _sound(link, at)
    return after, tuple(Open(attempt=each.attempt + 1) if isinstance(each, Open) else each for each in commands)
""",
    ),
    "nothing is opened without a network": (
        "attempts",
        """
_sound = attempt
def attempt(link, at):
    after, commands = _sound(changed(link, online=True), at)
    return changed(after, online=link.online), commands
""",
    ),
    "nothing is opened before the time that was asked for": (
        "attempts",
        """
_sound = attempt
def attempt(link, at):
    after, commands = _sound(changed(link, ladder=changed(link.ladder, floor=0.0)), at)
    return changed(after, ladder=link.ladder), commands
""",
    ),
    "what is let go was held": (
        "attempts",
        """
_sound = establish
def establish(link, ready, at):
    after, commands = _sound(link, ready, at)
    return after, (*commands, *commands[1:])
""",
    ),
    "only what is ready is adopted": (
        "questions",
        """
from outlast.supervision.commands import Adopt
def wonder(link, at):
    return changed(link, must_move=True), (Adopt(attempt=link.current.id),)
""",
    ),
    "and it is what is ready": (
        "attempts",
        """
_sound = establish
def establish(link, ready, at):
    after, commands = _sound(link, ready, at)
    return after, (Adopt(attempt=ready.attempt + 1), *commands[1:])
""",
    ),
    "each is counted once": (
        "attempts",
        """
_sound = establish
def establish(link, ready, at):
    after, commands = _sound(link, ready, at)
    return changed(after, generation=link.generation), commands
""",
    ),
    "none leaks": (
        "attempts",
        """
_sound = establish
def establish(link, ready, at):
    after, commands = _sound(link, ready, at)
    return after, commands[:1]
""",
    ),
    "attempts spin": (
        "attempts",
        """
_sound_attempt, _sound_wait = attempt, wait
def attempt(link, at):
    after, commands = _sound_attempt(link, at)
    return changed(after, candidate=after.candidate and changed(after.candidate, until=at.now)), commands
def wait(link, at, **given):
    return changed(_sound_wait(link, at, **given), retry_at=at.now)
""",
    ),
    "{was} is not followed by {phase}": (
        "hints",
        """
def halt(link, _offline, _at):
    bare, commands = release(link)
    return changed(bare, intent=Intent.NONE), commands
""",
    ),
    "a phase has its beginning": (
        "step",
        """
_sound = step
def step(link, input, *, now, jitter):
    after, commands = _sound(link, input, now=now, jitter=jitter)
    return (link if after is link else changed(after, since=now)), commands
""",
    ),
    "what is closed stays closed": (
        "table",
        """
RULES = {**RULES, inputs.WentOffline: {**RULES[inputs.WentOffline], CLOSED: hints.note}}
""",
    ),
    "a block is ended by a wakeup": (
        "hints",
        """
def note(link, said, at):
    return attempt(changed(link, block=None), at)
""",
    ),
    "and by one that its reason lists": (
        "hints",
        """
def unblock(link, woken, at):
    return insist(changed(link, online=True), woken, at)
""",
    ),
    "what is shown is the machine": (
        "record",
        """
from dataclasses import replace
_sound = record
def record(link):
    return replace(_sound(link), can_send=True)
""",
    ),
    "busy has evidence": (
        "record",
        """
from dataclasses import replace
_sound = record
def record(link):
    return replace(_sound(link), evidence=None)
""",
    ),
    "what is wanted goes on by itself": (
        "attempts",
        """
_sound = wait
def wait(link, at, **given):
    return changed(_sound(link, at, **given), retry_at=None)
""",
    ),
    "its budget runs": (
        "questions",
        """
_sound = _call_busy
def _call_busy(link, witness, at):
    busy = _sound(link, witness, at)
    return changed(busy, current=changed(busy.current, busy_since=None))
""",
    ),
    "busy has an end": (
        "link",
        """
_sound = Link.dues
Link.dues = lambda link: [each for each in _sound(link) if each[1] not in {Due.FADED, Due.BUDGET}]
""",
    ),
    "two misses": (
        "questions",
        """
def advance(link, at):
    return afresh(link, at)
""",
    ),
}
"""For each invariant the module and what is done wrongly in it."""
