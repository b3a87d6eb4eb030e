"""When a lease is live, when its holder pauses, and which policies are refused."""

from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.errors import SettingsError
from outlast.lease import LeasePolicy, is_live, is_stalled, pause_at

seconds = st.floats(min_value=0, max_value=1e9)


# ---- the policy -----------------------------------------------------------------------------


def test_the_default_policy_renews_three_times_in_a_lease() -> None:
    assert asdict(LeasePolicy()) == {"ttl": 15.0, "renew_every": 5.0, "margin": 3.0, "stall_limit": 120.0}


SIGNS = "lease_ttl and renew_every must be above 0, and lease_margin at least 0 seconds."

REFUSED = [
    ({"ttl": 0.0}, SIGNS),
    ({"ttl": -1.0}, SIGNS),
    ({"renew_every": 0.0}, SIGNS),
    ({"renew_every": -5.0}, SIGNS),
    ({"margin": -0.001}, SIGNS),
    (
        {"ttl": 14.0},
        "lease_ttl is 14 s but must hold three renewals: set it to at least 15, or renew_every to at most 4.66667.",
    ),
    ({"margin": 10.0}, "lease_margin is 10 s and leaves no room for one renewal: set it below 10."),
    (
        {"stall_limit": 14.5},
        "stall_limit is 14.5 s, less than the lease it would give up: set it to at least lease_ttl (15).",
    ),
]


@pytest.mark.behaviour("B23")
@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_a_policy_that_cannot_work_is_refused_with_what_to_change(changes: dict[str, float], sentence: str) -> None:
    with pytest.raises(SettingsError) as refused:
        LeasePolicy(**changes)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "changes",
    [
        {"ttl": 0.9, "renew_every": 0.3, "margin": 0.1},
        {"margin": 0.0},
        {"margin": 9.999},
        {"ttl": 15.0, "renew_every": 5.0},
        {"stall_limit": 15.0},
    ],
)
def test_a_policy_on_the_edge_of_what_works_is_taken(changes: dict[str, float]) -> None:
    policy = asdict(LeasePolicy(**changes))
    assert changes.items() <= policy.items()


def test_a_policy_cannot_be_changed_or_extended_and_names_its_members() -> None:
    policy: Any = LeasePolicy
    assert policy.__dataclass_params__.frozen
    assert "__slots__" in vars(policy)
    assert all(member.kw_only for member in fields(policy))


# ---- liveness -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("until", "now", "live"),
    [(10.0, 9.999, True), (10.0, 10.0, False), (10.0, 10.001, False), (None, 0.0, False), (0.0, -1.0, True)],
)
def test_a_lease_is_live_until_its_end_and_not_at_it(until: float | None, now: float, live: bool) -> None:
    assert is_live(until, now=now) is live


@given(seconds, seconds)
def test_a_lease_that_has_ended_never_becomes_live_again(until: float, now: float) -> None:
    if not is_live(until, now=now):
        assert not is_live(until, now=now + 1.0)


# ---- pausing, stalling ----------------------------------------------------------------------


def test_a_controller_pauses_a_margin_before_its_lease_can_be_taken() -> None:
    assert pause_at(100.0, LeasePolicy()) == 112.0


@given(seconds)
def test_a_pause_comes_before_the_end_of_the_lease_and_after_the_next_renewal(proved_at: float) -> None:
    policy = LeasePolicy()
    assert proved_at + policy.renew_every < pause_at(proved_at, policy) < proved_at + policy.ttl


@pytest.mark.parametrize(("now", "stalled"), [(219.999, False), (220.0, False), (220.001, True)])
def test_a_loop_has_stalled_only_past_the_limit(now: float, stalled: bool) -> None:
    assert is_stalled(100.0, LeasePolicy(), now=now) is stalled
