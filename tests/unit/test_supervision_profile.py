"""The three sets of numbers, and what follows from them."""

import pytest

from outlast.supervision.profile import DESKTOP, LOOKING, MOBILE, PROFILES, STANDARD, Profile


def test_every_profile_is_found_by_its_name() -> None:
    assert {"standard": STANDARD, "desktop": DESKTOP, "mobile": MOBILE} == PROFILES


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_every_profile_gives_fifteen_seconds_to_establish_and_thirty_to_be_stable(profile: Profile) -> None:
    assert (profile.establishment, profile.stable, profile.heartbeat) == (15.0, 30.0, 10.0)


def test_the_numbers_of_desktop() -> None:
    assert (DESKTOP.probe, DESKTOP.pause, DESKTOP.triage) == (15.0, 5.0, None)
    assert DESKTOP.ladder == (3.0, 4.0, 8.0, 16.0)
    assert {DESKTOP.jittered, DESKTOP.prompt, DESKTOP.needs_progress} == {False}


def test_the_numbers_of_mobile() -> None:
    assert (MOBILE.probe, MOBILE.pause, MOBILE.triage, MOBILE.absence) == (3.0, None, None, 10.0)


def test_the_numbers_of_standard() -> None:
    assert (STANDARD.probe, STANDARD.short_probe, STANDARD.triage, STANDARD.busy_budget) == (5.0, 3.0, 5.0, 120.0)
    assert STANDARD.ladder == (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
    assert STANDARD.jittered
    assert STANDARD.prompt
    assert STANDARD.needs_progress


@pytest.mark.parametrize("profile", [STANDARD, DESKTOP, MOBILE], ids=lambda profile: profile.name)
def test_evidence_speaks_until_it_has_been_looked_for_again(profile: Profile) -> None:
    assert profile.evidence_lasts == profile.renew_evidence + LOOKING == 15.0
