"""Renewing a lease: what is proof, what is trouble, and when a stalled node gives up."""

import threading
from collections.abc import Callable

import pytest

from outlast.errors import StoreBusy, StoreUnavailable
from outlast.facts import Fact, StoreTroubled
from outlast.lease import LeasePolicy
from outlast.server.pulse import BEAT_EVERY
from outlast.server.renewal import RETRY_EVERY, Keeper, RenewalThread, Renewed
from outlast.stores.base import Renewal

POLICY = LeasePolicy()


class Scene:
    """A keeper over a renewer whose answers are given, and a clock that is moved by hand."""

    def __init__(self, *answers: Exception | None, while_renewing: Callable[[], None] = lambda: None) -> None:
        self.now = 100.0
        self.answers = list(answers)
        self.stalled: list[bool] = []
        self.lags: list[float] = []
        self.told: list[Fact] = []
        self.renewed: list[Renewed] = []
        self.closed = False
        self._while_renewing = while_renewing
        self.keeper = Keeper(
            self, POLICY, clock=lambda: self.now, report=self.told.append, on_renewed=self.renewed.append
        )

    def renew(self, *, stalled: bool, lag: float = 0.0) -> Renewal:
        self.stalled.append(stalled)
        self.lags.append(lag)
        self._while_renewing()
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        return Renewal(until=self.now + POLICY.ttl, held={"l1": 2})

    def close(self) -> None:
        self.closed = True


def test_an_accepted_renewal_is_proof_from_when_it_was_sent() -> None:
    scene = Scene()
    scene._while_renewing = lambda: setattr(scene, "now", scene.now + 4.0)
    assert scene.keeper.renew() == POLICY.renew_every
    assert scene.keeper.renewed_at == 100.0
    assert scene.renewed == [Renewed(sent_at=100.0, held={"l1": 2})]


@pytest.mark.behaviour("H8", "H17")
def test_a_failed_renewal_proves_nothing_is_told_once_and_is_tried_again_sooner() -> None:
    scene = Scene(StoreBusy("x"), StoreUnavailable("x"))
    proved_at = scene.keeper.renewed_at
    scene.now += 5.0
    assert [scene.keeper.renew(), scene.keeper.renew()] == [RETRY_EVERY, RETRY_EVERY]
    assert (scene.keeper.renewed_at, scene.renewed) == (proved_at, [])
    assert scene.told == [StoreTroubled(during="renewal", error="store_busy")]
    assert scene.keeper.renew() == POLICY.renew_every
    assert scene.keeper.renewed_at == 105.0


@pytest.mark.behaviour("H17")
def test_an_error_that_nobody_classified_does_not_end_the_renewals_either() -> None:
    scene = Scene(ValueError("odd"))
    assert [scene.keeper.renew(), scene.keeper.renew()] == [RETRY_EVERY, POLICY.renew_every]
    assert scene.told == [StoreTroubled(during="renewal", error="ValueError")]


def test_trouble_that_comes_back_is_told_again() -> None:
    scene = Scene(StoreBusy("x"), None, StoreBusy("x"))
    for _ in range(3):
        scene.keeper.renew()
    assert len(scene.told) == 2


@pytest.mark.behaviour("H16")
@pytest.mark.parametrize(("still", "stalled"), [(120.0, False), (120.001, True)])
def test_past_the_stall_limit_the_lease_is_given_up_and_proves_nothing(still: float, stalled: bool) -> None:
    scene = Scene()
    scene.now += still
    scene.keeper.renew()
    assert scene.stalled == [stalled]
    assert (scene.keeper.renewed_at == scene.now) is not stalled
    assert (scene.renewed == []) is stalled


def test_a_loop_that_runs_again_gets_its_lease_back() -> None:
    scene = Scene()
    scene.now += 500.0
    scene.keeper.renew()
    scene.keeper.beat_at = scene.now
    scene.keeper.renew()
    assert scene.stalled == [True, False]
    assert len(scene.renewed) == 1


def test_a_renewal_tells_the_loops_lag_as_it_was_last_told_and_how_long_it_has_been_silent() -> None:
    scene = Scene()
    scene.keeper.renew()
    scene.keeper.lag = 0.2
    scene.now += BEAT_EVERY  # the next beat is due at this very moment
    scene.keeper.renew()
    scene.now += 30.0
    scene.keeper.renew()
    scene.keeper.beat_at, scene.keeper.lag = scene.now, 30.0
    scene.keeper.renew()
    assert scene.lags == [0.0, 0.2, 30.0, 30.0]


def test_the_thread_renews_until_it_is_closed_and_then_gives_the_connection_back() -> None:
    entered = threading.Event()
    scene = Scene(while_renewing=entered.set)
    pacer = RenewalThread()
    pacer.start(scene.keeper)
    assert entered.wait(10)
    pacer.close()
    assert scene.closed
    assert not [thread for thread in threading.enumerate() if thread.name == "outlast-renewal"]


def test_a_thread_that_never_started_is_closed_without_harm() -> None:
    RenewalThread().close()
