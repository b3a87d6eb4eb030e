"""Mutants that are the machine in another form: nothing can tell them from it, each for the reason it stands under.

An entry that is caught after all, or that is not there any more, fails the tests.
"""

from collections.abc import Mapping
from typing import Final

ALIKE: Final[Mapping[str, frozenset[str]]] = {
    "a copy that is made more slowly is the same copy": frozenset(
        {
            "change: `TYPE_CHECKING` is always true",
            "change: `TYPE_CHECKING` is always false",
            "change.changed: or without `_known.get(kind)`",
        }
    ),
    "a link that nobody wanted yet has a ladder that is as good as new": frozenset(
        {
            "hints.begin: afresh for `attempt(changed(link, intent=Intent.WANTED), at)`",
            *(
                f"table: RULES with Wakeup.{each} in idle: hints.forgive"
                for each in (
                    "USER",
                    "VISIBLE",
                    "RESUMED",
                    "CREDENTIALS_CHANGED",
                    "UPDATED",
                )
            ),
        }
    ),
    "a block that ends begins the ladder anew itself": frozenset(
        {
            "table: RULES with Wakeup.VISIBLE in blocked: hints.forgive",
        }
    ),
    "each link that is established says anew whether it must move": frozenset(
        {
            "link.Link: False is True, 3",
        }
    ),
    "a doomed link is being replaced, and while it is nothing else comes of its silence": frozenset(
        {
            "hints._doomed: True is False",
        }
    ),
    "a shorter way to the same link; less than a millisecond later is no later": frozenset(
        {
            "questions: TOGETHER = 0.001 is 0",
            "questions.hear: `before.is_quiet and link.trouble is None` is always false",
            "questions.hear: `at.now - before.heard_at < TOGETHER and before.progressed >= heard.progress` is always false",  # noqa: E501
            "questions.hear: `at.now - before.heard_at` otherwise",
            "questions.hear: `before.progressed >= heard.progress` with another boundary",
            "step.step: or without `after is link`",
        }
    ),
    "evidence fades before the stage that waits for it ends, both being due at one moment": frozenset(
        {
            "questions.advance: `at.now < (until := current.evidence_until(profile))` with another boundary",
        }
    ),
    "where there is no network nothing is held that could be let go of, and nothing can be tried": frozenset(
        {
            "table: RULES with inputs.Want in offline: hints.begin",
            "table: RULES with inputs.WentOffline in offline: hints.note",
            "table: RULES with inputs.WentOffline in offline: hints.halt",
        }
    ),
    "an attempt, and a wait for one, have a network, or need none": frozenset(
        {
            *(
                f"table: RULES with Wakeup.ONLINE in {phase}: hints.{rule}"
                for phase in ("connecting", "backoff")
                for rule in ("note", "regain")
            ),
        }
    ),
}
"""Their names under their reasons."""

NAMES: Final = frozenset().union(*ALIKE.values())
"""All of them."""
