"""A store that does not answer is asked again until it does, ever more rarely, and told of once."""

import asyncio

import pytest

from outlast.errors import Fenced, StoreBusy, StoreUnavailable
from outlast.facts import Fact, StoreTroubled
from outlast.server.conditions import Conditions
from outlast.server.patience import CAP, insist

pytestmark = [pytest.mark.anyio, pytest.mark.virtual]


class Store:
    """Answers after as many failures as it is told, and notes when it was asked."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.asked_at: list[float] = []

    async def answer(self) -> str:
        self.asked_at.append(asyncio.get_running_loop().time())
        if self.failures:
            raise self.failures.pop(0)
        return "answer"


async def ask(store: Store) -> tuple[str, list[Fact]]:
    told: list[Fact] = []
    conditions = Conditions(report=told.append, mint=str, jitter=lambda: 0.5)
    return await insist(store.answer, during="append", conditions=conditions), told


async def test_an_answer_at_once_is_returned_and_nothing_is_told() -> None:
    assert await ask(Store()) == ("answer", [])


@pytest.mark.behaviour("H8")
async def test_a_store_that_is_away_is_asked_until_it_answers_and_told_of_once() -> None:
    store = Store(StoreUnavailable("x"), StoreBusy("x"), StoreUnavailable("x"))
    answer, told = await ask(store)
    assert (answer, len(store.asked_at)) == ("answer", 4)
    assert told == [StoreTroubled(during="append", error="store_unavailable")]


async def test_the_waits_double_up_to_a_second() -> None:
    store = Store(*(StoreUnavailable("x") for _ in range(8)))
    await ask(store)
    waits = [later - earlier for earlier, later in zip(store.asked_at, store.asked_at[1:], strict=False)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, CAP, CAP, CAP])


@pytest.mark.parametrize("refusal", [Fenced("x"), ValueError("x")])
async def test_any_other_error_is_an_answer(refusal: Exception) -> None:
    store = Store(StoreUnavailable("x"), refusal)
    with pytest.raises(type(refusal)):
        await ask(store)
    assert len(store.asked_at) == 2


async def test_who_waits_can_be_cancelled() -> None:
    store = Store(*(StoreUnavailable("x") for _ in range(1000)))
    asking = asyncio.create_task(ask(store))
    await asyncio.sleep(30)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
