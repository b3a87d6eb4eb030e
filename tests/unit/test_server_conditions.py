"""What the controllers of one node work under: the defaults are those of the policies, and nothing is changed later."""

import dataclasses

import pytest

from outlast.facts import Fact, NodeStarted
from outlast.lease import LeasePolicy
from outlast.log.limits import LogLimits
from outlast.recovery import RecoveryPolicy
from outlast.server.conditions import STOP_GRACE, Conditions


def test_what_is_not_given_is_the_default_of_its_policy() -> None:
    told: list[Fact] = []
    conditions = Conditions(report=told.append, mint=lambda: "m1", jitter=lambda: 0.5)
    assert conditions.recovery == RecoveryPolicy()
    assert (conditions.lease, conditions.limits) == (LeasePolicy(), LogLimits())
    assert (conditions.stop_grace, conditions.admit) == (STOP_GRACE, None)
    conditions.report(NodeStarted(node=conditions.mint()))
    assert told == [NodeStarted(node="m1")]


def test_conditions_never_change_while_a_node_works_under_them() -> None:
    conditions = Conditions(report=lambda _fact: None, mint=lambda: "m1", jitter=lambda: 0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        conditions.stop_grace = 1.0  # type: ignore[misc]
