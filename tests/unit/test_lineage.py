"""What a claim was, from what it charged."""

from dataclasses import replace

import pytest

from outlast.lineage import Kind, kind_of
from outlast.run import Cause, RecoveryBudget

BEFORE = RecoveryBudget(takeovers=2, life=3, handoffs=4, calls=5, causes=(Cause.CRASH,))


@pytest.mark.parametrize(
    ("after", "kind", "cause"),
    [
        (BEFORE, Kind.CLAIM, None),
        (replace(BEFORE, waits=1), Kind.CLAIM, None),
        (replace(BEFORE, takeovers=1, life=4, causes=(Cause.CRASH, Cause.STORE)), Kind.TAKEOVER, Cause.STORE),
        (replace(BEFORE, life=4, causes=()), Kind.TAKEOVER, None),
        (replace(BEFORE, handoffs=5), Kind.HANDOFF, Cause.HANDOFF),
    ],
)
def test_a_claim_is_what_it_charged(after: RecoveryBudget, kind: Kind, cause: Cause | None) -> None:
    assert kind_of(BEFORE, after) == (kind, cause)
